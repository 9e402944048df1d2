"""Checks the sizes of a source tree: files, functions, classes, parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.architecture.source import File, Function, definitions, read

FILE_LINES, FILE_HARD = 400, 600
FUNCTION_LINES, FUNCTION_HARD = 50, 80
CLASS_LINES = 250
MEDIAN_LINES = 8
PARAMETERS = 6  # of every kind, but for self and cls; *args and **kwargs are one each

# What may pass a limit, and why. A file is named as in layers.py, what is in it as "file:Class.method". An entry lifts
# the soft limits only: the hard ones hold for all, and no function has more than six positional parameters. An entry
# that is no longer needed fails the test.
EXCEPTIONS: dict[str, str] = {
    "agent:Agent.__init__": "the constructor's options are the interface; all but the model are keyword-only",
    "providers/openai:OpenAIProvider.__init__": "an option for each way in which endpoints differ",
    "tools/function_tool:tool": "the decorator's options are the interface; all are keyword-only",
}


def size_faults(root: Path, exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """What is too large below ``root``, one line each."""
    files = read(root)
    over = dict[str, str]()
    hard = list[str]()
    for file in files:
        for key, fault, is_hard in _measure(file):
            if is_hard:
                hard.append(f"{key}: {fault}")
            else:
                over[key] = fault
    unlisted = [f"{key}: {fault}" for key, fault in over.items() if key not in exceptions]
    stale = [f"{key}: listed as an exception, and within every limit" for key in exceptions if key not in over]
    return [*hard, *unlisted, *stale, *_median(files)]


def _measure(file: File) -> Iterator[tuple[str, str, bool]]:
    lines = len(file.text.splitlines())
    if lines > FILE_LINES:
        yield file.name, f"{lines} lines; a file has at most {FILE_LINES} (hard limit {FILE_HARD})", lines > FILE_HARD
    for name, node in definitions(file.tree):
        key = f"{file.name}:{name}"
        if isinstance(node, ast.ClassDef):
            if _lines(node) > CLASS_LINES:
                yield key, f"{_lines(node)} lines; a class has at most {CLASS_LINES}", False
        else:
            yield from ((key, fault, is_hard) for fault, is_hard in _measure_function(node))


def _measure_function(node: Function) -> Iterator[tuple[str, bool]]:
    lines = _lines(node)
    if lines > FUNCTION_LINES:
        yield (
            f"{lines} lines; a function has at most {FUNCTION_LINES} (hard limit {FUNCTION_HARD})",
            lines > FUNCTION_HARD,
        )
    positional = [*node.args.posonlyargs, *node.args.args]
    if positional and positional[0].arg in ("self", "cls"):
        del positional[0]
    rest = [*node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
    if len(positional) > PARAMETERS:
        yield f"{len(positional)} positional parameters; at most {PARAMETERS}, without exception", True
    elif len(positional) + len(rest) > PARAMETERS:
        yield f"{len(positional) + len(rest)} parameters; at most {PARAMETERS}, not counting self", False


def _median(files: list[File]) -> Iterator[str]:
    sizes = [_lines(node) for file in files for _, node in definitions(file.tree) if not isinstance(node, ast.ClassDef)]
    if sizes and median(sizes) > MEDIAN_LINES:
        yield f"the median function has {median(sizes):g} lines; at most {MEDIAN_LINES}"


def _lines(node: Function | ast.ClassDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
