"""The time that a request may take: it goes, it stands while only people are waited for, and it strikes once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar


class Clock:
    """Calls ``strike`` when ``seconds`` have gone by; without ``seconds`` it only tells the clock above that it stands.

    It stands while a wait is open and every handler that runs waits itself, unless ``counts_waits``. The clock of a
    request that runs within another one is below the other's: while it stands, the call that it is in waits, too.
    """

    __slots__ = (
        "_above",
        "_counts_waits",
        "_idle_below",
        "_left",
        "_loop",
        "_running",
        "_strike",
        "_timer",
        "_waits",
        "idle",
    )

    def __init__(
        self,
        seconds: float | None,
        strike: Callable[[], None],
        *,
        counts_waits: bool = False,
        above: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._strike: Callable[[], None] | None = strike
        self._left = seconds
        self._counts_waits = counts_waits
        # No timer may be touched from another thread, where a tool may run an agent of its own.
        self._above = above if above is not None and above._loop is self._loop else None
        self._waits: set[str] = set()
        self._running: set[str] = set()
        self._idle_below = 0
        self._timer: asyncio.TimerHandle | None = None
        #: True while the request does nothing but wait for people.
        self.idle = False
        self._go()

    def opened(self, wait_id: str) -> None:
        """Somebody is asked."""
        self._waits.add(wait_id)
        self._look()

    def closed(self, wait_id: str) -> None:
        """That wait is over, whatever came of it."""
        self._waits.discard(wait_id)
        self._look()

    def entered(self, call_id: str) -> None:
        """A handler begins."""
        self._running.add(call_id)
        self._look()

    def left(self, call_id: str) -> None:
        """A handler has ended."""
        self._running.discard(call_id)
        self._look()

    def stop(self) -> None:
        """The request has its outcome: there is nothing left to strike, and nothing is kept."""
        self._halt()
        if self.idle:
            self._turn(idle=False)
        self._strike = self._above = None

    def _look(self) -> None:
        asked = bool(self._waits) or self._idle_below > 0
        idle = asked and len(self._running - self._waits) <= self._idle_below
        if idle is not self.idle and self._strike is not None:
            self._turn(idle=idle)
            if not self._counts_waits:
                (self._halt if idle else self._go)()

    def _turn(self, *, idle: bool) -> None:
        self.idle = idle
        if self._above is not None:
            self._above._idle_below += 1 if idle else -1
            self._above._look()

    def _go(self) -> None:
        if self._left is not None and self._strike is not None:
            self._timer = self._loop.call_later(self._left, self._strike)

    def _halt(self) -> None:
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None


#: The clock of the request that runs here; whatever outlives that request must be started without it.
CURRENT_CLOCK: ContextVar[Clock | None] = ContextVar("zett_agent_current_clock", default=None)
