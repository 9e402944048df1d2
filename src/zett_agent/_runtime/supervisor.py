"""Who owns the asyncio tasks that the runtime starts."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger("zett_agent")

#: Seconds that cancelled work has to end before it is named in the log and left alone.
STOP_BOUND = 10.0
#: The same for a request as a whole: longer, so that it sees its own calls reach their bound and closes its history.
CLOSE_BOUND = 2 * STOP_BOUND


def start_task(coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Run ``coroutine`` as an asyncio task that the caller itself awaits or stops before it returns."""
    return asyncio.get_running_loop().create_task(coroutine, name=name)


class Supervisor:
    """Starts asyncio tasks, keeps them referenced while they run, and ends them within a bound.

    A forked child has the object and not what runs: there it begins anew.
    """

    __slots__ = ("_pid", "_tasks")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __contains__(self, task: asyncio.Task[Any]) -> bool:
        """Whether ``task`` is one of its own and runs, in this process."""
        return task in self._running()

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run ``coroutine`` as an asyncio task of this supervisor."""
        task = start_task(coroutine, name)
        tasks = self._running()
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def stop(self, bound: float = STOP_BOUND) -> None:
        """Cancel everything that runs and wait for it, see ``stop_tasks``."""
        await stop_tasks(tuple(self._running()), bound)

    def _running(self) -> set[asyncio.Task[Any]]:
        if self._pid != os.getpid():
            self._pid, self._tasks = os.getpid(), set()
        return self._tasks


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]], bound: float = STOP_BOUND) -> None:
    """Cancel ``tasks`` and wait for them; those that have not ended after ``bound`` seconds are named in the log.

    A cancel of the caller does not cut the wait short: it is raised once the tasks have ended or the bound has passed.
    """
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await join(tasks, bound)


async def join(tasks: Iterable[asyncio.Task[Any]], bound: float) -> None:
    """Wait for ``tasks`` to end, within ``bound`` seconds, even when the caller is cancelled meanwhile."""
    tasks = tuple(tasks)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + bound
    cancelled: asyncio.CancelledError | None = None
    pending = {task for task in tasks if not task.done()}
    while pending and (left := deadline - loop.time()) > 0:
        try:
            _, pending = await asyncio.wait(pending, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
            pending = {task for task in pending if not task.done()}
    for task in tasks:
        failure(task)  # seen: whoever stops a task has the outcome already, and asyncio would log it
    name_late(pending, bound)
    if cancelled is not None:
        raise cancelled


def failure(task: asyncio.Task[Any]) -> BaseException | None:
    """The error that ``task`` ended with, if it has ended and with one; asyncio takes it for seen."""
    return task.exception() if task.done() and not task.cancelled() else None


def name_late(tasks: Iterable[asyncio.Task[Any]], bound: float) -> None:
    """Log which tasks did not end in time."""
    for task in tasks:
        _LOG.error("%s did not stop within %s seconds after it was cancelled", task.get_name(), bound)
