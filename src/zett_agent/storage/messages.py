"""Messages as JSON: ``{"kind": 3, "data": {...}}``, every field by its own name.

Bytes are found only as the base64 text of an image's source, a place that is known by structure: nothing in user data
is ever taken for an escape.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, cast

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageSource,
    ImageUrlSource,
    Message,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContent,
    UserContentPart,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason
from zett_agent.storage.strict import Fields, checked_json, checked_object, optional_string, string


class MessageKind(IntEnum):
    """The number by which a stored message names its class."""

    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    TOOL = 4
    CHECKPOINT = 5
    AGENT = 6


@dataclass(frozen=True, slots=True)
class _Entry:
    """How one class is written and read; ``extra`` are the fields that a registered subclass adds."""

    kind: int
    cls: type[Message]
    write: Callable[[Any], dict[str, JsonValue]]
    read: Callable[[Fields], dict[str, Any]]
    extra: tuple[str, ...] = ()


def encode_message(message: Message) -> dict[str, JsonValue]:
    """Return ``message`` as strict JSON that shares nothing with it.

    A subclass that is not registered is written as its nearest known base class. What is not JSON (tuples, dates, NaN
    and infinity included) raises StoredFormatError, which names the key. Lone surrogates are replaced, except in
    ``replay_blocks``, which are opaque and stay as they are.
    """
    entry = _entry_of(type(message))
    data = entry.write(message)
    for name in entry.extra:
        data[name] = checked_json(getattr(message, name), name)
    data["attributes"] = checked_object(message.attributes, "attributes")
    data["persist"] = _flag(message.persist, "persist")
    data["include_in_messages"] = _flag(message.include_in_messages, "include_in_messages")
    return {"kind": entry.kind, "data": data}


def decode_message(value: JsonValue) -> AnyMessage:
    """Return the message that ``encode_message`` wrote; what is broken or unknown raises StoredFormatError.

    ``tool_calls`` and ``replay_blocks`` come back as tuples, lists of content parts as lists. Unknown keys are ignored.
    A checkpoint whose class is not loaded comes back as the UserMessage that it is.
    """
    outer = Fields(value, "message")
    entry = _BY_KIND.get(outer.integer("kind"))
    if entry is None:
        raise StoredFormatError(f"message.kind {outer.data['kind']} is unknown to this version")
    data = outer.part("data")
    values = entry.read(data)
    values["attributes"] = data.mapping("attributes")
    values["persist"] = data.flag("persist")
    values["include_in_messages"] = data.flag("include_in_messages")
    values |= {name: checked_json(data.data[name], f"{data.where}.{name}") for name in entry.extra if name in data.data}
    try:
        return cast("AnyMessage", entry.cls(**values))
    except (TypeError, ValueError) as error:
        raise StoredFormatError(f"{data.where} makes no {entry.cls.__name__}: {error}") from None


def register_message_type(kind: int, cls: type[Message]) -> None:
    """Give a subclass of a message class a kind of its own, so that it is stored and restored as itself.

    Fields that it adds must hold JSON. A kind, once given, stays with its class; ValueError when it is taken.
    """
    known = _BY_KIND.get(kind)
    if known is not None and known.cls is cls:
        return
    if cls in _BY_CLASS or (known is not None and known is not _CHECKPOINT):
        raise ValueError(f"kind {kind} or {cls.__name__} is already registered")
    base = _entry_of(cls)
    extra = tuple(item.name for item in fields(cls) if item.name not in base.cls.__dataclass_fields__)
    _enter(_Entry(int(kind), cls, base.write, base.read, base.extra + extra))


def encode_call(call: ToolCall, field: str = "call") -> dict[str, JsonValue]:
    """Return a call as strict JSON."""
    return {
        "id": string(call.id, f"{field}.id"),
        "name": string(call.name, f"{field}.name"),
        "arguments": checked_object(call.arguments, f"{field}.arguments"),
        "error": optional_string(call.error, f"{field}.error"),
    }


def decode_call(value: JsonValue, field: str = "call") -> ToolCall:
    """Return the call that ``encode_call`` wrote."""
    data = Fields(value, field)
    return ToolCall(data.text("id"), data.text("name"), data.mapping("arguments"), data.optional_text("error"))


def _entry_of(cls: type[Message]) -> _Entry:
    for base in cls.__mro__:
        entry = _BY_CLASS.get(base)
        if entry is not None:
            return entry
    raise StoredFormatError(f"{cls.__name__} is not a kind of message that can be stored")


def _flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise StoredFormatError(f"{field} must be True or False, not {type(value).__name__}")
    return value


def _write_text(message: SystemMessage | AgentMessage) -> dict[str, JsonValue]:
    return {"content": string(message.content, "content")}


def _read_text(data: Fields) -> dict[str, Any]:
    return {"content": data.text("content")}


def _write_user(message: UserMessage) -> dict[str, JsonValue]:
    return {"content": _write_content(message.content)}


def _read_user(data: Fields) -> dict[str, Any]:
    return {"content": _read_content(data)}


def _write_tool(message: ToolMessage) -> dict[str, JsonValue]:
    return {
        "tool_call_id": string(message.tool_call_id, "tool_call_id"),
        "name": string(message.name, "name"),
        "content": _write_content(message.content),
        "success": _flag(message.success, "success"),
    }


def _read_tool(data: Fields) -> dict[str, Any]:
    return {
        "tool_call_id": data.text("tool_call_id"),
        "name": data.text("name"),
        "content": _read_content(data),
        "success": data.flag("success"),
    }


def _write_assistant(message: AssistantMessage) -> dict[str, JsonValue]:
    return {
        "content": string(message.content, "content"),
        "reasoning": optional_string(message.reasoning, "reasoning"),
        "tool_calls": [encode_call(call, f"tool_calls[{index}]") for index, call in enumerate(message.tool_calls)],
        "provider": optional_string(message.provider, "provider"),
        "model": optional_string(message.model, "model"),
        "replay_blocks": checked_json(list(message.replay_blocks), "replay_blocks", opaque=True),
        "stop": None if message.stop is None else _write_stop(message.stop),
    }


def _read_assistant(data: Fields) -> dict[str, Any]:
    calls = data.array("tool_calls")
    return {
        "content": data.text("content"),
        "reasoning": data.optional_text("reasoning"),
        "tool_calls": tuple(decode_call(call, f"tool_calls[{index}]") for index, call in enumerate(calls)),
        "provider": data.optional_text("provider"),
        "model": data.optional_text("model"),
        "replay_blocks": _read_replay(data.array("replay_blocks")),
        "stop": None if data.data.get("stop") is None else _read_stop(data.part("stop")),
    }


def _read_replay(blocks: list[Any]) -> tuple[JsonValue, ...]:
    return tuple(checked_json(block, f"replay_blocks[{index}]", opaque=True) for index, block in enumerate(blocks))


def _write_stop(stop: StopInfo) -> dict[str, JsonValue]:
    return {
        "reason": string(stop.reason, "stop.reason"),
        "raw": optional_string(stop.raw, "stop.raw"),
        "category": optional_string(stop.category, "stop.category"),
        "message": optional_string(stop.message, "stop.message"),
        "recommended_model": optional_string(stop.recommended_model, "stop.recommended_model"),
        "detail": checked_object(stop.detail, "stop.detail"),
    }


def _read_stop(data: Fields) -> StopInfo:
    try:
        reason = StopReason(data.text("reason"))
    except ValueError:
        raise data.wrong("reason", "a known stop reason") from None
    return StopInfo(
        reason,
        data.optional_text("raw"),
        data.optional_text("category"),
        data.optional_text("message"),
        data.optional_text("recommended_model"),
        data.mapping("detail"),
    )


def _write_content(content: UserContent) -> JsonValue:
    if isinstance(content, str):
        return string(content, "content")
    if not isinstance(content, list):
        raise StoredFormatError(f"content must be a string or a list of parts, not {type(content).__name__}")
    return [_write_part(part, f"content[{index}]") for index, part in enumerate(content)]


def _read_content(data: Fields) -> UserContent:
    content = data.data.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise data.wrong("content", "a string or a list of parts")
    return [_read_part(Fields(part, f"content[{index}]")) for index, part in enumerate(content)]


def _write_part(part: UserContentPart, field: str) -> dict[str, JsonValue]:
    if isinstance(part, TextContent):
        return {"text": string(part.text, f"{field}.text")}
    if isinstance(part, ImageContent):
        return {
            "source": _write_source(part.source, field),
            "detail": string(part.detail, f"{field}.detail"),
            "alt_text": optional_string(part.alt_text, f"{field}.alt_text"),
        }
    raise StoredFormatError(f"{field} must be TextContent or ImageContent, not {type(part).__name__}")


def _read_part(data: Fields) -> UserContentPart:
    if "text" in data.data:
        return TextContent(data.text("text"))
    try:
        source, detail = _read_source(data.part("source")), ImageDetail(data.text("detail"))
        return ImageContent(source, detail, data.optional_text("alt_text"))
    except ValueError as error:
        raise StoredFormatError(f"{data.where} is not an image: {error}") from None


def _write_source(source: ImageSource, field: str) -> dict[str, JsonValue]:
    if isinstance(source, ImageUrlSource):
        return {"url": string(source.url, f"{field}.source.url")}
    return {
        "data": base64.b64encode(source.data).decode("ascii"),
        "media_type": string(source.media_type, f"{field}.source.media_type"),
    }


def _read_source(data: Fields) -> ImageSource:
    if "url" in data.data:
        return ImageUrlSource(data.text("url"))
    return ImageBytesSource(base64.b64decode(data.text("data"), validate=True), data.text("media_type"))


MESSAGE_TYPES: dict[int, type[Message]] = {}
"""The class of each kind; ``register_message_type`` adds to it."""

_BY_KIND: dict[int, _Entry] = {}
_BY_CLASS: dict[type[Message], _Entry] = {}


def _enter(entry: _Entry) -> None:
    _BY_KIND[entry.kind] = entry
    _BY_CLASS.setdefault(entry.cls, entry)
    MESSAGE_TYPES[entry.kind] = entry.cls


# Until the compaction extension registers its own class, a checkpoint is read as a user message.
_CHECKPOINT = _Entry(MessageKind.CHECKPOINT.value, UserMessage, _write_user, _read_user)

for _entry in (
    _Entry(MessageKind.SYSTEM.value, SystemMessage, _write_text, _read_text),
    _Entry(MessageKind.USER.value, UserMessage, _write_user, _read_user),
    _Entry(MessageKind.ASSISTANT.value, AssistantMessage, _write_assistant, _read_assistant),
    _Entry(MessageKind.TOOL.value, ToolMessage, _write_tool, _read_tool),
    _CHECKPOINT,
    _Entry(MessageKind.AGENT.value, AgentMessage, _write_text, _read_text),
):
    _enter(_entry)
