"""The open questions of one request: who waits, and the first answer that wins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from zett_agent.exceptions import ToolTimeoutError
from zett_agent.json_types import copy_json
from zett_agent.waits import ExternalEvent, Wait, WaitState


class Ticket:
    """One place in the book; ``state`` moves once, from open to answered, expired or abandoned."""

    __slots__ = ("_future", "_loop", "_timer", "answer", "default", "recorded", "state", "wait")

    def __init__(self, wait: Wait, default: ExternalEvent | None) -> None:
        self.wait = wait
        self.default = default
        self.state = WaitState.OPEN
        self.answer: ExternalEvent | None = None
        #: True once the log has the open wait.
        self.recorded = False
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[ExternalEvent] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    def result(self) -> asyncio.Future[ExternalEvent]:
        """The answer, or the declared default once the time is up; ToolTimeoutError when there is none."""
        return self._future  # and no coroutine around it: thousands may wait

    def call_later(self, seconds: float, book: Waitbook) -> None:
        """Let the wait expire after ``seconds``."""
        self._timer = self._loop.call_later(seconds, book.expire, self.wait.id)

    def forget_time(self) -> None:
        """Take the limit away: a timer that is left would keep the wait, and all that it knows, until then."""
        if self._timer is not None:
            self._timer.cancel()

    def wake(self, outcome: ExternalEvent | BaseException | None) -> None:
        """Deliver on the loop that waits, from whichever thread; RuntimeError when that loop is closed."""
        if running_loop() is self._loop:
            self._deliver(outcome)
        else:
            self._loop.call_soon_threadsafe(self._deliver, outcome)

    def _deliver(self, outcome: ExternalEvent | BaseException | None) -> None:
        self.forget_time()
        if self._future.done():
            return
        if outcome is None:
            self._future.cancel()
        elif isinstance(outcome, ExternalEvent):
            self._future.set_result(outcome)
        else:
            self._future.set_exception(outcome)
            self._future.exception()  # marks it as seen: the waiter may be gone


class Watcher(Protocol):
    """Who is told of waits, on the loop that waits."""

    def opened(self, wait_id: str) -> None:
        """A wait was opened."""
        ...

    def closed(self, wait_id: str) -> None:
        """Its waiter has gone on."""
        ...


class Waitbook:
    """The waits of one request. ``answer`` may be called from any thread; the first accepted answer wins."""

    __slots__ = ("_lock", "_open", "watcher")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Ticket] = {}
        self.watcher: Watcher | None = None

    def pending(self) -> tuple[Wait, ...]:
        """The questions that are still open, oldest first."""
        with self._lock:
            return tuple(ticket.wait for ticket in self._open.values() if ticket.state is WaitState.OPEN)

    def find(self, wait_id: str) -> Wait | None:
        """The open wait of this id."""
        ticket = self._open.get(wait_id)
        return ticket.wait if ticket is not None and ticket.state is WaitState.OPEN else None

    def open(self, wait: Wait, *, timeout: float | None = None, default: ExternalEvent | None = None) -> Ticket:
        """Register ``wait``, so that an answer can arrive; RuntimeError when its id waits already."""
        ticket = Ticket(wait, default)
        with self._lock:
            if wait.id in self._open:
                raise RuntimeError(f"{wait.id!r} of session {wait.session_id!r} waits already")
            self._open[wait.id] = ticket
        if timeout is not None:
            ticket.call_later(timeout, self)
        if self.watcher is not None:
            self.watcher.opened(wait.id)
        return ticket

    def remove(self, wait_id: str) -> None:
        """Forget a wait; a later answer is refused."""
        with self._lock:
            ticket = self._open.pop(wait_id, None)
        if ticket is not None:
            ticket.forget_time()
            if ticket.state is WaitState.OPEN:
                ticket.state = WaitState.ABANDONED
            if self.watcher is not None:
                self.watcher.closed(wait_id)

    def answer(self, wait_id: str, event: ExternalEvent) -> bool:
        """Give the answer; False when nobody waits for it (unknown, answered, expired or abandoned)."""
        ticket = self._leave(wait_id, WaitState.ANSWERED, event)
        if ticket is None:
            return False
        try:
            ticket.wake(event)
        except RuntimeError:  # the loop that waited is closed
            ticket.state = WaitState.ABANDONED
            return False
        return True

    def expire(self, wait_id: str) -> bool:
        """End a wait with its declared default, or with ToolTimeoutError; False when it has ended."""
        ticket = self._leave(wait_id, WaitState.EXPIRED, None)
        if ticket is None:
            return False
        ticket.answer = ticket.default
        ticket.wake(ticket.default or ToolTimeoutError("nobody answered in time, and there is no default answer"))
        return True

    def abandon(self, wait_id: str, error: BaseException | None = None) -> None:
        """End a wait without an answer: its waiter is cancelled, or gets ``error``."""
        ticket = self._leave(wait_id, WaitState.ABANDONED, None)
        if ticket is not None:
            ticket.wake(error)

    def abandon_all(self, error: BaseException | None = None) -> None:
        """End every open wait without an answer."""
        for wait in self.pending():
            self.abandon(wait.id, error)

    def note_question(self, event_name: str, payload: Mapping[str, Any]) -> Ticket | None:
        """Keep the payload of an event that asks, so that a client that comes later can show the question.

        A payload that names another session is the question of a subagent that is only passed on.
        """
        with self._lock:
            for ticket in self._open.values():
                wait = ticket.wait
                if payload.get("session_id", wait.session_id) != wait.session_id:
                    continue
                if wait.question is None and payload.get(wait.correlation_field) == wait.id:
                    # Apart from the event, which its consumer may edit.
                    ticket.wait = replace(wait, event_name=event_name, question=_apart(payload))
                    return ticket
        return None

    def _leave(self, wait_id: str, state: WaitState, event: ExternalEvent | None) -> Ticket | None:
        with self._lock:
            ticket = self._open.get(wait_id)
            if ticket is None or ticket.state is not WaitState.OPEN:
                return None
            ticket.state, ticket.answer = state, event
            return ticket


def _apart(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that shares no list and no object with ``payload``, unless that is in itself."""
    try:
        return {key: copy_json(value) for key, value in payload.items()}
    except RecursionError:
        return dict(payload)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
