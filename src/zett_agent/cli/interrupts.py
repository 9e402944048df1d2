"""Ctrl-C: the first stops what can be stopped, the next leaves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

#: The exit status of a program that a signal ended: this plus the signal's number.
SIGNALLED = 128


class Interrupts:
    """Signal handling of one command; a context manager inside the asyncio task that it may cancel.

    ``status`` is the exit status once somebody wanted to leave, None before. Where a loop takes no signal handlers
    (Windows, other threads) Ctrl-C leaves at once, as Python does by itself.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self._stop: Callable[[], object] | None = None
        self._before: dict[int, Any] = {}

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
            self._loop.remove_signal_handler(number)
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
        """Cancel the command; one more Ctrl-C then ends the process the hard way."""
        self.status = SIGNALLED + number
        if signal.SIGINT in self._before:
            self._loop.remove_signal_handler(signal.SIGINT)  # which puts Python's own in its place
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
        with suppress(NotImplementedError, ValueError, RuntimeError):
            self._loop.add_signal_handler(number, handler)
            self._before[number] = before


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
