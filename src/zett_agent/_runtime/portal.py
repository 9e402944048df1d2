"""A thread with an event loop, and how other threads hand it work and wait for it.

Why not anyio's BlockingPortal: there an interrupted wait leaves its work running, a SystemExit in one call ends the
portal for all, and its closing has no bound. One task per stream, dropped streams and forks would be ours anyway.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, TypeVar, cast

from zett_agent._runtime.supervisor import STOP_BOUND, failure, join, start_task, stop_tasks

T = TypeVar("T")
_LOG = logging.getLogger("zett_agent")

#: Seconds for each step of a closing at the end of the process, which must not take long.
EXIT_BOUND = 1.0

#: Seconds after which a waiting thread looks for signals: one that comes just before it waits does not wake it, and on
#: Windows none does.
SIGNAL_SECONDS = 0.25

_OWN_THREAD = (
    "a blocking call on the SyncRuntime's own thread would wait for itself for ever; in hooks, callbacks and async "
    "tools await the async object instead (SyncAgent.client, SyncObject.wrapped), or call from another thread"
)
_CLOSED = "the SyncRuntime is closed"
_FORKED = "this was begun in the parent process, before the fork; begin it anew in this one"


class Job(Generic[T]):
    """Work that the loop's thread does and one other thread waits for.

    Why a bare lock and no Event or Future: their condition stays locked for ever, and the loop with it, when Ctrl-C
    comes just after it was taken. The lock here is released by the loop and taken once, by who waits.
    """

    __slots__ = ("_aborted", "_done", "_error", "_result", "_settled", "_task", "_work")

    def __init__(self, work: Callable[[], Awaitable[T] | T]) -> None:
        self._work = work
        self._settled = False
        self._done = threading.Lock()
        self._done.acquire()
        self._result: T
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self._aborted = False

    async def perform(self) -> None:
        """Do the work; whatever comes of it, a SystemExit too, goes to who waits and nowhere else."""
        self._task = asyncio.current_task()
        try:
            if self._aborted:
                raise asyncio.CancelledError
            value: Any = self._work()
            self._result = await value if isawaitable(value) else value
        except asyncio.CancelledError as cancelled:
            self.cancel(cancelled)
        except BaseException as error:
            self._error = error
        finally:
            self._task = None
        self._settle()

    def abort(self) -> None:
        """Cancel the work, or see to it that it never begins; on the loop's thread."""
        self._aborted = True
        if self._task is not None:
            self._task.cancel()
        else:
            self.cancel()

    def cancel(self, cause: BaseException | None = None) -> None:
        """Let who waits see CancelledError, unless there is an outcome already."""
        if not self._settled:
            self._error = CancelledError("the work was cancelled before it was done")
            self._error.__cause__ = cause
            self._settle()

    def wait(self) -> None:
        """Wait for the outcome."""
        while not self.settled_within(SIGNAL_SECONDS):
            pass

    def settled_within(self, seconds: float) -> bool:
        """Wait for the outcome at most so long; True when it is there."""
        return self._settled or self._done.acquire(timeout=seconds)

    def outcome(self) -> T:
        """Return the result or raise the error, once."""
        if self._error is None:
            return self._result
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    def _settle(self) -> None:
        self._settled = True
        with suppress(RuntimeError):  # it was given up, and has an outcome after all
            self._done.release()


