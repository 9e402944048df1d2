"""What a model sends as arguments: decoding, the two documented repairs, and errors that a model can act on.

Nothing is guessed. Broken JSON is answered with an error, never mended; the repairs are driven by the tool's schema and
only tried after validation has failed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from zett_agent.exceptions import ToolArgumentsError
from zett_agent.json_types import FOREIGN_DEPTH, is_too_deep, utf8_text
from zett_agent.messages import ToolCall

_MAX_ERROR_LINES = 10
_MAX_LINE = 300
_ABSENT = object()

# The pydantic error types that say: a container was wanted here, and this is none.
_CONTAINER_WANTED = frozenset(
    {
        "arguments_type",
        "dataclass_type",
        "deque_type",
        "dict_type",
        "frozen_set_type",
        "list_type",
        "mapping_type",
        "model_attributes_type",
        "model_type",
        "named_tuple_type",
        "sequence_str",
        "set_type",
        "tuple_type",
    }
)


def decode_tool_arguments(payload: str | None) -> dict[str, Any]:
    """Decode the arguments of a call as the model sent them.

    None, blank text and ``null`` are ``{}``. An object that was encoded twice (a JSON string that holds JSON) is
    decoded twice. Anything else that is not exactly one JSON object raises ToolArgumentsError, in words for the model.
    """
    value = _decode(payload)
    if isinstance(value, str) and _may_be_json(value):
        value = _decode(value)
    if not isinstance(value, dict):
        raise ToolArgumentsError(f"The arguments must be one JSON object, not {_json_kind(value)}; send it again.")
    return value


def _may_be_json(text: str) -> bool:
    """Whether a string was meant as an object, or as none; what is only text is told apart from broken JSON."""
    text = text.strip()
    return text in ("", "null") or text.startswith(("{", "[", '"'))


def tool_call_from_arguments(call_id: str, name: str, payload: str | None) -> ToolCall:
    """Return the call, with ``error`` set and no arguments when ``payload`` cannot be decoded."""
    try:
        return ToolCall(call_id, name, decode_tool_arguments(payload))
    except ToolArgumentsError as error:
        return ToolCall(call_id, name, {}, str(error))


def _decode(payload: str | None) -> Any:
    """One layer of JSON; nothing at all is ``{}``."""
    if payload is None or not payload.strip():
        return {}
    try:
        value = loads_strict(utf8_text(payload))
    except (ValueError, RecursionError) as error:
        reason = f"{error}" if isinstance(error, ValueError) else "nested too deeply"
        raise ToolArgumentsError(f"The arguments are not valid JSON ({reason}); send one JSON object.") from error
    if value is None:
        return {}
    # Escapes can spell half a character, which no provider and no store would take back.
    return json.loads(utf8_text(json.dumps(value, ensure_ascii=False))) if "\\ud" in payload.lower() else value


def loads_strict(text: str) -> Any:
    """``json.loads`` for text from a model: raw control characters pass, non-finite numbers raise ValueError.

    RecursionError for what is nested too deeply.
    """
    value = json.loads(text, strict=False, parse_constant=_refuse_constant, parse_float=_finite_float)
    if text.count("[") + text.count("{") > FOREIGN_DEPTH and is_too_deep(value):
        raise RecursionError("nested too deeply")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "a list"


def repair_arguments(
    arguments: Mapping[str, Any], errors: Sequence[ErrorDetails], schema: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return repaired arguments to try once more, or None when the rules mend nothing.

    Two rules, applied where ``errors`` point: null for a field that is not required counts as not given, and a string
    where a list or an object was wanted is decoded if it holds one. ``schema`` is the inlined parameters schema.
    ``arguments`` is never changed; what lies on a repaired path is copied.
    """
    repaired: Any = arguments
    for error in errors:
        path, value = _deepest(repaired, error["loc"])
        if value is None and _is_optional(schema, path):
            repaired = _with(repaired, path, _ABSENT)
        elif isinstance(value, str) and error["type"] in _CONTAINER_WANTED:
            decoded = _container(value)
            repaired = repaired if decoded is None else _with(repaired, path, decoded)
    return None if repaired is arguments else dict(repaired)


def _deepest(arguments: Any, loc: Sequence[str | int]) -> tuple[tuple[str | int, ...], Any]:
    """Follow ``loc`` as far as the input goes; what is not there (the tag of a union) is skipped."""
    path: tuple[str | int, ...] = ()
    value = arguments
    for key in loc:
        if _has(value, key):
            path, value = (*path, key), value[key]
    return path, value


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, Mapping):
        return key in value
    return isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)


def _with(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """A copy of ``value`` along ``path`` with ``new`` at its end, or with nothing there for ``_ABSENT``."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    copy: Any = dict(value) if isinstance(value, Mapping) else list(value)
    if not rest and new is _ABSENT:
        del copy[key]
    else:
        copy[key] = _with(value[key], rest, new)
    return copy


def _container(text: str) -> list[Any] | dict[str, Any] | None:
    try:
        value = loads_strict(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _is_optional(schema: Mapping[str, Any], path: Sequence[str | int]) -> bool:
    """Is the end of ``path`` a declared field that may be left out? (The entry of a free map is data, not a field.)"""
    nodes = list(_variants(schema))
    for key in path[:-1]:
        nodes = [deeper for node in nodes for child in _children(node, key) for deeper in _variants(child)]
    name = path[-1]
    return any(name in node.get("properties", {}) and name not in node.get("required", ()) for node in nodes)


def _variants(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for keyword in ("anyOf", "oneOf", "allOf"):
        for variant in schema.get(keyword, ()):
            yield from _variants(variant)


def _children(schema: Mapping[str, Any], key: str | int) -> Iterator[Mapping[str, Any]]:
    if isinstance(key, int):
        prefix = schema.get("prefixItems", ())
        found = prefix[key] if key < len(prefix) else schema.get("items")
    else:
        found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    if isinstance(found, Mapping):
        yield found


def arguments_error(errors: Sequence[ErrorDetails], parameters: Iterable[str]) -> ToolArgumentsError:
    """The error for the model: one short line for each thing that is wrong, and the names that exist."""
    lines = [_error_line(error) for error in errors[:_MAX_ERROR_LINES]]
    if len(errors) > _MAX_ERROR_LINES:
        lines.append(f"- and {len(errors) - _MAX_ERROR_LINES} more")
    if any(error["type"] == "extra_forbidden" and len(error["loc"]) == 1 for error in errors):
        lines.append(f"The parameters are: {', '.join(parameters) or 'none'}.")
    return ToolArgumentsError("\n".join(["The arguments do not fit the tool:", *lines]))


def _error_line(error: ErrorDetails) -> str:
    where = ".".join(str(key) for key in error["loc"]) or "arguments"
    what = {"missing": "is required", "extra_forbidden": "is not expected"}.get(error["type"], error["msg"])
    line = f"- {where}: {what}"
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..."
