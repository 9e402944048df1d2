"""The floors of docs/design/001 as one table, and who may import whom.

A file is named by its path below ``src/zett_agent`` without ``.py``. The first row that matches it is its layer, so
exact names stand before patterns. To add a file of the core, add its name at its place in its floor's line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase


class Kind(Enum):
    """What the files of a layer may import."""

    FLOOR = "lower floors, and what stands before it in its own line"
    LEAF = "the floors up to `up_to`, and its own folder"
    THIN = "everything below the tops, in at most 20 lines"
    SURFACE = "the values at run time, everything below the tops for type checkers"
    TOP = "everything but a later top"


@dataclass(frozen=True)
class Layer:
    """One row: ``files`` are names or patterns; ``also`` are patterns that a leaf may import beside its floors."""

    kind: Kind
    files: str
    up_to: str = ""
    also: str = ""


LAYERS: dict[str, Layer] = {
    "values": Layer(
        Kind.FLOOR,
        "_lazy _checks json_types ids stop exceptions _failures _wire_form messages model events waits config",
    ),
    "contracts": Layer(
        Kind.FLOOR,
        "tools/arguments tools/docstrings tools/schema tools/threads tools/results "
        "tools/current_call tools/agent_tool tools/function_tool tools/guidance tools/base "
        "storage/strict storage/messages storage/records storage/codec storage/base extensions/events",
    ),
    "parts": Layer(
        Kind.FLOOR,
        "_runtime/resumption _runtime/phase _runtime/transcript _runtime/inbox _runtime/waitbook "
        "_runtime/clock _runtime/repeats _runtime/channel _runtime/journal _runtime/faults "
        "_runtime/supervisor _runtime/portal _runtime/bridge context",
    ),
    # The last four are the extensions that an Agent brings itself.
    "hooks": Layer(
        Kind.FLOOR,
        "extensions/base extensions/external _runtime/hooks "
        "extensions/memory extensions/tool_guidelines extensions/steering extensions/internal_message",
    ),
    "engine": Layer(
        Kind.FLOOR,
        "_runtime/run _runtime/output _runtime/model_step _runtime/call _runtime/tool_step _runtime/loop "
        "_runtime/opening _runtime/closing _runtime/execute _runtime/sessions _runtime/equipment _runtime/assembly",
    ),
    "door": Layer(Kind.FLOOR, "agent dispatcher client sync"),
    "thin": Layer(Kind.THIN, "resume event_queue sync_runtime"),
    "testing": Layer(Kind.TOP, "testing/*"),
    "cli": Layer(Kind.TOP, "cli/*"),
    "surface": Layer(Kind.SURFACE, "__init__ */__init__"),
    "subagents": Layer(Kind.LEAF, "extensions/*subagent* extensions/*goal*", up_to="door", also="extensions/*"),
    "extensions": Layer(Kind.LEAF, "extensions/*", up_to="hooks"),
    "providers": Layer(Kind.LEAF, "providers/*", up_to="contracts"),
    "stores": Layer(Kind.LEAF, "storage/*", up_to="contracts"),
    "tools": Layer(Kind.LEAF, "tools/*", up_to="contracts"),
}

THIN_LINES = 20
_RANKS = {name: rank for rank, name in enumerate(LAYERS)}
_BELOW_TOPS = (Kind.FLOOR, Kind.LEAF, Kind.THIN)


def layer_of(file: str) -> str | None:
    """The name of the file's layer, or None when no row names it."""
    return next((name for name, layer in LAYERS.items() if _matches(file, layer.files)), None)


def may_import(importer: str, imported: str, *, at_run_time: bool = True) -> bool:
    """Whether the table lets ``importer`` import ``imported``; both have a layer."""
    above, below = layer_of(importer), layer_of(imported)
    assert above is not None and below is not None
    row, kind = LAYERS[above], LAYERS[below].kind
    match row.kind:
        case Kind.FLOOR:
            return kind is Kind.FLOOR and _place(importer) > _place(imported)
        case Kind.LEAF:
            known = kind is Kind.FLOOR and _RANKS[below] <= _RANKS[row.up_to]
            return known or below == above or (kind is Kind.LEAF and _matches(imported, row.also))
        case Kind.THIN:
            return kind in (Kind.FLOOR, Kind.LEAF)
        case Kind.SURFACE:
            return kind in _BELOW_TOPS and (below == "values" or not at_run_time)
        case Kind.TOP:
            return kind is not Kind.TOP or _RANKS[below] <= _RANKS[above]


def _matches(file: str, patterns: str) -> bool:
    return any(fnmatchcase(file, pattern) for pattern in patterns.split())


def _place(file: str) -> tuple[int, int]:
    layer = layer_of(file)
    assert layer is not None
    return _RANKS[layer], LAYERS[layer].files.split().index(file)