class Portal:
    """One daemon thread with one loop, in the process ``pid``; it starts with the first work, ``close()`` ends it.

    A job sees the context variables of the thread that gave it: ``call_soon_threadsafe`` copies them there. A forked
    child has the object and not the thread: there it does nothing but refuse.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._bound = STOP_BOUND
        self._jobs: set[Job[Any]] = set()  # whose outcome a thread waits for
        self._roots: set[asyncio.Task[None]] = set()  # what was started from outside; all else hangs on these
        self._ended: tuple[asyncio.Task[None], ...] = ()  # the roots that the closing ended
        self._at_exit = partial(self.close, EXIT_BOUND)

    def start(self) -> asyncio.AbstractEventLoop:
        """Start the thread unless it runs; RuntimeError once the portal is closed."""
        with self._lock:
            return self._started()

    def refuse_own_thread(self) -> None:
        """RuntimeError on the portal's own thread, which must not wait for itself."""
        _refuse(threading.current_thread() is self._thread, _OWN_THREAD)

    def run(self, job: Job[T], begin: Callable[[Job[T]], object]) -> T:
        """Let ``begin(job)`` run on the loop's thread, wait for the job and return its outcome.

        When the wait is interrupted (Ctrl-C) the job is cancelled, and given a moment to end, before that is raised.
        """
        _refuse(self._pid != os.getpid(), _FORKED)
        self.refuse_own_thread()
        try:
            with self._lock:
                loop = self._started()
                self._jobs.add(job)
                loop.call_soon_threadsafe(begin, job)
            job.wait()
        except BaseException:
            if job in self._jobs:
                self.post(job.abort)
                job.settled_within(STOP_BOUND)
            raise
        finally:
            self._jobs.discard(job)
        return job.outcome()

    def begin(self, job: Job[Any]) -> asyncio.Task[None]:
        """Start an asyncio task for ``job``; on the loop's thread."""
        return self.spawn(job.perform(), "zett sync call")

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start an asyncio task that ``close()`` cancels and waits for; on the loop's thread."""
        task = start_task(coroutine, name)
        self._roots.add(task)
        task.add_done_callback(self._roots.discard)
        return task

    def post(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` on the loop's thread, some time; takes no lock and never waits: a finalizer may call it."""
        if self._loop is not None and self._pid == os.getpid():
            with suppress(RuntimeError):  # the loop is closed, and what the callback would have ended has ended
                self._loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Begin to close, without waiting; for a finalizer: nobody else can use the portal any more."""
        self._closed = True
        self.post(self._stop)

    def close(self, bound: float = STOP_BOUND) -> None:
        """Cancel what runs, wait for it and end the thread; ``bound`` seconds for each of three steps.

        Errors of a cleanup that nobody else gets to see are raised as a BaseExceptionGroup.
        """
        if self._pid != os.getpid():
            return
        self.refuse_own_thread()
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._bound = bound
            self.post(self._stop)
            self._thread.join(3 * bound + 1)
            if self._thread.is_alive():
                _LOG.error("the event loop of a SyncRuntime is blocked; its thread was left behind")
                self._give_up()
        ended, self._ended = self._ended, ()
        errors = [error for task in ended if (error := failure(task)) is not None]
        if errors:
            raise BaseExceptionGroup("cleanup failed while the SyncRuntime was closing", errors)

    def _started(self) -> asyncio.AbstractEventLoop:
        _refuse(self._closed, _CLOSED)
        if self._loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._live, args=(loop,), name="zett-agent-sync", daemon=True)
            thread.start()
            self._loop, self._thread = loop, thread
            atexit.register(self._at_exit)
        return self._loop

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        _run(loop, lambda: self._stopping)
        closing = loop.create_task(self._wind_up(), name="the closing of a SyncRuntime")
        closing.add_done_callback(lambda _: loop.stop())
        _run(loop, closing.done)
        loop.close()
        self._give_up()
        atexit.unregister(self._at_exit)

    def _stop(self) -> None:
        self._stopping = True
        asyncio.get_running_loop().stop()

    async def _wind_up(self) -> None:
        # First what was started from outside, so that each request cancels what is its own in the right order.
        self._ended = tuple(self._roots)
        await stop_tasks(self._ended, self._bound)
        await stop_tasks(asyncio.all_tasks() - {asyncio.current_task()}, self._bound)
        generators = start_task(asyncio.get_running_loop().shutdown_asyncgens(), "the closing of async generators")
        await join([generators], self._bound)

    def _give_up(self) -> None:
        for job in tuple(self._jobs):
            job.cancel()


class Actor:
    """One asyncio task that does the jobs of a stream or a context, one after another, and ``finish`` however it ends.

    One task, because cancel scopes, timeouts and context variables of the code that it drives belong to a task.
    """

    __slots__ = ("_current", "_finish", "_over", "_portal", "_queue", "_task")

    def __init__(self, portal: Portal, finish: Callable[[], Awaitable[object]]) -> None:
        self._portal = portal
        self._finish = finish
        self._queue: asyncio.Queue[Job[Any] | None] = asyncio.Queue()
        self._current: Job[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have the task do ``work`` and wait for the outcome; CancelledError once it has ended."""
        job: Job[T] = Job(work)
        return self._portal.run(job, self._take)

    def abandon(self) -> None:
        """Cancel what it does and let it end, without waiting; for finalizers too."""
        if not self._over:
            self._portal.post(self._halt)

    def end(self) -> None:
        """Cancel what it does and wait until it has ended; raises the error of ``finish``."""
        self._portal.run(Job(self._halted), self._portal.begin)

    def _take(self, job: Job[Any]) -> None:
        if self._over:
            job.cancel()
            return
        self._queue.put_nowait(job)
        if self._task is None:
            self._task = self._portal.spawn(self._live(), "zett sync stream")

    def _halt(self) -> None:
        self._queue.put_nowait(None)
        if self._current is not None:
            self._current.abort()

    async def _halted(self) -> None:
        self._halt()
        if self._task is not None:
            await join([self._task], STOP_BOUND)
            if (error := failure(self._task)) is not None:
                raise error

    async def _live(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        with suppress(asyncio.CancelledError):  # the portal closes
            while not task.cancelling() and (job := await self._queue.get()) is not None:
                self._current = job
                await job.perform()
                self._current = None
        self._over = True
        while task.cancelling():
            task.uncancel()
        await self._finish()


def _run(loop: asyncio.AbstractEventLoop, done: Callable[[], bool]) -> None:
    while not done():
        # A SystemExit in a task stops the loop. Whoever awaits that task gets it; for all others the loop goes on.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise RuntimeError(why)
