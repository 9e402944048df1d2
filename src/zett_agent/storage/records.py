"""The records of a session's log, and what a writer appends.

Each constructor below returns the NewRecord of one kind; its body is strict JSON and shares nothing with its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue
from zett_agent.messages import AnyMessage, ToolCall
from zett_agent.model import ModelUsage
from zett_agent.storage.messages import encode_call, encode_message
from zett_agent.storage.strict import checked_object, optional_string, string, time_text
from zett_agent.waits import ExternalEvent, Wait, WaitState

FORMAT_VERSION = 1
"""The format that this version writes; older ones are read, newer ones are refused."""


class RecordKind(StrEnum):
    """What a record tells."""

    REQUEST_OPENED = "request_opened"
    MESSAGE = "message"
    CALL_STARTED = "call_started"
    WAIT_OPENED = "wait_opened"
    WAIT_ANSWERED = "wait_answered"
    WAIT_CLOSED = "wait_closed"
    CHECKPOINT = "checkpoint"
    REQUEST_CLOSED = "request_closed"
    TASK = "task"
    EXTENSION = "extension"


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a log. ``seq`` counts from 1 without gaps; ``at`` is aware UTC; ``body`` is never changed."""

    session_id: str
    seq: int
    at: datetime
    kind: RecordKind
    format: int
    body: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class NewRecord:
    """What a writer appends; the store adds the session and ``seq``. Made by the constructors of this module."""

    kind: RecordKind
    body: dict[str, JsonValue]
    at: datetime

    def numbered(self, session_id: str, seq: int) -> Record:
        """The record that a store keeps, in this version's format."""
        return Record(session_id, seq, self.at, self.kind, FORMAT_VERSION, self.body)


class Timing(Protocol):
    """When a message was made, as ``MessageTiming`` tells it: aware times and nanoseconds."""

    @property
    def started_at(self) -> datetime:
        """The start."""
        ...

    @property
    def completed_at(self) -> datetime:
        """The end."""
        ...

    @property
    def duration_ns(self) -> int:
        """The time between, by a monotonic clock."""
        ...

    @property
    def reasoning_started_at(self) -> datetime | None:
        """The start of the reasoning."""
        ...

    @property
    def reasoning_completed_at(self) -> datetime | None:
        """The end of the reasoning."""
        ...

    @property
    def reasoning_duration_ns(self) -> int | None:
        """The time spent reasoning."""
        ...

    @property
    def content_started_at(self) -> datetime | None:
        """The start of the answer's text."""
        ...

    @property
    def content_completed_at(self) -> datetime | None:
        """The end of the answer's text."""
        ...

    @property
    def content_duration_ns(self) -> int | None:
        """The time between both."""
        ...


def request_opened(
    request_id: str,
    *,
    parent_session_id: str | None,
    input_kind: str,
    metadata: Mapping[str, Any] | None,
    tags: Mapping[str, Any] | None,
    at: datetime,
) -> NewRecord:
    """A request began; ``input_kind`` says what started it."""
    body: dict[str, JsonValue] = {
        "request_id": string(request_id, "request_id"),
        "parent_session_id": optional_string(parent_session_id, "parent_session_id"),
        "input_kind": string(input_kind, "input_kind"),
        "metadata": checked_object(metadata or {}, "metadata"),
        "tags": checked_object(tags or {}, "tags"),
    }
    return NewRecord(RecordKind.REQUEST_OPENED, body, at)


def message(
    message: AnyMessage, *, request_id: str, timing: Timing | None = None, usage: ModelUsage | None = None, at: datetime
) -> NewRecord:
    """A message joined the history; ``usage`` are the tokens of the model step that made it."""
    body: dict[str, JsonValue] = {
        "request_id": string(request_id, "request_id"),
        "message": encode_message(message),
        "timing": None if timing is None else _timing(timing),
        "usage": None if usage is None else _usage(usage),
    }
    return NewRecord(RecordKind.MESSAGE, body, at)


def call_started(request_id: str, call: ToolCall, *, at: datetime) -> NewRecord:
    """A call is about to have its effect: appended before the handler runs."""
    body: dict[str, JsonValue] = {"request_id": string(request_id, "request_id"), "call": encode_call(call)}
    return NewRecord(RecordKind.CALL_STARTED, body, at)


