"""Which requests are to be run in goal mode: armed from outside, taken once, never kept for ever."""

from __future__ import annotations

import threading
from collections import OrderedDict
from time import monotonic

#: Requests that may be armed at once; the oldest are forgotten first.
MAX_ARMED = 1_000


class Arming:
    """The sessions that are armed, each for a named request or for its next one. Safe from any thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._until: OrderedDict[tuple[str, str | None], float] = OrderedDict()
        self._begun: set[tuple[str, str | None]] = set()

    def __len__(self) -> int:
        """How many wait for their request."""
        return len(self._until)

    def arm(self, session_id: str, request_id: str | None) -> bool:
        """Arm a request; False when it is the one that runs already."""
        key, now = (session_id, request_id), monotonic()
        with self._lock:
            if key in self._begun:
                return False
            self._forget(now)
            self._until[key] = now + self._seconds
            self._until.move_to_end(key)
            if len(self._until) > MAX_ARMED:
                self._until.popitem(last=False)
            return True

    def disarm(self, session_id: str, request_id: str | None) -> bool:
        """Take back what ``arm`` did; False when nothing is armed."""
        with self._lock:
            self._forget(monotonic())
            return self._until.pop((session_id, request_id), None) is not None

    def take(self, session_id: str, request_id: str) -> bool:
        """The request begins: was it armed, by its name or as the session's next one?"""
        with self._lock:
            self._forget(monotonic())
            self._begun.add((session_id, request_id))
            return any(self._until.pop((session_id, key), None) is not None for key in (request_id, None))

    def end(self, session_id: str, request_id: str) -> None:
        """The request is over; what armed it by its name is gone with it."""
        with self._lock:
            self._begun.discard((session_id, request_id))
            self._until.pop((session_id, request_id), None)

    def _forget(self, now: float) -> None:
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
