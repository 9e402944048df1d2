"""The command ``zett``. Importing this is cheap: what a command needs is loaded when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``zett`` with ``arguments`` (default: the process's own) and return its exit status."""
    status: int = import_module("zett_agent.cli.app").run_command(arguments)
    return status