def wait_opened(wait: Wait, *, at: datetime | None = None) -> NewRecord:
    """A call waits for an outside answer; ``at`` defaults to the wait's own time.

    Append it once per wait: a resumed request asks again without it, since a second one opens the wait anew.
    """
    return NewRecord(RecordKind.WAIT_OPENED, {"wait": encode_wait(wait)}, at or wait.created_at)


def wait_answered(wait_id: str, event: ExternalEvent, *, at: datetime) -> NewRecord:
    """The first answer came."""
    body: dict[str, JsonValue] = {"wait_id": string(wait_id, "wait_id"), "event": encode_event(event)}
    return NewRecord(RecordKind.WAIT_ANSWERED, body, at)


def wait_closed(wait_id: str, state: WaitState, *, at: datetime) -> NewRecord:
    """A wait ended without an answer: it expired or was abandoned."""
    if state not in (WaitState.EXPIRED, WaitState.ABANDONED):
        raise ValueError(f"a wait closes as expired or abandoned, not {state}")
    return NewRecord(RecordKind.WAIT_CLOSED, {"wait_id": string(wait_id, "wait_id"), "state": state.value}, at)


def request_closed(
    request_id: str, outcome: str, *, error_type: str | None = None, error_text: str | None = None, at: datetime
) -> NewRecord:
    """A request reached its outcome; the error is given by the name of its type and its text."""
    error: dict[str, JsonValue] | None = None
    if error_type is not None:
        error = {"type": string(error_type, "error_type"), "text": string(error_text or "", "error_text")}
    body: dict[str, JsonValue] = {
        "request_id": string(request_id, "request_id"),
        "outcome": string(outcome, "outcome"),
        "error": error,
    }
    return NewRecord(RecordKind.REQUEST_CLOSED, body, at)


def checked(kind: RecordKind, body: Mapping[str, object], *, at: datetime) -> NewRecord:
    """A record of any kind (``task``, ``extension``, ``checkpoint``) whose body is checked and copied."""
    return NewRecord(kind, checked_object(body, "body"), at)


def encode_wait(wait: Wait) -> dict[str, JsonValue]:
    """Return a wait as strict JSON; ``response_events`` are sorted."""
    return {
        "id": string(wait.id, "wait.id"),
        "session_id": string(wait.session_id, "wait.session_id"),
        "request_id": string(wait.request_id, "wait.request_id"),
        "extension": string(wait.extension, "wait.extension"),
        "response_events": [string(name, "wait.response_events") for name in sorted(wait.response_events)],
        "correlation_field": string(wait.correlation_field, "wait.correlation_field"),
        "created_at": time_text(wait.created_at, "wait.created_at"),
        "tool": optional_string(wait.tool, "wait.tool"),
        "arguments": checked_object(wait.arguments, "wait.arguments"),
        "event_name": optional_string(wait.event_name, "wait.event_name"),
        "question": None if wait.question is None else checked_object(wait.question, "wait.question"),
        "expires_at": None if wait.expires_at is None else time_text(wait.expires_at, "wait.expires_at"),
    }


def encode_event(event: ExternalEvent) -> dict[str, JsonValue]:
    """Return an answer as strict JSON."""
    return {"name": string(event.name, "event.name"), "payload": checked_object(event.payload, "event.payload")}


def _timing(timing: Timing) -> JsonValue:
    body = _span("", timing.started_at, timing.completed_at, timing.duration_ns)
    if timing.reasoning_started_at is not None:
        reasoning = (timing.reasoning_started_at, timing.reasoning_completed_at, timing.reasoning_duration_ns)
        body |= _span("reasoning_", *reasoning)
    if timing.content_started_at is not None:
        content = (timing.content_started_at, timing.content_completed_at, timing.content_duration_ns)
        body |= _span("content_", *content)
    return body


def _span(prefix: str, started: object, completed: object, duration_ns: object) -> dict[str, JsonValue]:
    if not isinstance(duration_ns, int) or not 0 <= duration_ns < 2**63:
        raise StoredFormatError(f"timing.{prefix}duration_ns must be a count of nanoseconds in 63 bits")
    return {
        f"{prefix}started_at": time_text(started, f"timing.{prefix}started_at"),
        f"{prefix}completed_at": time_text(completed, f"timing.{prefix}completed_at"),
        f"{prefix}duration_ns": duration_ns,
    }


def _usage(usage: ModelUsage) -> JsonValue:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_reported": usage.cache_reported,
        "reasoning_tokens": usage.reasoning_tokens,
    }
