"""Who waits for a place among the running children of a session, first come, first served."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable


class Turns:
    """Places that were taken and hold no child yet, and those who wait for one.

    ``is_free`` says whether a session has room for one more, with the places counted that are ``taken`` here.
    """

    __slots__ = ("_is_free", "_queues", "taken")

    def __init__(self, is_free: Callable[[str], bool]) -> None:
        self._is_free = is_free
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self.taken: Counter[str] = Counter()

    @property
    def empty(self) -> bool:
        """True when nobody waits and no place is taken."""
        return not (self.taken or self._queues)

    def take(self, session_id: str) -> bool:
        """Take a place if there is one and nobody else waits for it."""
        if session_id in self._queues or not self._is_free(session_id):
            return False
        self.taken[session_id] += 1
        return True

    async def wait(self, session_id: str) -> None:
        """Take a place as soon as there is one; a cancel leaves the queue."""
        if self.take(session_id):
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(session_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self.call_next(session_id)  # forgets who has left
            else:
                self.give_back(session_id)
            raise

    def give_back(self, session_id: str) -> None:
        """The place was not used: the next one has it."""
        self.use(session_id)
        self.call_next(session_id)

    def use(self, session_id: str) -> None:
        """The place is held by a child from now on."""
        self.taken -= Counter((session_id,))  # drops the entry at zero

    def call_next(self, session_id: str) -> None:
        """A child is gone: hand its place on."""
        queue = self._queues.get(session_id, deque())
        while queue and (queue[0].done() or self._is_free(session_id)):
            turn = queue.popleft()
            if not turn.done():
                self.taken[session_id] += 1
                turn.set_result(None)
        if not queue:
            self._queues.pop(session_id, None)
