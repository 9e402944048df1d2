"""Chat Completions, outgoing: a ModelRequest as the bytes of a request body. Pure functions.

The same history gives the same bytes, and the messages come last in the body: the next request of a session begins with
the bytes of the one before it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from zett_agent._wire_form import wire_form
from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AnyMessage,
    AssistantMessage,
    ImageContent,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContent,
    content_parts,
)
from zett_agent.model import ModelRequest, ReasoningEffort, ServerToolDefinition, ToolDefinition
from zett_agent.providers.base import dump_json

RESERVED_FIELDS = ("messages", "model", "stream", "tools")
EMPTY_RESULT = "(no output)"
IMAGES_FOLLOW = "(the images of this result follow below)"
EXTRA_CONTENT = "chat.extra_content"
"""The ``type`` of the replay block that keeps what a service attached to a call."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_CHOICES = ("auto", "none", "required")
_EFFORTS = {ReasoningEffort.MAX: "xhigh", ReasoningEffort.ULTRA: "xhigh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """What a provider puts into each of its requests.

    ``endpoint`` tags opaque data; ``reasoning_field`` is the name under which earlier reasoning is sent back, if it is.
    """

    provider: str
    model: str
    endpoint: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_field: str = "max_tokens"
    stop: tuple[str, ...] = ()
    send_reasoning_effort: bool = False
    send_prompt_cache_key: bool = False
    reasoning_field: str | None = None
    extra_body: Mapping[str, JsonValue] = field(default_factory=dict)


def request_body(request: ModelRequest, settings: ChatSettings) -> bytes:
    """Return the body of ``request``; what these very settings converted before is not converted again."""
    head = dump_json(_head(request, settings)).encode()[:-1]
    parts = [head]
    tools: list[ToolDefinition | ServerToolDefinition] = [*request.tools, *request.server_tools]
    if tools:
        parts += [b',"tools":[', b",".join(_tool(tool, settings) for tool in tools), b"]"]
    messages = b",".join(_messages(request.messages, settings))
    return b"".join([*parts, b',"messages":[', messages, b"]}"])


def _head(request: ModelRequest, settings: ChatSettings) -> dict[str, Any]:
    """Every field but tools and messages."""
    fields: dict[str, Any] = {
        "model": settings.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": settings.temperature,
        settings.max_tokens_field: settings.max_tokens,
        "stop": list(settings.stop) or None,
    }
    if settings.send_reasoning_effort and request.reasoning_effort is not ReasoningEffort.OFF:
        fields["reasoning_effort"] = _EFFORTS.get(request.reasoning_effort, request.reasoning_effort.value)
    if request.tools or request.server_tools:
        fields["tool_choice"] = _tool_choice(request.tool_choice)
        fields["parallel_tool_calls"] = None if request.parallel_tool_call else False
    if settings.send_prompt_cache_key:
        fields["prompt_cache_key"] = request.cache_key
    return {name: value for name, value in fields.items() if value is not None} | dict(settings.extra_body)


def _tool_choice(choice: str | None) -> object:
    if choice is None or choice in _CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _tool(tool: ToolDefinition | ServerToolDefinition, settings: ChatSettings) -> bytes:
    """A definition is not changed once it is made, nor is the schema in it."""
    return wire_form(tool, settings, (), lambda: _json(_tool_value(tool)))


def _tool_value(tool: ToolDefinition | ServerToolDefinition) -> dict[str, Any]:
    if isinstance(tool, ServerToolDefinition):
        return {"type": tool.type, **tool.configuration}
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _json(value: object) -> bytes:
    return dump_json(value).encode()


def _messages(messages: Sequence[AnyMessage], settings: ChatSettings) -> Iterator[bytes]:
    """The wire form of each message; images of adjacent tool results follow them in one user message."""
    pictured: list[ToolMessage] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            yield from _pictures(pictured, settings)
            pictured = []
        elif not isinstance(message.content, str) and any(isinstance(part, ImageContent) for part in message.content):
            pictured.append(message)
        yield wire_form(message, settings, _made_of(message), partial(_message, message, settings))
    yield from _pictures(pictured, settings)


def _made_of(message: AnyMessage) -> tuple[object, ...]:
    """All that a message's wire form depends on; an extension may change a message that was sent before."""
    if isinstance(message, AssistantMessage):
        leaves: list[object] = [message.content, message.reasoning, message.provider, message.model]
        leaves += message.replay_blocks  # opaque, and never changed
        for call in message.tool_calls:
            leaves += (call.id, call.name)
            _collect(call.arguments, leaves)
        return tuple(leaves)
    content = (message.content,) if isinstance(message.content, str) else tuple(message.content)
    return (message.tool_call_id, message.success, *content) if isinstance(message, ToolMessage) else content


def _collect(value: object, leaves: list[object]) -> None:
    """Add the keys and values of every level of JSON, and how much each level holds."""
    if isinstance(value, dict):
        leaves += (dict, len(value))
        for key, item in value.items():
            leaves.append(key)
            _collect(item, leaves)
    elif isinstance(value, list):
        leaves += (list, len(value))
        for item in value:
            _collect(item, leaves)
    else:
        leaves.append(value)


def _message(message: AnyMessage, settings: ChatSettings) -> bytes:
    if isinstance(message, AssistantMessage):
        return _json(_assistant(message, settings))
    if isinstance(message, ToolMessage):
        return _json({"role": "tool", "tool_call_id": message.tool_call_id, "content": _result_text(message)})
    if isinstance(message, SystemMessage):
        return _json({"role": "system", "content": message.content})
    return _json({"role": "user", "content": _user_content(message.content)})


def _user_content(content: UserContent) -> object:
    if isinstance(content, str):
        return content
    return [wire for part in content for wire in _part(part)] or ""


def _part(part: TextContent | ImageContent) -> Iterator[dict[str, Any]]:
    """A part on the wire; blank text is left out, and an image follows what is said about it."""
    text = part.text if isinstance(part, TextContent) else part.alt_text
    if text and text.strip():
        yield {"type": "text", "text": text}
    if isinstance(part, ImageContent):
        yield _image(part)


def _image(part: ImageContent) -> dict[str, Any]:
    if isinstance(part.source, ImageUrlSource):
        url = part.source.url.strip()
    else:
        url = f"data:{part.source.media_type.strip()};base64,{b64encode(part.source.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url, "detail": part.detail.value}}


def _image_json(part: ImageContent) -> bytes:
    return _json(_image(part))


def _assistant(message: AssistantMessage, settings: ChatSettings) -> dict[str, Any]:
    value: dict[str, Any] = {"role": "assistant", "content": message.content}
    if settings.reasoning_field and message.reasoning and message.provider in (None, settings.provider):
        value[settings.reasoning_field] = message.reasoning
    if message.tool_calls:
        extras = _extra_contents(message, settings)
        value["content"] = message.content if message.content.strip() else None
        value["tool_calls"] = [_call(call, extras.get(order)) for order, call in enumerate(message.tool_calls)]
    return value


def _call(call: ToolCall, extra: JsonValue) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": dump_json(call.arguments)}
    value: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    return value if extra is None else value | {"extra_content": extra}


def wire_name(name: str) -> str:
    """A function name that services take back; a model may have made up another one."""
    return name if _NAME.fullmatch(name) else _NOT_IN_NAME.sub("_", name)[:128] or "unnamed"


def _extra_contents(message: AssistantMessage, settings: ChatSettings) -> dict[int, JsonValue]:
    """Opaque data by the position of its call; only for the service and model that made it."""
    origin = (settings.provider, settings.model)
    if not message.replay_blocks or (message.provider, message.model) != origin:
        return {}
    extras: dict[int, JsonValue] = {}
    for block in message.replay_blocks:
        if isinstance(block, dict) and (block.get("type"), block.get("endpoint")) == (EXTRA_CONTENT, settings.endpoint):
            position = block.get("call")
            if isinstance(position, int):
                extras[position] = block.get("extra_content")
    return extras


def _result_text(message: ToolMessage) -> str:
    """The text of a result, never empty; this wire has no flag for a failure, so the text says it."""
    text = message.text
    if not text.strip():
        pictured = any(isinstance(part, ImageContent) for part in content_parts(message.content))
        text = IMAGES_FOLLOW if pictured else EMPTY_RESULT
    return text if message.success else f"Error: {text}"


def _pictures(results: Sequence[ToolMessage], settings: ChatSettings) -> Iterator[bytes]:
    """One user message with the images of a group of results, each labelled with the call it belongs to."""
    parts: list[bytes] = []
    for result in results:
        for part in content_parts(result.content):
            if isinstance(part, ImageContent):
                label = f"Image from {result.name} (call {result.tool_call_id})"
                text = f"{label}: {part.alt_text}" if part.alt_text else label
                parts.append(_json({"type": "text", "text": text}))
                parts.append(wire_form(part, settings, (), partial(_image_json, part)))
    if parts:
        yield b'{"role":"user","content":[%s]}' % b",".join(parts)
