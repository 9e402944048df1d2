"""Checks that a source tree has one tree of errors, in one file, drawn as it is."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import File, definitions, read

HOME = "exceptions"
BASE = "AgentError"

# Exception classes that are no AgentError, or do not live in exceptions.py, and why: control flow, mostly. An entry
# that is no longer needed fails the test.
ALLOWED: dict[str, str] = {
    "StopAfterTurn": "control flow of the engine: it never leaves the request that it ends",
    "Interrupted": "carries a KeyboardInterrupt from the asyncio task of a call to its request, and never leaves that",
    "AttemptFailed": "control flow between an attempt and the retry loop: it never leaves the providers",
    "ScriptError": "a failed test, so an AssertionError",
    "_Broken": "what a test's model raises: no error of the runtime",
    "Unclear": "what a person typed that answers nothing; the command line asks again",
    "UsageFault": "how a command was called; the command line prints it and exits with 2",
    "LocalModelError": "a machine that cannot start a model for tests: no error of the runtime",
    "_NotJsonError": "private to its file, which turns it into ValueError with the whole path",
}

Found = tuple[File, ast.ClassDef]


def error_faults(root: Path, allowed: Mapping[str, str] = ALLOWED) -> list[str]:
    """What is wrong with the exception classes below ``root``, one line each."""
    classes = _exceptions(read(root))
    strangers = dict(_strangers(classes))
    faults = [fault for name, fault in strangers.items() if name not in allowed]
    faults += [f"{name}: listed as allowed, and needs no leave" for name in allowed if name not in strangers]
    return [*faults, *_drawing_faults(classes)]


def _exceptions(files: list[File]) -> dict[str, Found]:
    """Every class with a builtin exception among its ancestors; names are taken to be unique among them."""
    classes = {node.name: (file, node) for file in files for node in _classes(file)}
    found: dict[str, Found] = {}
    grown = True
    while grown:
        new = {name: entry for name, entry in classes.items() if _is_exception(entry[1], found)}
        grown = len(new) > len(found)
        found = new
    return found


def _classes(file: File) -> Iterator[ast.ClassDef]:
    return (node for _, node in definitions(file.tree) if isinstance(node, ast.ClassDef))


def _is_exception(node: ast.ClassDef, found: Mapping[str, Found]) -> bool:
    return any(base in found or _is_builtin_exception(base) for base in _bases(node))


def _is_builtin_exception(name: str) -> bool:
    value = getattr(builtins, name, None) if name != "CancelledError" else BaseException
    return isinstance(value, type) and issubclass(value, BaseException)


def _bases(node: ast.ClassDef) -> list[str]:
    """The last part of each base's name, without its type arguments."""
    plain = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [ast.unparse(base).rpartition(".")[2] for base in plain]


def _strangers(classes: Mapping[str, Found]) -> Iterator[tuple[str, str]]:
    for name, (file, node) in classes.items():
        if not _descends(name, classes):
            yield name, f"{file.name}:{node.lineno}: {name} does not derive from {BASE}"
        elif file.name != HOME:
            yield name, f"{file.name}:{node.lineno}: {name} belongs into {HOME}.py"


def _descends(name: str, classes: Mapping[str, Found]) -> bool:
    if name == BASE:
        return True
    return name in classes and any(_descends(base, classes) for base in _bases(classes[name][1]))


def _drawing_faults(classes: Mapping[str, Found]) -> Iterator[str]:
    home = next((file for file, _ in classes.values() if file.name == HOME), None)
    if home is None:
        return
    drawn = dict(_drawn(ast.get_docstring(home.tree) or ""))
    real = {
        name: next((base for base in _bases(node) if _descends(base, classes)), None)
        for name, (file, node) in classes.items()
        if file is home and _descends(name, classes)
    }
    for name in sorted({*drawn, *real}):
        if name not in drawn:
            yield f"{name}: missing in the tree drawn on top of {HOME}.py"
        elif name not in real:
            yield f"{name}: drawn on top of {HOME}.py, and not there"
        elif drawn[name] != real[name]:
            yield f"{name}: drawn below {drawn[name]}, and derives from {real[name]}"


def _drawn(docstring: str) -> Iterator[tuple[str, str | None]]:
    """Each class of a drawing like ``│   ├── Name   text`` with the one it hangs from."""
    path: list[str] = []
    for line in docstring.splitlines():
        match = re.match(r"^((?:[│ ] {3})*(?:[├└]── )?)(\w+)(?:\s|$)", line)
        if match is None or (not match[1] and match[2] != BASE):
            continue
        depth = len(match[1]) // 4
        del path[depth:]
        yield match[2], path[-1] if path else None
        path.append(match[2])
