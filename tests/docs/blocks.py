"""Finds the code blocks of a Markdown page and runs them.

Blocks of one page run in order in one namespace, so that a page can build on itself; ``await`` is allowed at top level.
A comment on the line before a fence says more about it::

    <!-- no-run: needs a key -->    the block is compiled, not run, and the reason is shown at the end of the tests
    <!-- output -->                 the block is what the block before it prints
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)")
_NO_RUN = re.compile(r"^<!-- no-run: (?P<reason>.+) -->$")
_PYTHON = ("python", "py")
_SHELL = ("bash", "sh", "shell", "console")


@dataclass
class Block:
    """One fenced block; ``line`` is that of its first line of code."""

    page: Path
    line: int
    language: str
    code: str
    mark: str
    output: str | None = None

    @property
    def where(self) -> str:
        """The page and the line, for people."""
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"

    @property
    def is_python(self) -> bool:
        """Whether it is Python."""
        return self.language in _PYTHON

    @property
    def is_shell(self) -> bool:
        """Whether it is for a shell."""
        return self.language in _SHELL

    @property
    def reason(self) -> str | None:
        """Why it is not run, or None."""
        if match := _NO_RUN.match(self.mark):
            return match["reason"]
        if self.is_shell and not all(words[0] in ("make", "zett") for words in self.commands):
            return "a shell block of other commands than make and zett"
        return None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))]


def pages(root: Path = ROOT) -> list[Path]:
    """README.md and the pages of docs/, but for the design notes, which speak of code that may be gone."""
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in found if page.exists() and root / "docs" / "design" not in page.parents]


def blocks(page: Path) -> list[Block]:
    """The Python and shell blocks of ``page``, each with the output that the page shows for it."""
    found: list[Block] = []
    for block in _fenced(page):
        if block.mark == "<!-- output -->":
            if not found or found[-1].output is not None or block.language != "text":
                raise ValueError(f"{block.where}: an output is a text block after the block that prints it")
            found[-1].output = block.code
        elif block.is_python or block.is_shell:
            found.append(block)
    return found


def _fenced(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    mark = ""
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            mark = lines[number].strip() or mark
            number += 1
            continue
        start = number + 1
        closing = re.compile(rf"^ *{opening['fence']}[`~]* *$")
        end = next((n for n in range(start, len(lines)) if closing.match(lines[n])), len(lines))
        code = textwrap.dedent("\n".join(lines[start:end])) + "\n"
        yield Block(page, start + 1, opening["language"].lower(), code, mark)
        mark = ""
        number = end + 1


def run_page(found: list[Block]) -> None:
    """Run the Python blocks of one page and compare what they print; raises what a block raises, at the page's line."""
    code = [(block, _compile(block)) for block in found if block.is_python]
    # A module of its own in the place of __main__: `if __name__ == "__main__"` and type hints work as in a script.
    module = ModuleType("__main__")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        with asyncio.Runner() as runner:
            for block, compiled in code:
                if block.reason is None:
                    _check(block, _run(compiled, module, runner))
    finally:
        sys.modules["__main__"] = before


def _compile(block: Block) -> CodeType:
    # The empty lines make a traceback point into the page.
    text = "\n" * (block.line - 1) + block.code
    code: CodeType = compile(text, str(block.page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _run(code: CodeType, module: ModuleType, runner: asyncio.Runner) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = eval(code, module.__dict__)
        if inspect.iscoroutine(result):
            runner.run(result)
    return printed.getvalue()


def run_shell(block: Block, home: Path) -> None:
    """Run the zett commands of a shell block without a terminal; of make, see that the target is there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    printed = ""
    for program, *arguments in block.commands:
        # A page may say `make check`, which runs this very test.
        command = ["make", "--dry-run"] if program == "make" else [str(Path(sys.executable).parent / "zett")]
        done = subprocess.run(
            [*command, *arguments],
            cwd=ROOT if program == "make" else home,
            env={**environment, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block.where}: {program} {' '.join(arguments)} failed\n{done.stderr}"
        printed += done.stdout if program == "zett" else ""
    _check(block, printed)


def _check(block: Block, printed: str) -> None:
    if block.output is not None:
        assert printed.rstrip() == block.output.rstrip(), f"{block.where} prints something else than the page shows"


def summary(found: list[Block]) -> Iterator[str]:
    """How many blocks are run, and for each that is not, why."""
    skipped = [block for block in found if block.reason is not None]
    yield f"documentation: {len(found) - len(skipped)} code blocks run, {len(skipped)} not run"
    for block in skipped:
        yield f"  {block.where}: {block.reason}"
