"""Strict JSON for the log: copied and checked, read field by field, to and from one line of text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue, utf8_text

MAX_DEPTH = 200
"""How deep lists and objects may nest: well inside the recursion limit of every reader."""

_MAX_INTEGER = 10**4300  # Python's own default limit for an integer in text
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))

# What JSON leaves raw and a line must not hold: lone surrogates, and characters that str.splitlines() splits at.
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


class _NotJsonError(Exception):
    """Carries the path of the offending value outwards; the path is built only when something is wrong."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path = ""

    def inside(self, step: object) -> _NotJsonError:
        self.path = f"[{step!r:.80}]{self.path}"
        return self


def clean_text(text: str) -> str:
    """Return ``text`` as UTF-8 can hold it: surrogate pairs are joined, lone surrogates become U+FFFD."""
    return utf8_text(_same_text(text))


def _same_text(text: str) -> str:
    return text if type(text) is str else str.__str__(text)  # a plain string of a StrEnum and the like


def copy_json(value: object, field: str, *, opaque: bool = False) -> JsonValue:
    """Return a deep copy of ``value`` after checking that it is strict JSON.

    Nothing is coerced: tuples, bytes, dates, NaN, infinity, keys that are not strings and nesting beyond ``MAX_DEPTH``
    raise StoredFormatError, which names ``field`` and the key. Lone surrogates are replaced, unless ``opaque``.
    """
    try:
        return _copy(value, _same_text if opaque else clean_text, MAX_DEPTH)
    except _NotJsonError as error:
        raise StoredFormatError(f"{field}{error.path} {error.problem}") from None


def copy_object(value: object, field: str) -> dict[str, JsonValue]:
    """Return a checked deep copy of a mapping, as ``copy_json``."""
    if not isinstance(value, Mapping):
        raise StoredFormatError(f"{field} must be an object, not {type(value).__name__}")
    if not value:
        return {}
    try:
        return _copy_dict(value, clean_text, MAX_DEPTH)
    except _NotJsonError as error:
        raise StoredFormatError(f"{field}{error.path} {error.problem}") from None


def _copy(value: object, text: Callable[[str], str], depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int | float):
        return _number(value)
    if depth == 0:
        raise _NotJsonError(f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return _copy_dict(value, text, depth)
    if isinstance(value, list):
        return _copy_list(value, text, depth)
    raise _NotJsonError(f"must be JSON, not {type(value).__name__}")


def _number(value: float) -> int | float:
    if isinstance(value, int):
        if not -_MAX_INTEGER < value < _MAX_INTEGER:
            raise _NotJsonError("has more than 4300 digits")
        return int(value)
    if not math.isfinite(value):
        raise _NotJsonError("must be a finite number")
    return float(value)


def _copy_dict(value: Mapping[Any, object], text: Callable[[str], str], depth: int) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _NotJsonError(f"must have string keys, not {type(key).__name__}")
        try:
            result[text(key)] = _copy(item, text, depth - 1)
        except _NotJsonError as error:
            raise error.inside(key) from None
    if len(result) != len(value):
        raise _NotJsonError("has keys that differ only in lone surrogates")
    return result


def _copy_list(value: list[object], text: Callable[[str], str], depth: int) -> list[JsonValue]:
    result: list[JsonValue] = []
    for index, item in enumerate(value):
        try:
            result.append(_copy(item, text, depth - 1))
        except _NotJsonError as error:
            raise error.inside(index) from None
    return result


def to_line(value: object, field: str) -> str:
    """Return ``value`` as JSON text that UTF-8 can hold, without any line break; StoredFormatError if it is no JSON."""
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        copy_json(value, field)  # names the key
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
        return copy_object(self.data.get(name), f"{self.where}.{name}")

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
