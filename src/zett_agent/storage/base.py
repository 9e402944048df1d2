"""What a store of session logs offers, and what a log says about its session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from zett_agent.exceptions import StorageError
from zett_agent.storage.codec import decode_wait
from zett_agent.storage.records import NewRecord, Record, RecordKind
from zett_agent.storage.strict import Fields
from zett_agent.waits import ExternalEvent, Wait


class SessionState(StrEnum):
    """How a session stands, by its log and its lease.

    ``waiting``: its open request has an open wait, whoever owns it. Else ``running``: someone holds a live lease.
    Else ``interrupted``: its last request has no outcome and nobody works on it: it can be resumed. Else ``idle``.
    """

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to append to a session. ``fence`` grows with every claim: an older holder is shut out for good.

    A lease that ran out can be claimed by others; until someone does, its holder may still append and renew.
    """

    session_id: str
    holder: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of sessions; ``holder`` is who has the live lease."""

    session_id: str
    last_seq: int
    state: SessionState
    updated_at: datetime
    holder: str | None = None


@runtime_checkable
class SessionStore(Protocol):
    """The durable, append-only logs of sessions; ``zett_agent.testing.stores`` checks an implementation.

    Methods may be called concurrently. One that fails, or is cancelled, has done all or nothing.
    """

    async def claim(self, session_id: str, holder: str, *, ttl: float) -> Lease:
        """Become the one writer for ``ttl`` seconds; SessionBusyError names another live holder.

        The same holder may claim again, which ends its older lease.
        """
        ...

    async def renew(self, lease: Lease) -> Lease:
        """Return the lease with its whole time to live ahead; StorageError when it is lost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the session back; nothing happens when the lease is lost or released already."""
        ...

    async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
        """Append all of ``records`` or none, and return the log's last seq.

        StorageError when the lease is lost, or when a ``wait_answered`` is not the first answer to an open wait. The
        records get consecutive seqs. When the first is not the one that the writer expected, answers came in between:
        ``load(session_id, after)`` shows them.
        """
        ...

    async def load(self, session_id: str, after: int = 0) -> Sequence[Record]:
        """Return the records with a seq above ``after``, in order; empty when the session is unknown."""
        ...

    async def waits(self, session_id: str) -> Sequence[Wait]:
        """Return the open waits, oldest first."""
        ...

    async def answer(self, session_id: str, wait_id: str, event: ExternalEvent) -> bool:
        """Record the answer to an open wait, without a lease; the first wins.

        False, and nothing changes, when the wait is unknown, closed or answered.
        """
        ...

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions that have a record, the latest updated first."""
        ...

    async def close(self) -> None:
        """Free what the store holds; it may be called twice, and every other call then raises StorageError."""
        ...


@dataclass(slots=True)
class LogState:
    """What a log says so far; stores that keep no tables of their own fold their records into it."""

    last_seq: int = 0
    updated_at: datetime | None = None
    request_id: str | None = None
    waits: dict[str, Wait] = field(default_factory=dict)

    def copy(self) -> LogState:
        """A state that can go on apart from this one."""
        return LogState(self.last_seq, self.updated_at, self.request_id, dict(self.waits))

    def apply(self, record: Record) -> None:
        """Take in the next record; StorageError when it answers a wait that is not open."""
        body = Fields(record.body, record.kind.value)
        if record.kind is RecordKind.REQUEST_OPENED:
            self.request_id = body.text("request_id")
        elif record.kind is RecordKind.REQUEST_CLOSED:
            self._close_request(body.text("request_id"))
        elif record.kind is RecordKind.WAIT_OPENED:
            wait = decode_wait(record.body.get("wait"))
            self.waits.pop(wait.id, None)
            self.waits[wait.id] = wait
        elif record.kind is RecordKind.WAIT_CLOSED:
            self.waits.pop(body.text("wait_id"), None)
        elif record.kind is RecordKind.WAIT_ANSWERED:
            self._answer(body.text("wait_id"))
        self.last_seq, self.updated_at = record.seq, record.at

    def state(self, *, held: bool) -> SessionState:
        """The session's state; ``held`` says whether someone has a live lease."""
        if self.request_id is not None and self.waits:
            return SessionState.WAITING
        if held:
            return SessionState.RUNNING
        return SessionState.IDLE if self.request_id is None else SessionState.INTERRUPTED

    def _close_request(self, request_id: str) -> None:
        if self.request_id == request_id:
            self.request_id = None

    def _answer(self, wait_id: str) -> None:
        if self.waits.pop(wait_id, None) is None:
            raise StorageError(f"wait {wait_id!r} is not open: it is unknown, closed or answered")
