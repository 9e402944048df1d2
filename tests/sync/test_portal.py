"""The loop thread and what other threads hand it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError

import pytest

from tests.sync.support import SECONDS, Gate, in_thread, interrupt_when, wait_for
from zett_agent._runtime.portal import Actor, Job, Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal(os.getpid())
    yield portal
    portal.close()


def call(portal: Portal, work: Callable[[], object]) -> object:
    return portal.run(Job(work), portal.begin)


def test_the_thread_starts_with_the_first_job_and_ends_with_close(portal: Portal) -> None:
    threads = threading.active_count()
    assert threading.active_count() == threads
    thread = call(portal, threading.current_thread)
    assert isinstance(thread, threading.Thread)
    assert (thread.name, thread.daemon) == ("zett-agent-sync", True)
    assert call(portal, threading.current_thread) is thread
    portal.close()
    assert not thread.is_alive()


def test_a_portal_that_never_started_can_be_closed_and_takes_no_job_then() -> None:
    portal = Portal(os.getpid())
    portal.close()
    with pytest.raises(RuntimeError, match="the SyncRuntime is closed"):
        call(portal, int)
    with pytest.raises(RuntimeError, match="the SyncRuntime is closed"):
        portal.start()
    portal.post(int)  # nobody is there to run it


def test_a_job_gives_its_outcome_once_and_to_one_thread_only(portal: Portal) -> None:
    error = LookupError("gone")

    async def fail() -> None:
        raise error

    with pytest.raises(LookupError) as caught:
        call(portal, fail)
    assert caught.value is error
    assert [entry.name for entry in caught.traceback][-2:] == ["perform", "fail"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_exit_raised_by_a_job_is_for_its_caller_and_the_portal_lives_on(
    portal: Portal, error: BaseException
) -> None:
    def leave() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call(portal, leave)
    assert caught.value is error
    assert call(portal, int) == 0


def test_an_exit_in_a_nested_task_reaches_who_awaits_it_and_others_go_on(portal: Portal) -> None:
    gate = Gate()
    other = in_thread(lambda: call(portal, gate))
    wait_for(gate.reached)

    async def leave() -> None:
        raise SystemExit(4)

    async def parent() -> None:
        await asyncio.create_task(leave())

    with pytest.raises(SystemExit):
        call(portal, parent)
    assert not other.done()
    portal.close()
    with pytest.raises(CancelledError):
        other.result(SECONDS)


def test_code_that_cancels_every_task_or_stops_the_loop_does_not_end_the_portal(portal: Portal) -> None:
    def sweep() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        asyncio.get_running_loop().stop()

    async def wait() -> None:
        sweep()
        await asyncio.Event().wait()

    thread = call(portal, threading.current_thread)
    with pytest.raises(CancelledError):
        call(portal, wait)
    assert isinstance(thread, threading.Thread)
    thread.join(0.05)
    assert thread.is_alive()
    assert call(portal, int) == 0


def test_close_cancels_what_was_started_outside_before_what_that_started(portal: Portal) -> None:
    order: list[str] = []
    ready = threading.Event()

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("child")

    async def parent() -> None:
        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            order.append("parent first")
            task.cancel()
            await asyncio.wait([task])
            order.append("parent last")

    waiting = in_thread(lambda: call(portal, parent))
    wait_for(ready)
    portal.close()
    assert order == ["parent first", "child", "parent last"]
    with pytest.raises(CancelledError) as caught:
        waiting.result(SECONDS)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


def test_close_ends_stray_tasks_and_async_generators_too(portal: Portal) -> None:
    ended: list[str] = []
    kept: list[object] = []

    async def stray() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def numbers() -> object:
        async def generate() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                ended.append("generator")

        generator = generate()
        kept.extend((generator, asyncio.create_task(stray())))
        return await anext(generator)

    assert call(portal, numbers) == 1
    portal.close()
    assert ended == ["task", "generator"]


def test_close_gives_up_on_a_blocked_loop_within_its_bound_and_frees_who_waits(
    portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    inside, unblock = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        unblock.wait(SECONDS)

    blocked = in_thread(lambda: call(portal, block))
    wait_for(inside)
    started = time.monotonic()
    portal.close(0.05)
    assert time.monotonic() - started < 5
    with pytest.raises(CancelledError):
        blocked.result(SECONDS)
    assert "blocked" in caplog.text
    unblock.set()


def test_close_names_what_did_not_stop_within_the_bound(portal: Portal, caplog: pytest.LogCaptureFixture) -> None:
    inside = threading.Event()
    release = asyncio.Event()

    async def stubborn() -> None:
        inside.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    waiting = in_thread(lambda: call(portal, stubborn))
    wait_for(inside)
    portal.close(0.05)
    assert "zett sync call did not stop within 0.05 seconds" in caplog.text
    with pytest.raises(CancelledError):
        waiting.result(SECONDS)


def test_a_job_that_was_given_up_stays_cancelled_whatever_its_work_still_returns() -> None:
    job: Job[int] = Job(lambda: 1)
    job.cancel()
    asyncio.run(job.perform())
    with pytest.raises(CancelledError):
        job.outcome()


def test_a_job_that_has_its_outcome_keeps_it() -> None:
    job: Job[int] = Job(lambda: 1)
    asyncio.run(job.perform())
    job.cancel()
    job.abort()
    assert job.outcome() == 1


def test_a_job_aborted_before_it_begins_does_no_work() -> None:
    done: list[int] = []
    job: Job[None] = Job(lambda: done.append(1))
    job.abort()
    asyncio.run(job.perform())
    with pytest.raises(CancelledError):
        job.outcome()
    assert not done


def test_an_interrupt_before_a_job_could_begin_does_not_wait_for_it(portal: Portal) -> None:
    """As when Ctrl-C comes just before the loop gets the job; here ``begin`` loses it."""
    lost = threading.Event()
    interrupt_when(lost)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        portal.run(Job(int), lambda _: lost.set())
    assert time.monotonic() - started < 5


def test_in_a_forked_child_the_portal_of_the_parent_refuses_and_touches_nothing() -> None:
    portal = Portal(os.getpid() + 1)  # as the child sees it
    with pytest.raises(RuntimeError, match="begin it anew in this one"):
        call(portal, int)
    portal.post(int)
    portal.close()


def test_an_actor_does_all_its_jobs_in_one_task(portal: Portal) -> None:
    finished: list[object] = []

    async def task() -> object:
        return asyncio.current_task()

    async def finish() -> None:
        finished.append(asyncio.current_task())

    actor = Actor(portal, finish)
    first = actor.ask(task)
    assert actor.ask(task) is first
    actor.end()
    assert finished == [first]
    with pytest.raises(CancelledError):
        actor.ask(task)
    actor.end()


def test_an_actor_that_was_never_asked_has_nothing_to_finish(portal: Portal) -> None:
    async def finish() -> None:
        raise AssertionError

    Actor(portal, finish).end()


def test_an_actor_finishes_uncancelled_after_its_job_was_cancelled(portal: Portal) -> None:
    gate = Gate()
    finished: list[str] = []

    async def finish() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with asyncio.timeout(SECONDS):
            await asyncio.sleep(0)
        finished.append(f"{task.cancelling()} cancels left")

    actor = Actor(portal, finish)
    waiting = in_thread(lambda: actor.ask(gate))
    wait_for(gate.reached)
    actor.end()
    assert finished == ["0 cancels left"]
    with pytest.raises(CancelledError):
        waiting.result(SECONDS)
