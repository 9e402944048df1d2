"""The command ``zett``. Importing this is cheap: what a command needs is loaded when it runs."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``zett`` with ``arguments`` (default: the process's own) and return its exit status."""
    if arguments is None:
        end_by_ctrl_c()
    try:
        status: int = import_module("zett_agent.cli.app").run_command(arguments)
    except KeyboardInterrupt:  # while it still loads; later nothing gets this far
        status = 130
    return status


def end_by_ctrl_c() -> None:
    """Let Ctrl-C end the process at once and without a word of Python's, but for what a command makes of it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as with nohup
        with suppress(ValueError):  # in another thread than the main one
            signal.signal(signal.SIGINT, signal.SIG_DFL)
