"""Strict JSON for the log: copied and checked, read field by field, to and from one line of text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue, plain_text, strict_copy, utf8_text

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))

# What JSON leaves raw and a line must not hold: lone surrogates, and characters that str.splitlines() splits at.
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return ``text`` as UTF-8 can hold it: surrogate pairs are joined, lone surrogates become U+FFFD."""
    return utf8_text(plain_text(text))


def checked_json(value: object, field: str, *, opaque: bool = False) -> JsonValue:
    """Return a deep copy of strict JSON, see ``strict_copy``, or raise StoredFormatError.

    Lone surrogates are replaced, unless ``opaque``.
    """
    try:
        copied: JsonValue = strict_copy(value, field, plain_text if opaque else clean_text)
    except ValueError as error:
        raise StoredFormatError(str(error)) from None
    return copied


def checked_object(value: object, field: str) -> dict[str, JsonValue]:
    """Return a checked deep copy of a mapping, as ``checked_json``."""
    if not isinstance(value, Mapping):
        raise StoredFormatError(f"{field} must be an object, not {type(value).__name__}")
    return cast("dict[str, JsonValue]", checked_json(value, field)) if value else {}


def to_line(value: object, field: str) -> str:
    """Return ``value`` as JSON text that UTF-8 can hold, without any line break; StoredFormatError if it is no JSON."""
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        checked_json(value, field)  # names the key
        raise StoredFormatError(f"{field} is not JSON: {error}") from error
    return text if text.isascii() else _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def from_text(text: str) -> JsonValue:
    """Parse strict JSON; StoredFormatError says where it is broken, and never what it holds."""
    try:
        value: JsonValue = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise StoredFormatError(f"broken JSON: {error}") from None
    return value


def _refuse(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def time_text(value: object, field: str) -> str:
    """Return an aware time as ISO 8601 in UTC with microseconds, so that texts sort as times do."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise StoredFormatError(f"{field} must be a datetime with a time zone")
    try:
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise StoredFormatError(f"{field} is outside of the years that UTC has") from None


def string(value: object, field: str) -> str:
    """Return a cleaned string, or raise StoredFormatError."""
    if not isinstance(value, str):
        raise StoredFormatError(f"{field} must be a string, not {type(value).__name__}")
    return clean_text(value)


def optional_string(value: object, field: str) -> str | None:
    """Return a cleaned string or None, or raise StoredFormatError."""
    return None if value is None else string(value, field)


class Fields:
    """Checked reading of one stored object; ``where`` names it in errors. Keys that are not asked for are ignored."""

    __slots__ = ("data", "where")

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise StoredFormatError(f"{where} must be an object, not {type(data).__name__}")
        self.data: dict[str, Any] = data
        self.where = where

    def wrong(self, name: str, expected: str) -> StoredFormatError:
        """The error for a field that is absent or not what it should be."""
        if name not in self.data:
            return StoredFormatError(f"{self.where}.{name} is missing; it must be {expected}")
        return StoredFormatError(f"{self.where}.{name} must be {expected}, not {type(self.data[name]).__name__}")

    def text(self, name: str) -> str:
        """A string."""
        value = self.data.get(name)
        if isinstance(value, str):
            return value
        raise self.wrong(name, "a string")

    def optional_text(self, name: str) -> str | None:
        """A string or null; the key must be there."""
        value = self.data.get(name, False)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(name, "a string or null")

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.data.get(name)
        if isinstance(value, bool):
            return value
        raise self.wrong(name, "true or false")

    def integer(self, name: str) -> int:
        """An integer of any size."""
        value = self.data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.wrong(name, "an integer")

    def array(self, name: str) -> list[Any]:
        """A list; not copied."""
        value = self.data.get(name)
        if isinstance(value, list):
            return value
        raise self.wrong(name, "a list")

    def mapping(self, name: str) -> dict[str, Any]:
        """An object of any shape; a deep copy."""
        return checked_object(self.data.get(name), f"{self.where}.{name}")

    def part(self, name: str) -> Fields:
        """An object with known fields."""
        return Fields(self.data.get(name), f"{self.where}.{name}")

    def time(self, name: str) -> datetime:
        """An aware UTC time."""
        text = self.text(name)
        try:
            value = datetime.fromisoformat(text)
            if value.tzinfo is not None:
                return value.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        raise self.wrong(name, "an ISO 8601 time with its zone")

    def optional_time(self, name: str) -> datetime | None:
        """An aware UTC time or null; the key must be there."""
        return None if self.optional_text(name) is None else self.time(name)
