"""Finds the programs in the pages of the manual that this package must make true.

The pages are no part of the project: the directory is named by ``ZETT_SEEDS``, or stands as ``shared/seeds`` beside it.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BESIDE = ROOT.parent / "shared" / "seeds"
PAGES = ("ask_user", "async_subagent", "events_and_user_input")


def directory() -> Path:
    """Where the pages are, if they are anywhere."""
    named = os.environ.get("ZETT_SEEDS")
    return Path(named) if named else BESIDE


def missing() -> str | None:
    """Why the programs of the pages cannot be run here, or None."""
    absent = [page for page in PAGES if not (directory() / f"{page}.txt").is_file()]
    if not absent:
        return None
    return f"the manual's pages {', '.join(absent)} are not in {directory()}; name their directory in ZETT_SEEDS"


def block(page: str, first: str, *, nth: int = 0) -> str:
    """The code of ``page`` from the ``nth`` line that begins with ``first`` to the end of what is indented below it."""
    lines = _lines(page)
    start = [number for number, line in enumerate(lines) if line.lstrip().startswith(first)][nth]
    indent = _indent(lines[start])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    return textwrap.dedent("\n".join(lines[start:end])) + "\n"


def between(page: str, first: str, after: str) -> str:
    """The lines of ``page`` from the one that begins with ``first`` up to the one that begins with ``after``."""
    lines = _lines(page)
    start = next(number for number, line in enumerate(lines) if line.startswith(first))
    end = next(number for number in range(start, len(lines)) if lines[number].startswith(after))
    return "\n".join(lines[start:end]) + "\n"


def call(page: str, first: str) -> str:
    """A call that is spread over several lines and closed by a parenthesis of its own."""
    text = between(page, first, ")")
    return text + ")\n"


def load(code: str, **names: Any) -> dict[str, Any]:
    """Run ``code`` with ``names`` in reach, and return what it defined."""
    names["__name__"] = "the manual"
    exec(compile(code, "the manual", "exec", dont_inherit=True), names)
    return names


def coroutine(code: str, **names: Any) -> Any:
    """``code``, which awaits, as a coroutine function."""
    wrapped = f"async def program():\n{textwrap.indent(code, '    ')}"
    return load(wrapped, **names)["program"]


def _lines(page: str) -> list[str]:
    return (directory() / f"{page}.txt").read_text(encoding="utf-8").splitlines()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
