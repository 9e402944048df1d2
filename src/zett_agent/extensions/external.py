"""Holding a call until an outside answer arrives."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from zett_agent._runtime.waitbook import Waitbook
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, RunCancelledEvent
from zett_agent.json_types import is_too_deep, json_object
from zett_agent.tools.base import current_tool_call_id
from zett_agent.waits import ExternalEvent, Wait

__all__ = ["ExternalEvent", "ExternalEventExtension"]


class ExternalEventExtension(AgentExtension):
    """Base of extensions that ask and wait: it routes answers, refuses duplicates, wakes the waiter and cleans up.

    ``response_event_name`` is the name (or names) an answer may have; ``correlation_field`` is the key of its payload
    that carries the id of the wait. A subclass holds a call in ``before_tool`` with ``_wait_for_external_event`` and
    reads the answer in its tool with ``_take_external_event``. Acceptance is delivery, not authorization.
    """

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (RunCancelledEvent,)

    def __init__(self, *, response_event_name: str | Collection[str], correlation_field: str) -> None:
        names = [response_event_name] if isinstance(response_event_name, str) else list(response_event_name)
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise ValueError("response_event_name must be one or more non-blank names")
        if not isinstance(correlation_field, str) or not correlation_field.strip():
            raise ValueError("correlation_field must not be blank")
        self.response_event_names = frozenset(names)
        self.correlation_field = correlation_field
        # Where each open wait is kept: an entry lives as long as its wait, never longer.
        self._books: dict[tuple[str, str], Waitbook] = {}
        self._staged: dict[tuple[str, str], ExternalEvent] = {}

    def validate_answer(self, wait: Wait, event: ExternalEvent) -> bool:
        """Say whether ``event`` may end ``wait``; a refused answer changes nothing and the question stays open."""
        return True

    def _wait_for_external_event(
        self,
        context: AgentRunContext,
        correlation_id: str,
        *,
        response_event_name: str | None = None,
        timeout: float | None = None,
        default: ExternalEvent | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Register a wait, let the body ask, then wait and stage the answer for ``_take_external_event``.

        Raises ValueError for a blank id, RuntimeError when the id waits already, ToolTimeoutError when ``timeout``
        seconds pass without an answer and without a ``default``. Closing or cancelling the request removes the wait.
        """
        if not isinstance(correlation_id, str) or not correlation_id.strip():
            raise ValueError("correlation_id must not be blank")
        names = self.response_event_names if response_event_name is None else frozenset({response_event_name})
        return _Hold(self, context, self._new_wait(context, correlation_id, names, timeout), timeout, default)

    def _take_external_event(self, context: AgentRunContext, correlation_id: str | None = None) -> ExternalEvent:
        """The answer that was staged for the running call, or for the given id; RuntimeError when there is none."""
        call_id = correlation_id or current_tool_call_id()
        answer = self._staged.pop((context.session_id, call_id or ""), None)
        if answer is None:
            raise RuntimeError(f"no answer is staged for call {call_id!r}")
        return answer

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Take the first matching answer; everything else (stale, duplicate, malformed, mis-addressed) is refused.

        Malformed is a payload that is no strict JSON, or nested more than 100 deep: no model could be told of it.
        """
        if config is None or config.session_id is None:
            return False
        wait_id = event.payload.get(self.correlation_field)
        book = self._books.get((config.session_id, wait_id)) if isinstance(wait_id, str) else None
        wait = book.find(wait_id) if book is not None and isinstance(wait_id, str) else None
        if book is None or wait is None or event.name not in wait.response_events:
            return False
        if config.request_id is not None and config.request_id != wait.request_id:
            return False
        try:
            payload = json_object(event.payload, field_name="payload")  # a copy: the caller may use its dict again
        except (ValueError, RecursionError):
            return False
        if is_too_deep(payload):
            return False
        kept = replace(event, payload=payload)
        return self.validate_answer(wait, kept) and book.answer(wait.id, kept)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Cancel the waits of a cancelled request."""
        if isinstance(event, RunCancelledEvent):
            self._abandon(context, None)

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        """End the waits of a failed request with its error."""
        self._abandon(context, error)

    def request_finished(self, context: AgentRunContext) -> None:
        """Drop answers that no tool took."""
        super().request_finished(context)
        session_id = context.session_id
        for key in [key for key in self._staged if key[0] == session_id]:
            del self._staged[key]

    def _abandon(self, context: AgentRunContext, error: BaseException | None) -> None:
        for wait in context.waitbook.pending():
            if self._books.get((wait.session_id, wait.id)) is context.waitbook:
                context.waitbook.abandon(wait.id, error)

    def _new_wait(self, context: AgentRunContext, wait_id: str, names: frozenset[str], timeout: float | None) -> Wait:
        now = datetime.now(UTC)
        call = next((call for call in context.transcript.open_calls if call.id == wait_id), None)
        return Wait(
            id=wait_id,
            session_id=context.session_id,
            request_id=context.request_id,
            extension=self.name,
            response_events=names,
            correlation_field=self.correlation_field,
            created_at=now,
            tool=call.name if call is not None else None,
            arguments=dict(call.arguments) if call is not None else {},
            expires_at=now + timedelta(seconds=timeout) if timeout is not None else None,
        )


class _Hold(AbstractAsyncContextManager[None]):
    """One held call: the body asks, then the answer is awaited and staged.

    Thousands may be held at once, so this is no generator with a frame and a wrapper of its own.
    """

    __slots__ = ("_context", "_default", "_owner", "_ticket", "_timeout", "_wait")

    def __init__(
        self,
        owner: ExternalEventExtension,
        context: AgentRunContext,
        wait: Wait,
        timeout: float | None,
        default: ExternalEvent | None,
    ) -> None:
        self._owner, self._context, self._wait = owner, context, wait
        self._timeout, self._default = timeout, default

    async def __aenter__(self) -> None:
        """Open the wait, so that an answer can arrive while the body asks."""
        wait, books = self._wait, self._owner._books
        key = (wait.session_id, wait.id)
        if key in books:
            raise RuntimeError(f"{wait.id!r} of session {wait.session_id!r} waits already")
        self._ticket = self._context.waitbook.open(wait, timeout=self._timeout, default=self._default)
        books[key] = self._context.waitbook

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        """Await the answer, unless the body failed; whatever happens, the wait is over then."""
        ticket, context, key = self._ticket, self._context, (self._wait.session_id, self._wait.id)
        try:
            if kind is None:
                if not ticket.recorded:  # the body asked in a way of its own
                    await context.record_wait(ticket)
                self._owner._staged[key] = await ticket.result()
        finally:
            del self._owner._books[key]
            context.waitbook.remove(self._wait.id)
            if ticket.recorded:
                await context.record_wait(ticket)
