"""What a command says when it cannot go on: one line on standard error, and never a secret."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from zett_agent.cli.text import one_line

COMPLETED = 0
FAILED = 1
USAGE = 2
STOPPED_BY_MODEL = 3
INTERRUPTED = 130


class UsageFault(Exception):
    """The command was called in a way that cannot work; its text is the line that says so."""


def complain(problem: str | BaseException, *, secrets: Iterable[str] = ()) -> None:
    """Write ``problem`` on standard error as one line, without any of ``secrets``."""
    text = problem if isinstance(problem, str) else describe(problem)
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    with suppress(OSError):  # there is nowhere left to say it
        print(f"zett: {one_line(text)}", file=sys.stderr, flush=True)


def describe(error: BaseException) -> str:
    """An error as text that is never empty."""
    return str(error).strip() or type(error).__name__
