"""Threads for plain functions.

Why not the executor of asyncio: everything else in the process uses it too, it is small (6 threads on 2 cores, so tools
that wait for each other stop for ever), a cancelled call keeps its thread, and the process waits at its end for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Generic, TypeVar

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_LOG = logging.getLogger("zett_agent")
NEVER_BEGAN = "the function never began: it waited for a thread"


class _Job(Generic[T]):
    """One function on its way through the pool; the pool's lock guards ``state``."""

    __slots__ = ("context", "done", "error", "function", "loop", "result", "state")

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.context: Context = copy_context()
        self.loop = loop
        self.done: asyncio.Future[None] = loop.create_future()
        self.result: T
        self.error: BaseException | None = None
        self.state = "queued"

    def execute(self) -> None:
        """Run the function and keep what came of it."""
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:  # whatever it is, it belongs to the one who waits, not to this thread
            self.error = error

    def announce(self) -> None:
        """Tell the waiting coroutine; its loop may be gone."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def outcome(self) -> T:
        """Return the result or raise the error of the function."""
        if self.error is None:
            return self.result
        error, self.error = self.error, None
        try:
            if isinstance(error, StopIteration):
                raise RuntimeError("the function raised StopIteration") from error
            raise error
        finally:
            del error  # the traceback refers to this frame


class WorkerPool:
    """Runs plain functions in daemon threads, first come, first served; usable from several event loops at once.

    At most ``size`` threads do work that somebody waits for. A function whose waiter was cancelled is abandoned: its
    result is dropped, and as it may never return, another thread may take its place. There are never more than
    ``2 * size`` threads: once ``size`` abandoned functions are stuck, each further one costs a place until it returns.
    When they all are held that way, that is logged. Threads start on demand and end when idle; the end of the process
    waits for none.
    """

    def __init__(self, size: int = 64, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        if size < 1:
            raise ValueError("size must be at least 1")
        self._size = size
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._queue: deque[_Job[object]] = deque()
        self._threads = 0
        self._idle = 0  # threads between two jobs, whether they wait already or are still on their way
        self._abandoned = 0
        self._told = False  # that every thread is held by an abandoned function; until one of them returns

    async def run(self, function: Callable[[], T]) -> T:
        """Run ``function`` in a thread, in a copy of the caller's context; return its result or raise its error.

        When the caller is cancelled before the function began, it never runs, and a note on the error says so; when it
        runs, it is abandoned.
        """
        job = _Job(function, asyncio.get_running_loop())
        self._submit(job)
        try:
            await job.done
        except BaseException as stopped:
            if self._leave(job):
                stopped.add_note(NEVER_BEGAN)  # no class of its own: ``asyncio.timeout`` takes no other CancelledError
            raise
        return job.outcome()

    def _submit(self, job: _Job[T]) -> None:
        with self._changed:
            self._queue.append(job)  # type: ignore[arg-type]
            try:
                self._staff()
            except RuntimeError:
                self._queue.remove(job)  # type: ignore[arg-type]
                raise
            stuck = self._newly_stuck()
        self._warn(stuck)

    def _staff(self) -> None:
        """See to it that somebody takes the newest job of the queue, within the bounds.

        Raises RuntimeError when no thread can be started and there is none that would take it later.
        """
        if self._idle >= len(self._queue):
            self._changed.notify()
        elif self._threads - self._abandoned < self._size and self._threads < 2 * self._size:
            try:
                threading.Thread(target=self._work, name="zett-agent-tool", daemon=True).start()
            except RuntimeError:
                if not self._threads:
                    raise
                return
            self._threads += 1
            self._idle += 1

    def _leave(self, job: _Job[T]) -> bool:
        """The waiter goes; what it waited for is done, or abandoned, or, True, has never begun."""
        stuck = 0
        with self._changed:
            if job.state == "queued":
                self._queue.remove(job)  # type: ignore[arg-type]
                return True
            if job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
                if self._queue:
                    self._staff()
                stuck = self._newly_stuck()
        self._warn(stuck)
        return False

    def _newly_stuck(self) -> int:
        """How many threads there are, when a job waits, no thread will take it soon, and nobody was told of that."""
        if self._told or not self._queue or self._abandoned < self._threads:
            return 0
        self._told = True
        return self._threads

    def _warn(self, stuck: int) -> None:
        if stuck:
            _LOG.warning(
                "all %d threads for plain functions are held by calls that were given up (timed out or stopped) and do "
                "not return; every further call of a plain function waits",
                stuck,
            )

    def _work(self) -> None:
        while (job := self._take()) is not None:
            job.execute()
            if not self._finish(job):
                return
            del job

    def _take(self) -> _Job[object] | None:
        """The next job, or None after a while without one."""
        with self._changed:
            while not self._queue:
                if not self._changed.wait(self._idle_seconds) and not self._queue:
                    self._threads -= 1
                    self._idle -= 1
                    return None
            self._idle -= 1
            job = self._queue.popleft()
            job.state = "running"
            return job

    def _finish(self, job: _Job[object]) -> bool:
        """Deliver the outcome; False when this thread was replaced meanwhile and has to end."""
        with self._changed:
            abandoned, job.state = job.state == "abandoned", "done"
            if abandoned:
                self._abandoned -= 1
                self._told = False
                if self._threads - self._abandoned > self._size:
                    self._threads -= 1
                    return False
            self._idle += 1  # before the waiter hears of it: its next call finds this thread and starts no other
        if not abandoned:
            job.announce()
        return True


_shared: tuple[int, WorkerPool] | None = None


def shared_pool() -> WorkerPool:
    """The pool of this process, made on first use (and anew in a forked child, which inherits no threads)."""
    global _shared
    if _shared is None or _shared[0] != os.getpid():
        _shared = (os.getpid(), WorkerPool())
    return _shared[1]
