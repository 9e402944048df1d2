"""A loop whose clock jumps to the next timer when nothing else is left to do: hours pass at once, and exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never sleeps; threads and sockets count as nothing to do."""

    now = 0.0

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.now

    def _run_once(self) -> None:
        timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if timers and not self._ready:  # type: ignore[attr-defined]
            self.now = max(self.now, min(timers))
        super()._run_once()  # type: ignore[misc]


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """Run ``main()`` and return its result and the seconds that it took; no asyncio task may be left."""
    loop = VirtualLoop()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        result = loop.run_until_complete(main())
        took = loop.time()
        loop.run_until_complete(loop.shutdown_asyncgens())
        left = asyncio.all_tasks(loop)
    finally:
        loop.close()
    assert not left and not faults, (left, faults)
    return result, took
