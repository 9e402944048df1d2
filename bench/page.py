"""Tables for the console and for docs/performance.md, which are the same, and the places where the page keeps them."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table with aligned columns; the first ``left`` columns are text, the others stand to the right."""
    body = [list(row) for row in rows]
    widths = [max(3, *(len(line[at]) for line in (header, *body))) for at in range(len(header))]
    rule = ["-" * width if at < left else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    return "\n".join(_line(line, widths, left) for line in (header, rule, *body))


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    sized = zip(cells, widths, strict=True)
    padded = [cell.ljust(width) if at < left else cell.rjust(width) for at, (cell, width) in enumerate(sized)]
    return f"| {' | '.join(padded)} |"


def put(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` between the markers of ``name``; ValueError unless they are there exactly once."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the page needs one {begin} and one {end} after it")
    return pattern.sub(lambda _: f"{begin}\n\n{content.strip()}\n\n{end}", text)


def write(name: str, content: str, page: Path = PAGE) -> None:
    """Put ``content`` into the page."""
    page.write_text(put(page.read_text(encoding="utf-8"), name, content), encoding="utf-8")


def machine() -> str:
    """What kind of machine this is; nothing that names it."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def figure(value: float) -> str:
    """Three digits that count, never an exponent: 0.12, 2.35, 11.8, 146, 9610."""
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
