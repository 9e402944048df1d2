"""The command ``zett``. Importing this is cheap: what a command needs is loaded when it runs."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``zett`` with ``arguments`` (default: the process's own) and return its exit status."""
    try:
        status: int = import_module("zett_agent.cli.app").run_command(arguments)
    except KeyboardInterrupt:  # while it still loads; later nothing gets this far
        status = 130
    if arguments is None:  # the process ends here: one more Ctrl-C may hurry it, and has nothing to say
        with suppress(ValueError):  # in another thread than the main one
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status
