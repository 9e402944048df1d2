"""Records as one line of JSON text each, and what their bodies hold as values again.

Reading is strict: what is broken, of a newer format or of an unknown kind raises StoredFormatError, which says where
and never what the text held. Keys that this version does not know are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue
from zett_agent.messages import AnyMessage, Message
from zett_agent.model import ModelUsage
from zett_agent.storage.messages import (
    MESSAGE_TYPES,
    MessageKind,
    decode_call,
    decode_message,
    encode_call,
    encode_message,
    register_message_type,
)
from zett_agent.storage.records import FORMAT_VERSION, Record, RecordKind, encode_event, encode_wait
from zett_agent.storage.strict import Fields, from_text, string, time_text, to_line
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "MESSAGE_TYPES",
    "MessageKind",
    "decode_call",
    "decode_event",
    "decode_message",
    "decode_messages",
    "decode_record",
    "decode_timing",
    "decode_usage",
    "decode_wait",
    "encode_call",
    "encode_event",
    "encode_message",
    "encode_messages",
    "encode_record",
    "encode_wait",
    "register_message_type",
]


def encode_record(record: Record) -> str:
    """Return the record as one line of JSON without its line break; the same record gives the same text."""
    value = {
        "format": record.format,
        "session_id": string(record.session_id, "session_id"),
        "seq": record.seq,
        "at": time_text(record.at, "at"),
        "kind": record.kind.value,
        "body": record.body,
    }
    return to_line(value, "record")


def decode_record(line: str) -> Record:
    """Return the record of a line; a format newer than FORMAT_VERSION is refused before anything else is looked at."""
    data = Fields(from_text(line), "record")
    version = data.integer("format")
    if version > FORMAT_VERSION:
        raise StoredFormatError(f"a record has format {version}; this version reads formats up to {FORMAT_VERSION}")
    if version < 1:
        raise StoredFormatError(f"a record has format {version}; the first format is 1")
    seq = data.integer("seq")
    if seq < 1:
        raise StoredFormatError(f"record.seq must be at least 1, not {seq}")
    kind, body = _kind(data), data.part("body").data
    return Record(data.text("session_id"), seq, data.time("at"), kind, version, body)


def _kind(data: Fields) -> RecordKind:
    try:
        return RecordKind(data.text("kind"))
    except ValueError:
        raise data.wrong("kind", "a known kind of record") from None


def decode_wait(value: JsonValue) -> Wait:
    """Return the wait of a ``wait_opened`` body's ``wait``; ``response_events`` comes back as a frozenset."""
    data = Fields(value, "wait")
    return Wait(
        id=data.text("id"),
        session_id=data.text("session_id"),
        request_id=data.text("request_id"),
        extension=data.text("extension"),
        response_events=frozenset(string(name, "wait.response_events") for name in data.array("response_events")),
        correlation_field=data.text("correlation_field"),
        created_at=data.time("created_at"),
        tool=data.optional_text("tool"),
        arguments=data.mapping("arguments"),
        event_name=data.optional_text("event_name"),
        question=None if data.data.get("question") is None else data.mapping("question"),
        expires_at=data.optional_time("expires_at"),
    )


def decode_event(value: JsonValue) -> ExternalEvent:
    """Return the answer of a ``wait_answered`` body's ``event``."""
    data = Fields(value, "event")
    try:
        return ExternalEvent(data.text("name"), data.mapping("payload"))
    except ValueError as error:
        raise StoredFormatError(f"event: {error}") from None


def decode_usage(value: JsonValue) -> ModelUsage | None:
    """Return the usage of a ``message`` body's ``usage``, as it was reported."""
    if value is None:
        return None
    data = Fields(value, "usage")
    try:
        return ModelUsage(
            data.integer("input_tokens"),
            data.integer("output_tokens"),
            data.integer("cache_read_tokens"),
            data.integer("cache_write_tokens"),
            data.flag("cache_reported"),
            data.integer("reasoning_tokens"),
        )
    except ValueError as error:
        raise StoredFormatError(f"usage: {error}") from None


def decode_timing(value: JsonValue) -> dict[str, datetime | int]:
    """Return the keyword arguments of the ``MessageTiming`` of a ``message`` body's ``timing``."""
    data = Fields(value, "timing")
    result = _span(data, "")
    for prefix in ("reasoning_", "content_"):
        if f"{prefix}started_at" in data.data:
            result |= _span(data, prefix)
    return result


def _span(data: Fields, prefix: str) -> dict[str, datetime | int]:
    started, completed, duration = f"{prefix}started_at", f"{prefix}completed_at", f"{prefix}duration_ns"
    return {started: data.time(started), completed: data.time(completed), duration: data.integer(duration)}


def encode_messages(messages: Iterable[Message]) -> str:
    """Return messages as one JSON array of ``{"kind", "data"}``; see ``encode_message``."""
    return to_line([encode_message(message) for message in messages], "messages")


def decode_messages(text: str) -> list[AnyMessage]:
    """Return the messages that ``encode_messages`` wrote; see ``decode_message``."""
    value = from_text(text)
    if not isinstance(value, list):
        raise StoredFormatError(f"messages must be a list, not {type(value).__name__}")
    return [decode_message(item) for item in value]
