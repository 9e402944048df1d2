"""JSON values: the type, the check that something is one, and copies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import TypeAliasType

JsonValue = TypeAliasType("JsonValue", "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]")

MAX_DEPTH = 200
"""How deep lists and objects may nest: well inside the recursion limit of every reader."""

FOREIGN_DEPTH = 100
"""How deep JSON from a model or a service may nest: messages, records and requests put it deeper still."""

_MAX_INTEGER = 10**4300  # Python's own default limit for an integer in text
_ATOMS = frozenset({str, int, float, bool, type(None)})
_PLAIN = frozenset({bool, type(None)})
_NUMBERS = frozenset({int, float})
_USUAL = 1e18
_LONE = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

Text = TypeAliasType("Text", Callable[[str], str])


def json_object(
    value: Mapping[str, object] | None, *, field_name: str, nonempty_keys: bool = False
) -> dict[str, JsonValue]:
    """Return a deep copy of ``value`` after checking that it is strict JSON; None gives ``{}``.

    Nothing is coerced, see ``strict_copy``; what is no JSON raises ValueError, as do keys that are blank, with
    ``nonempty_keys``. ``field_name`` is named in the error.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{field_name} must be a mapping, not {type(value).__name__}")
    copied: dict[str, JsonValue] = strict_copy(value, field_name)
    if nonempty_keys and not all(key.strip() for key in copied):
        raise ValueError(f"{field_name} must not have a blank key")
    return copied


def utf8_text(text: str) -> str:
    """Return ``text`` so that it encodes to UTF-8: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of JSON: its reader joins pairs, and is fast where a codec would call its error handler each time.
        joined: str = json.loads(json.dumps(text))
        return joined.translate(_LONE)
    return text


def is_flat_json(value: Mapping[Any, object]) -> bool:
    """Is this an object of usual atoms? That says it is strict JSON, quickly; False says nothing."""
    for key, item in value.items():
        kind = type(item)
        if type(key) is not str:
            return False
        if kind is str or kind in _PLAIN:
            continue
        # NaN and infinity are within no bounds, and an integer of more digits than text may have is not, either.
        if kind not in _NUMBERS or not -_USUAL < item < _USUAL:  # type: ignore[operator]
            return False
    return True


def is_too_deep(value: object, levels: int = FOREIGN_DEPTH) -> bool:
    """Do lists and objects nest more than ``levels`` deep in a JSON value?"""
    if not isinstance(value, dict | list):
        return False
    if not levels:
        return True
    return any(is_too_deep(item, levels - 1) for item in (value.values() if isinstance(value, dict) else value))


def copy_json(value: Any) -> Any:  # Any: whatever a model sent; JSON in, JSON out
    """A copy of what is JSON already, unchecked; it shares nothing mutable with ``value``."""
    if isinstance(value, dict):
        return {key: item if type(item) in _ATOMS else copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [item if type(item) in _ATOMS else copy_json(item) for item in value]
    return value


def plain_text(text: str) -> str:
    """A plain string of a StrEnum and the like."""
    return text if type(text) is str else str.__str__(text)


def strict_copy(value: object, where: str, text: Text = plain_text) -> Any:  # Any: an object for a mapping
    """Return a deep copy of ``value`` after checking that it is strict JSON; at the top any mapping is an object.

    Nothing is coerced: tuples, sets, bytes, dates, NaN, infinity, keys that are not strings and nesting beyond
    ``MAX_DEPTH`` raise ValueError, which names ``where`` and the key. ``text`` is applied to every string.
    """
    try:
        if isinstance(value, Mapping):
            return _object(value, text, MAX_DEPTH)
        return _value(value, text, MAX_DEPTH)
    except _NotJsonError as error:
        raise ValueError(f"{where}{error.path} {error.problem}") from None


class _NotJsonError(Exception):
    """Carries the path of the offending value outwards; the path is built only when something is wrong."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path = ""

    def inside(self, step: object) -> _NotJsonError:
        self.path = f"[{step!r:.80}]{self.path}"
        return self


def _value(value: object, text: Text, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int | float):
        return _number(value)
    if depth == 0:
        raise _NotJsonError(f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return _object(value, text, depth)
    if isinstance(value, list):
        return _list(value, text, depth)
    raise _NotJsonError(f"must be JSON, not {type(value).__name__}")


def _number(value: float) -> int | float:
    if isinstance(value, int):
        if not -_MAX_INTEGER < value < _MAX_INTEGER:
            raise _NotJsonError("has more than 4300 digits")
        return int(value)
    if not math.isfinite(value):
        raise _NotJsonError("must be a finite number")
    return float(value)


def _object(value: Mapping[Any, object], text: Text, depth: int) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _NotJsonError(f"must have string keys, not {type(key).__name__}")
        try:
            result[text(key)] = _value(item, text, depth - 1)
        except _NotJsonError as error:
            raise error.inside(key) from None
    if len(result) != len(value):
        raise _NotJsonError("has keys that differ only in lone surrogates")
    return result


def _list(value: list[object], text: Text, depth: int) -> list[JsonValue]:
    result: list[JsonValue] = []
    for index, item in enumerate(value):
        try:
            result.append(_value(item, text, depth - 1))
        except _NotJsonError as error:
            raise error.inside(index) from None
    return result
