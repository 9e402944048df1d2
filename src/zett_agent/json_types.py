"""JSON values and the check that something is one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypeAliasType

JsonValue = TypeAliasType("JsonValue", "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]")


_ATOMS = frozenset({str, int, float, bool, type(None)})


def json_object(
    value: Mapping[str, object] | None, *, field_name: str, nonempty_keys: bool = False
) -> dict[str, JsonValue]:
    """Return a shallow copy of ``value`` after checking that it is strict JSON; None gives ``{}``.

    Nothing is coerced: tuples, sets, bytes, dates and non-finite numbers raise ValueError, as do keys that are not
    strings (or that are blank, with ``nonempty_keys``). ``field_name`` is named in the error.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{field_name} must be a mapping, not {type(value).__name__}")
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if nonempty_keys and isinstance(key, str) and not key.strip():
            raise ValueError(f"{field_name} must not have a blank key")
        result[_key(key, field_name)] = _value(item, f"{field_name}[{key!r}]")
    return result


def utf8_text(text: str) -> str:
    """Return ``text`` so that it encodes to UTF-8: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def copy_json(value: Any) -> Any:  # Any: whatever a model sent; JSON in, JSON out
    """A copy of a JSON value that shares nothing mutable with it."""
    if isinstance(value, dict):
        return {key: item if type(item) in _ATOMS else copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [item if type(item) in _ATOMS else copy_json(item) for item in value]
    return value


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise ValueError(f"{where} must have string keys, not {type(key).__name__}")
    return key


def _value(value: object, where: str) -> JsonValue:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be a finite number")
        return value
    if isinstance(value, list):
        for index, item in enumerate(value):
            _value(item, f"{where}[{index}]")
        return value
    if isinstance(value, dict):
        for key, item in value.items():
            _value(item, f"{where}[{_key(key, where)!r}]")
        return value
    raise ValueError(f"{where} must be JSON, not {type(value).__name__}")
