"""Session logs in the memory of this process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from zett_agent.exceptions import SessionBusyError, StorageError
from zett_agent.storage.base import Lease, LogState, SessionInfo
from zett_agent.storage.codec import decode_record, encode_record
from zett_agent.storage.records import NewRecord, Record, wait_answered
from zett_agent.waits import ExternalEvent, Wait


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Log:
    """One session. Records are kept as their lines: small, and out of reach of whoever holds a body."""

    lines: list[str] = field(default_factory=list)
    state: LogState = field(default_factory=LogState)
    lease: Lease | None = None
    ttl: float = 0.0

    def append(self, session_id: str, records: Sequence[NewRecord]) -> None:
        state, lines = self.state.copy(), []
        for seq, new in enumerate(records, state.last_seq + 1):
            record = new.numbered(session_id, seq)
            lines.append(encode_record(record))
            state.apply(record)
        self.lines += lines
        self.state = state

    def live_lease(self, now: datetime) -> Lease | None:
        return self.lease if self.lease is not None and self.lease.expires_at > now else None


class MemorySessionStore:
    """A SessionStore that lives as long as the process, for tests and for agents whose sessions need not survive it.

    It may be used from several threads and event loops. It keeps what is put into it until ``forget`` or ``close``.
    ``clock`` gives aware UTC times.
    """

    def __init__(self, *, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # held for microseconds, and never across an await
        self._logs: dict[str, _Log] = {}
        self._fence = 0  # of the whole store: a forgotten session's old lease never fits its next log
        self._closed = False

    async def claim(self, session_id: str, holder: str, *, ttl: float) -> Lease:
        """Become the one writer for ``ttl`` seconds; SessionBusyError names another live holder."""
        if not 0 < ttl < math.inf:
            raise ValueError(f"ttl must be a finite number of seconds above 0, not {ttl}")
        with self._lock:
            self._check_open()
            log = self._logs.get(session_id) or _Log()
            now = self._clock()
            live = log.live_lease(now)
            if live is not None and live.holder != holder:
                raise SessionBusyError(session_id, live.holder)
            self._fence += 1
            log.lease = Lease(session_id, holder, self._fence, now + timedelta(seconds=ttl))
            log.ttl = ttl
            self._logs[session_id] = log
            return log.lease

    async def renew(self, lease: Lease) -> Lease:
        """Return the lease with its whole time to live ahead; StorageError when it is lost."""
        with self._lock:
            log = self._held(lease)
            log.lease = replace(lease, expires_at=self._clock() + timedelta(seconds=log.ttl))
            return log.lease

    async def release(self, lease: Lease) -> None:
        """Give the session back; nothing happens when the lease is lost or released already."""
        with self._lock:
            self._check_open()
            log = self._logs.get(lease.session_id)
            if log is None or not _fits(log, lease):
                return
            log.lease = None
            if not log.lines:
                del self._logs[lease.session_id]

    async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
        """Append all of ``records`` or none, and return the log's last seq."""
        with self._lock:
            log = self._held(lease)
            log.append(lease.session_id, records)
            return log.state.last_seq

    async def load(self, session_id: str, after: int = 0) -> Sequence[Record]:
        """Return the records with a seq above ``after``, in order; empty when the session is unknown."""
        with self._lock:
            log = self._find(session_id)
            lines = [] if log is None else log.lines[max(after, 0) :]
        return [decode_record(line) for line in lines]

    async def waits(self, session_id: str) -> Sequence[Wait]:
        """Return the open waits, oldest first."""
        with self._lock:
            log = self._find(session_id)
            return [] if log is None else list(log.state.waits.values())

    async def answer(self, session_id: str, wait_id: str, event: ExternalEvent) -> bool:
        """Record the answer to an open wait, without a lease; the first wins."""
        with self._lock:
            log = self._find(session_id)
            if log is None or wait_id not in log.state.waits:
                return False
            log.append(session_id, [wait_answered(wait_id, event, at=self._clock())])
            return True

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions that have a record, the latest updated first."""
        with self._lock:
            self._check_open()
            now = self._clock()
            infos = [_info(session_id, log, now) for session_id, log in self._logs.items() if log.lines]
        return sorted(infos, key=lambda info: info.updated_at, reverse=True)

    async def close(self) -> None:
        """Forget everything; every other call then raises StorageError."""
        with self._lock:
            self._closed = True
            self._logs.clear()

    def forget(self, session_id: str) -> None:
        """Drop a session with its log, its waits and its lease, whoever holds it."""
        with self._lock:
            self._logs.pop(session_id, None)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")

    def _find(self, session_id: str) -> _Log | None:
        self._check_open()
        return self._logs.get(session_id)

    def _held(self, lease: Lease) -> _Log:
        log = self._find(lease.session_id)
        if log is None or not _fits(log, lease):
            raise StorageError(f"{lease.holder!r} has lost its lease of session {lease.session_id!r}")
        return log


def _fits(log: _Log, lease: Lease) -> bool:
    return log.lease is not None and log.lease.fence == lease.fence


def _info(session_id: str, log: _Log, now: datetime) -> SessionInfo:
    live, state = log.live_lease(now), log.state
    assert state.updated_at is not None  # it has records
    holder = None if live is None else live.holder
    return SessionInfo(session_id, state.last_seq, state.state(held=live is not None), state.updated_at, holder)
