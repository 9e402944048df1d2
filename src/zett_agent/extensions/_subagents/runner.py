"""The asyncio tasks behind background work: outside of the call that started it, and cancelled at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from zett_agent._runtime.clock import CURRENT_CLOCK
from zett_agent._runtime.supervisor import Supervisor
from zett_agent.tools.current_call import CURRENT_CALL


class Runner:
    """The asyncio task behind a background task.

    An asyncio task that is cancelled before its first step never runs its body. So a cancel that comes that early is
    only noted, and ``enter``, the body's first step, raises it.
    """

    __slots__ = ("_entered", "cancelled", "task")

    #: The asyncio task whose body calls ``enter``; set by whoever makes it, before anything is awaited.
    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.cancelled = False
        self._entered = False

    def enter(self) -> None:
        """The body begins; CancelledError when a cancel came first."""
        self._entered = True
        if self.cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        """Stop the body; a second cancel adds nothing, so that it cannot cut short what cleans up after the first."""
        if not self.cancelled:
            self.cancelled = True
            if self._entered:
                self.task.cancel()

    async def ended(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as of ``wait``
        """Wait until the body has ended, or ``timeout`` seconds; a cancel of the caller leaves the body alone."""
        if self.task is not asyncio.current_task():  # the body does not wait for itself
            await asyncio.wait({self.task}, timeout=timeout)


def spawn_apart(
    supervisor: Supervisor, work: Coroutine[Any, Any, None], name: str, done: Callable[[asyncio.Task[None]], None]
) -> asyncio.Task[None]:
    """Run ``work`` with the caller's context variables but outside of its call and time, ``done`` after it.

    A callback remembers the variables too, and the call is what would keep the caller's request alive.
    """
    variables = copy_context()
    variables.run(CURRENT_CALL.set, None)
    variables.run(CURRENT_CLOCK.set, None)
    task = variables.run(partial(supervisor.spawn, work, name=name))
    task.add_done_callback(done, context=variables)
    return task
