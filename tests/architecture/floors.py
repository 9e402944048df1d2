"""Checks the imports of a source tree against the table of floors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.layers import LAYERS, THIN_LINES, Kind, layer_of, may_import
from tests.architecture.source import File, Import, imports, read


def floor_faults(root: Path) -> list[str]:
    """What is wrong with the imports below ``root``, one line each."""
    files = read(root)
    edges = imports(files)
    return [*_files(files), *_edges(edges, {file.name for file in files}), *_cycles(edges)]


def _files(files: list[File]) -> Iterator[str]:
    for file in files:
        layer = layer_of(file.name)
        if layer is None:
            yield f"{file.name}: in no floor; give it a place in tests/architecture/layers.py"
        elif LAYERS[layer].kind is Kind.THIN and len(file.text.splitlines()) > THIN_LINES:
            yield f"{file.name}: a re-export file has at most {THIN_LINES} lines"


def _edges(edges: list[Import], names: set[str]) -> Iterator[str]:
    for edge in edges:
        where = f"{edge.importer}:{edge.line}"
        if edge.imported not in names:
            yield f"{where}: imports {edge.imported}, which does not exist"
            continue
        if _is_dodge(edge):
            yield f"{where}: imports {edge.imported} inside a function"
        above, below = layer_of(edge.importer), layer_of(edge.imported)
        if above is None or below is None:
            continue  # reported as a file in no floor
        if not may_import(edge.importer, edge.imported, at_run_time=not edge.for_types):
            yield f"{where}: {above} may import {LAYERS[above].kind.value}; not {edge.imported} ({below})"


def _is_dodge(edge: Import) -> bool:
    """A late import can hide a cycle; but a top may load a command with ``import_module`` when it is asked for."""
    layer = layer_of(edge.importer)
    on_top = layer is not None and LAYERS[layer].kind is Kind.TOP
    return not on_top if edge.by_call else edge.in_function


def _cycles(edges: list[Import]) -> Iterator[str]:
    graph: dict[str, set[str]] = {}
    for edge in edges:
        graph.setdefault(edge.importer, set()).add(edge.imported)
    done: set[str] = set()
    for start in sorted(graph):
        yield from _walk(start, graph, [], done)


def _walk(node: str, graph: dict[str, set[str]], path: list[str], done: set[str]) -> Iterator[str]:
    if node in path:
        yield "cycle: " + " -> ".join([*path[path.index(node) :], node])
        return
    if node in done:
        return
    for following in sorted(graph.get(node, ())):
        yield from _walk(following, graph, [*path, node], done)
    done.add(node)
