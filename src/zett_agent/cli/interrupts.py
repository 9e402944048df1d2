"""Ctrl-C: the first stops what can be stopped, the next leaves."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

if sys.platform != "win32":
    import termios

#: The exit status of a program that a signal ended: this plus the signal's number.
SIGNALLED = 128


class Interrupts:
    """Signal handling of one command; a context manager inside the asyncio task that it may cancel.

    ``status`` is the exit status once somebody wanted to leave, None before. In another thread than the main one there
    are no signals, and nothing is handled.

    Why plain handlers and not those of the loop: to take one of the loop's away puts Python's own in its place, and a
    Ctrl-C just then is a KeyboardInterrupt wherever the program is.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self._stop: Callable[[], object] | None = None
        self._before: dict[int, Any] = {}
        self._modes = _terminal_modes()

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._install(signal.SIGINT, self._interrupted)
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None:
                self._install(number, partial(self.leave, number))
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Within the block the first Ctrl-C calls ``stop``."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def leave(self, number: int = signal.SIGINT) -> None:
        """Cancel the command; one more Ctrl-C then ends the process, whatever it is doing."""
        self.status = SIGNALLED + number
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, signal.SIG_DFL if self._modes is None else self._end)
        if self._task is not None:
            self._task.cancel()

    def _interrupted(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        else:
            self.leave()

    def _install(self, number: int, handler: Callable[[], object]) -> None:
        before = signal.getsignal(number)
        if before is signal.SIG_IGN:
            return  # nohup, or a shell's background job
        with suppress(ValueError):
            signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(handler))
            self._before[number] = before

    def _end(self, *_: object) -> None:
        """The hard way: no cleanup but of the terminal, which would stay unusable."""
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSANOW, self._modes)  # type: ignore[arg-type]  # it is a terminal
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)


def _terminal_modes() -> list[Any] | None:
    """How the terminal was found; None when standard input is none."""
    if sys.platform == "win32":
        return None
    try:
        return termios.tcgetattr(0)
    except (OSError, termios.error):
        return None


async def interruptible(work: Callable[[Interrupts], Awaitable[int]]) -> int:
    """Await ``work`` and return its exit status, or that of the signal that ended it."""
    with Interrupts() as interrupts:
        try:
            return await work(interrupts)
        except asyncio.CancelledError:
            if interrupts.status is None:
                raise
            return interrupts.status


def run(work: Callable[[Interrupts], Awaitable[int]]) -> int:
    """Run ``work`` in a loop of its own; the exit status, also when Ctrl-C ends the loop itself."""
    try:
        return asyncio.run(interruptible(work))
    except (KeyboardInterrupt, asyncio.CancelledError):  # the loop's own answer to Ctrl-C before and after ours
        return SIGNALLED + signal.SIGINT
