"""From what a tool returns to what a model reads: parts, text, or strict JSON, always encodable as UTF-8."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from zett_agent.exceptions import ToolError
from zett_agent.json_types import utf8_text
from zett_agent.messages import ImageContent, TextContent, UserContent, UserContentPart


def serialize_result(value: object) -> str:
    """Return text as it is and anything else as compact strict JSON.

    Non-finite numbers become null, bytes become text (base64 when they are not UTF-8), lone surrogates U+FFFD. Models,
    dataclasses, enums and dates are understood; anything else raises ToolError naming the type.
    """
    if isinstance(value, str):
        return utf8_text(str.__str__(value))
    try:
        return _strict(_json(value))
    except Exception as error:  # whatever the value's own methods raise
        reason = "it is nested too deeply, or in itself" if isinstance(error, RecursionError) else error
        raise ToolError(f"the returned {type(value).__name__} cannot be written as JSON: {reason}") from error


def result_content(value: object, serialize: Callable[[Any], str] = serialize_result) -> UserContent:
    """The content of a tool message for a tool's return value.

    A text or image part gives a list of one, a non-empty list of only parts stays one; the rest goes through
    ``serialize``.
    """
    if isinstance(value, TextContent | ImageContent):
        return [_encodable(value)]
    if isinstance(value, list) and value and all(isinstance(item, TextContent | ImageContent) for item in value):
        return [_encodable(item) for item in value]
    return utf8_text(serialize(value))


def shorten(content: UserContent, limit: int) -> UserContent:
    """``content`` with at most about ``limit`` characters of text: its beginning and its end, and what is missing.

    Images are not text, and stay whole. Of several texts the first are kept.
    """
    if isinstance(content, str):
        return content if len(content) <= limit else _head_and_tail(content, limit)
    if sum(len(part.text) for part in content if isinstance(part, TextContent)) <= limit:
        return content
    return list(_shortened(content, limit))


def _shortened(parts: Sequence[UserContentPart], left: int) -> Iterator[UserContentPart]:
    dropped = 0
    for part in parts:
        if not isinstance(part, TextContent):
            yield part
        elif left > 0:
            yield part if len(part.text) <= left else replace(part, text=_head_and_tail(part.text, left))
            left -= len(part.text)
        else:
            dropped += len(part.text)
    if dropped:
        yield TextContent(_notice(dropped))


def _head_and_tail(text: str, limit: int) -> str:
    tail = limit // 3  # errors and totals stand at the end, what it is about at the beginning
    return f"{text[: limit - tail]}\n{_notice(len(text) - limit)}\n{text[len(text) - tail :]}"


def _notice(characters: int) -> str:
    return f"[{characters:,} characters are left out: the result was too long. Ask for less at a time.]"


def _encodable(part: UserContentPart) -> UserContentPart:
    if isinstance(part, TextContent):
        text = utf8_text(part.text)
        return part if text is part.text else replace(part, text=text)
    if part.alt_text is None or (alt_text := utf8_text(part.alt_text)) is part.alt_text:
        return part
    return replace(part, alt_text=alt_text)


def _json(value: object) -> bytes:
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        # Rare, so paid for only here: mostly text or bytes somewhere inside that are not UTF-8.
        return to_json(_plain(value), inf_nan_mode="null")


def _plain(value: Any) -> Any:
    """Containers, models and dataclasses as plain ones, with every string and every bytes object made encodable."""
    if isinstance(value, str):
        return utf8_text(str.__str__(value))
    if isinstance(value, bytes | bytearray):
        return _bytes_text(bytes(value))
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(by_alias=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterator):
        raise ValueError("an iterator in it failed, and cannot be read again")
    return [_plain(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


def _bytes_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _strict(data: bytes) -> str:
    """A model may be configured to write NaN or Infinity, which no JSON parser has to accept: they become null too."""
    text = data.decode()
    if "NaN" not in text and "Infinity" not in text:
        return text
    value = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
