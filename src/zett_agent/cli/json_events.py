"""Events as JSON, for programs that read ``zett run --json``."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from zett_agent.events import AgentEvent
from zett_agent.exceptions import ToolError
from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AssistantMessage,
    ImageBytesSource,
    Message,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContent,
    UserContentPart,
)
from zett_agent.model import ModelResponse
from zett_agent.stop import StopInfo
from zett_agent.tools.results import serialize_result


def event_to_json(event: AgentEvent) -> dict[str, JsonValue]:
    """``event`` as strict JSON: ``type``, ``session_id`` and ``phase`` always, other fields by name if they are set.

    A message has its ``role``, an error its ``type`` and ``message``, bytes are base64. In a CUSTOM payload dates and
    other known types become text, non-finite numbers null, and what has no JSON form its ``repr``.
    """
    result: dict[str, JsonValue] = {
        "type": event.type.value,
        "session_id": event.session_id,
        "phase": None if event.phase is None else event.phase.value,
    }
    for name, encode in _FIELDS.items():
        value = getattr(event, name)
        if value is not None and value != "" and value != []:
            result[name] = encode(value)
    return result


def event_line(event: AgentEvent) -> str:
    """``event`` as one line of ASCII."""
    return json.dumps(event_to_json(event), allow_nan=False, separators=(",", ":"))


def _same(value: Any) -> JsonValue:
    """Any value as JSON that is strict and encodes to UTF-8."""
    try:
        found: JsonValue = json.loads(serialize_result({"value": value}))["value"]
    except ToolError:
        found = json.loads(serialize_result({"value": repr(value)}))["value"]
    return found


def _message(message: Message) -> JsonValue:
    result: dict[str, JsonValue] = {"role": message.role.value}
    if isinstance(message, ToolMessage):
        result |= {"tool_call_id": message.tool_call_id, "name": message.name, "success": message.success}
    result["content"] = _content(getattr(message, "content", ""))
    if isinstance(message, AssistantMessage):
        if message.reasoning is not None:
            result["reasoning"] = _same(message.reasoning)
        result["tool_calls"] = _calls(message.tool_calls)
        if message.stop is not None:
            result["stop"] = _stop(message.stop)
    return result


def _content(content: UserContent) -> JsonValue:
    return _same(content) if isinstance(content, str) else [_part(part) for part in content]


def _part(part: UserContentPart) -> JsonValue:
    if isinstance(part, TextContent):
        return {"type": "text", "text": _same(part.text)}
    if isinstance(part.source, ImageBytesSource):
        data = base64.b64encode(part.source.data).decode()
        return {"type": "image", "media_type": part.source.media_type, "data": data}
    return {"type": "image", "url": _same(part.source.url)}


def _call(call: ToolCall) -> JsonValue:
    result: dict[str, JsonValue] = {"id": call.id, "name": _same(call.name), "arguments": _same(call.arguments)}
    return result if call.error is None else {**result, "error": _same(call.error)}


def _calls(calls: Sequence[ToolCall]) -> JsonValue:
    return [_call(call) for call in calls]


def _stop(stop: StopInfo) -> JsonValue:
    return {
        "reason": stop.reason.value,
        **{
            name: _same(value)
            for name in ("raw", "category", "message", "recommended_model")
            if (value := getattr(stop, name)) is not None
        },
        **({"detail": _same(dict(stop.detail))} if stop.detail else {}),
    }


def _response(response: ModelResponse) -> JsonValue:
    return {
        "message": _message(response.message),
        "finish_reason": response.finish_reason,
        "stop": None if response.stop is None else _stop(response.stop),
        "usage": _record(response.usage),
    }


def _record(value: Any) -> JsonValue:
    """A dataclass whose fields are plain values."""
    return _same(asdict(value))


def _error(error: BaseException) -> JsonValue:
    return {"type": type(error).__name__, "message": _same(str(error))}


_FIELDS: dict[str, Callable[[Any], JsonValue]] = {
    "delta": _same,
    "tool_call_delta": _record,
    "tool_calls": _calls,
    "server_tool_call": _record,
    "server_tool_input_delta": _record,
    "server_tool_result": _record,
    "response": _response,
    "stop": _stop,
    "message": _message,
    "internal_message": _message,
    "steering_message": _message,
    "error": _error,
    "compaction": _record,
    "applied": _same,
    "name": _same,
    "payload": _same,
}
