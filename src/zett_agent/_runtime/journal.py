"""The pen of a request: it writes the session's log before the effects it tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from zett_agent._runtime.transcript import History, Transcript
from zett_agent._runtime.waitbook import Ticket
from zett_agent.messages import AnyMessage, SystemMessage, ToolCall, UserMessage
from zett_agent.model import ModelUsage
from zett_agent.storage import records
from zett_agent.storage.base import Lease, SessionStore
from zett_agent.storage.messages import decode_message
from zett_agent.storage.records import NewRecord, Record, RecordKind, Timing
from zett_agent.waits import WaitState

#: Seconds that a claim lasts without a sign of life; it is renewed three times as often.
LEASE_SECONDS = 30.0


class Journal:
    """Appends the records of one request to a session store, under that session's lease."""

    __slots__ = ("_closed", "_lease", "_request_id", "_store")

    def __init__(self, store: SessionStore, lease: Lease, request_id: str) -> None:
        self._store = store
        self._lease = lease
        self._request_id = request_id
        self._closed = False

    @classmethod
    async def claim(cls, store: SessionStore, session_id: str, request_id: str) -> Journal:
        """Become the session's one writer; SessionBusyError when another process is."""
        return cls(store, await store.claim(session_id, request_id, ttl=LEASE_SECONDS), request_id)

    async def keep(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            self._lease = await self._store.renew(self._lease)

    async def history(self) -> History:
        """The session's history so far."""
        return replay(await self._store.load(self._lease.session_id))

    async def release(self) -> None:
        """Give the session back."""
        await self._store.release(self._lease)

    async def opened(
        self, kind: str, parent_session_id: str | None, metadata: Mapping[str, Any], tags: Mapping[str, Any]
    ) -> None:
        """The request begins."""
        await self._write(
            records.request_opened(
                self._request_id,
                parent_session_id=parent_session_id,
                input_kind=kind,
                metadata=metadata,
                tags=tags,
                at=_now(),
            )
        )

    async def message(self, message: AnyMessage, timing: Timing, usage: ModelUsage | None) -> None:
        """A message joined the history. System messages are made anew for each request and not stored."""
        if message.persist and not isinstance(message, SystemMessage):
            record = records.message(message, request_id=self._request_id, timing=timing, usage=usage, at=_now())
            await self._write(record)

    async def call_started(self, call: ToolCall) -> None:
        """A call is about to have its effect."""
        await self._write(records.call_started(self._request_id, call, at=_now()))

    async def wait(self, ticket: Ticket) -> None:
        """A wait opened, was answered, or ended without an answer."""
        wait, state = ticket.wait, ticket.state
        if not ticket.recorded:
            ticket.recorded = True
            await self._write(records.wait_opened(wait))
        if state is WaitState.ANSWERED and ticket.answer is not None:
            await self._write(records.wait_answered(wait.id, ticket.answer, at=_now()))
        elif state is not WaitState.OPEN:
            await self._write(records.wait_closed(wait.id, state, at=_now()))

    async def closed(self, outcome: str, error: BaseException | None = None) -> None:
        """The request reached its outcome; only the first is written."""
        if self._closed:
            return
        self._closed = True
        kind, text = (type(error).__name__, str(error)) if error is not None else (None, None)
        record = records.request_closed(self._request_id, outcome, error_type=kind, error_text=text, at=_now())
        await self._write(record)

    async def _write(self, record: NewRecord) -> None:
        await self._store.append(self._lease, (record,))


def replay(log: Iterable[Record]) -> History:
    """The history that a log tells, with every result at its place and unanswered input replaced by what followed."""
    transcript = Transcript()
    fresh = False
    for record in log:
        if record.kind is RecordKind.REQUEST_OPENED:
            fresh = record.body["input_kind"] == "user"
        if record.kind is not RecordKind.MESSAGE:
            continue
        message = decode_message(record.body["message"])
        if fresh and isinstance(message, UserMessage):
            fresh = False
            transcript.mark_restored()
            transcript.drop_unanswered_input()
        if message.include_in_messages:
            transcript.adopt(message)
    return transcript.view()


def _now() -> datetime:
    return datetime.now(UTC)
