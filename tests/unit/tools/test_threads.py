"""Threads for plain functions (LOOP-02, LOOP-03, core-42)."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import partial

import pytest
import pytest_asyncio

from zett_agent.tools.threads import NEVER_BEGAN, WorkerPool, shared_pool

WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Gate:
    """A function that blocks its thread until it is opened, and knows how many are inside."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)
        self.runs = 0

    def __call__(self) -> str:
        self.runs += 1
        self.inside.release()
        assert self.open.wait(10)
        return "passed"

    async def entered(self, count: int = 1) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self.inside.acquire, timeout=10)


@pytest_asyncio.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_function_runs_in_a_daemon_thread_and_its_result_comes_back() -> None:
    thread = await WorkerPool().run(threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.daemon


class Refused(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("no"), Refused("no"), asyncio.CancelledError("no"), GeneratorExit()])
async def test_an_error_of_the_function_comes_back_whatever_it_is(error: BaseException) -> None:
    def fail() -> None:
        raise error

    pool = WorkerPool(1)
    with pytest.raises(type(error)) as caught:
        await pool.run(fail)
    assert caught.value is error
    assert await pool.run(lambda: 1) == 1


async def test_stop_iteration_comes_back_as_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="the function raised StopIteration") as caught:
        await WorkerPool().run(lambda: next(iter(())))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_loop_02_a_function_sees_the_callers_context_and_changes_only_a_copy() -> None:
    def rename() -> str:
        before = WHO.get()
        WHO.set("the thread")
        return before

    pool = WorkerPool(1)
    WHO.set("the caller")
    assert [await pool.run(rename), await pool.run(rename)] == ["the caller", "the caller"]
    assert WHO.get() == "the caller"


async def test_functions_begin_in_the_order_they_came() -> None:
    pool = WorkerPool(1)
    order: list[int] = []
    await asyncio.gather(*(pool.run(lambda n=n: order.append(n)) for n in range(50)))  # type: ignore[misc]
    assert order == list(range(50))


async def test_idle_threads_are_used_again() -> None:
    pool = WorkerPool()
    idents = {await pool.run(threading.get_ident) for _ in range(20)}
    assert len(idents) == 1


async def test_core_42_no_more_than_size_functions_run_at_once(gate: Gate) -> None:
    pool = WorkerPool(3)
    tasks = [asyncio.create_task(pool.run(gate)) for _ in range(5)]
    await gate.entered(3)
    assert not gate.inside.acquire(timeout=0.05)
    gate.open.set()
    assert await asyncio.gather(*tasks) == ["passed"] * 5


async def test_core_42_functions_that_wait_for_each_other_all_run() -> None:
    barrier = threading.Barrier(40)
    assert len(await asyncio.gather(*(shared_pool().run(lambda: barrier.wait(10)) for _ in range(40)))) == 40


async def test_loop_03_a_function_not_begun_never_runs_after_cancellation(gate: Gate) -> None:
    pool = WorkerPool(1)
    first = asyncio.create_task(pool.run(gate))
    await gate.entered()
    ran: list[int] = []
    second = asyncio.create_task(pool.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    await cancelled(second)
    gate.open.set()
    await first
    await pool.run(lambda: None)
    assert ran == []


async def test_loop_03_an_abandoned_function_costs_no_place_and_its_result_is_dropped(gate: Gate) -> None:
    pool = WorkerPool(1)
    stuck = asyncio.create_task(pool.run(gate))
    await gate.entered()
    waiting = asyncio.create_task(pool.run(threading.get_ident))
    await asyncio.sleep(0)
    await cancelled(stuck)
    first = await waiting
    gate.open.set()
    await eventually(lambda: pool._abandoned == 0)
    assert pool._threads == 1
    assert await pool.run(threading.get_ident) == first


async def test_loop_03_a_late_error_of_an_abandoned_function_is_silent(gate: Gate) -> None:
    def fail() -> None:
        gate()
        raise ValueError("too late")

    pool = WorkerPool(1)
    stuck = asyncio.create_task(pool.run(fail))
    await gate.entered()
    await cancelled(stuck)
    gate.open.set()
    await eventually(lambda: pool._abandoned == 0)
    assert await pool.run(lambda: 1) == 1
    gc.collect()


async def test_loop_03_a_thread_that_was_not_replaced_goes_on_working(gate: Gate) -> None:
    pool = WorkerPool(1)
    stuck = asyncio.create_task(pool.run(gate))
    await gate.entered()
    await cancelled(stuck)
    gate.open.set()
    await eventually(lambda: pool._idle == 1)
    assert await pool.run(lambda: 1) == 1
    assert pool._threads == 1


async def test_loop_03_abandoned_functions_have_a_bound_and_then_cost_a_place(gate: Gate) -> None:
    pool = WorkerPool(2)
    for _ in range(4):
        stuck = asyncio.create_task(pool.run(gate))
        await gate.entered()
        await cancelled(stuck)
    waiting = asyncio.create_task(pool.run(lambda: "free again"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert pool._threads == 4
    gate.open.set()
    assert await waiting == "free again"
    await eventually(lambda: pool._threads == pool._idle <= 2)


async def test_loop_03_threads_that_are_all_held_are_warned_of_once_until_one_returns(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    pool = WorkerPool(1)

    def warnings() -> list[str]:
        return [record.message for record in caplog.records if "threads for plain functions are held" in record.message]

    async def hold() -> None:
        for _ in range(2):
            stuck = asyncio.create_task(pool.run(gate))
            await gate.entered()
            await cancelled(stuck)

    for episode in (1, 2):
        await hold()
        assert len(warnings()) == episode - 1
        waiting = [asyncio.create_task(pool.run(lambda: "free again")) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(warnings()) == episode
        gate.open.set()
        assert [await task for task in waiting] == ["free again"] * 3
        gate.open.clear()
    assert warnings()[0].startswith("all 2 threads")


async def test_loop_03_the_last_thread_that_is_given_up_is_warned_of_when_others_wait_for_it(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    pool = WorkerPool(1)
    first = asyncio.create_task(pool.run(gate))
    await gate.entered()
    await cancelled(first)
    second = asyncio.create_task(pool.run(gate))
    await gate.entered()
    waiting = asyncio.create_task(pool.run(lambda: "free again"))
    await asyncio.sleep(0)
    assert "all 2 threads" not in caplog.text
    await cancelled(second)
    assert "all 2 threads" in caplog.text
    gate.open.set()
    assert await waiting == "free again"


async def test_a_cancel_says_whether_the_function_had_begun(gate: Gate) -> None:
    pool = WorkerPool(1)
    begun = asyncio.create_task(pool.run(gate))
    await gate.entered()
    queued = asyncio.create_task(pool.run(gate))
    await asyncio.sleep(0)
    for task, never in ((queued, True), (begun, False)):
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await task
        assert (NEVER_BEGAN in getattr(stopped.value, "__notes__", ())) is never


async def test_a_timeout_that_ends_a_wait_for_a_thread_is_a_timeout(gate: Gate) -> None:
    pool = WorkerPool(1)
    begun = asyncio.create_task(pool.run(gate))
    await gate.entered()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pool.run(gate)
    gate.open.set()
    assert await begun == "passed"


async def test_a_result_that_comes_as_the_waiter_leaves_is_dropped() -> None:
    pool = WorkerPool(1)
    done = threading.Event()
    task = asyncio.create_task(pool.run(done.set))
    await asyncio.sleep(0)
    assert done.wait(10)
    time.sleep(0.02)  # noqa: ASYNC251 - the loop must not see the result before the cancellation
    await cancelled(task)
    assert await pool.run(lambda: 1) == 1


async def test_nothing_keeps_the_result_or_the_error_of_a_call() -> None:
    class Thing:
        pass

    def fail(thing: Thing) -> None:
        raise ValueError(thing)

    pool = WorkerPool(1)
    result = await pool.run(Thing)
    seen = weakref.ref(result)
    with pytest.raises(ValueError, match="Thing"):
        await pool.run(partial(fail, result))
    del result
    await eventually(lambda: bool(gc.collect()) or seen() is None)
    assert seen() is None


async def test_idle_threads_end_after_a_while() -> None:
    pool = WorkerPool(2, idle_seconds=0.01)
    thread = await pool.run(threading.current_thread)
    await eventually(lambda: not thread.is_alive())
    assert pool._threads == 0
    assert await pool.run(lambda: 1) == 1


def test_one_pool_serves_several_event_loops_at_once() -> None:
    pool = WorkerPool(4)
    results: list[list[int]] = []

    async def use(start: int) -> list[int]:
        return list(await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(start, start + 200))))  # type: ignore[misc]

    def loop(start: int) -> None:
        results.append(asyncio.run(use(start)))

    loops = [threading.Thread(target=loop, args=(start,)) for start in (0, 1000, 2000)]
    for thread in loops:
        thread.start()
    for thread in loops:
        thread.join(15)
    assert sorted(results) == [list(range(start, start + 200)) for start in (0, 1000, 2000)]


def test_a_result_for_a_loop_that_is_gone_is_dropped() -> None:
    pool = WorkerPool(1)
    started, released = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert released.wait(10)

    loop = asyncio.new_event_loop()
    waiting = pool.run(work)
    task = loop.create_task(waiting)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert started.wait(10)
    loop.close()
    released.set()
    assert asyncio.run(pool.run(lambda: 1)) == 1
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    waiting.close()


class NoThread:
    def __init__(self, **options: object) -> None: ...

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


async def test_a_thread_that_cannot_replace_an_abandoned_one_does_not_change_the_cancellation(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WorkerPool(1)
    stuck = asyncio.create_task(pool.run(gate))
    await gate.entered()
    waiting = asyncio.create_task(pool.run(lambda: "later"))
    await asyncio.sleep(0)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", NoThread)
        await cancelled(stuck)
    gate.open.set()
    assert await waiting == "later"


async def test_a_thread_that_cannot_be_started_fails_the_call_only_when_there_is_none(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, empty = WorkerPool(2), WorkerPool(2)
    first = asyncio.create_task(busy.run(gate))
    await gate.entered()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", NoThread)
        second = asyncio.create_task(busy.run(lambda: "after the first"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="can't start"):
            await empty.run(lambda: None)
    gate.open.set()
    assert [await first, await second] == ["passed", "after the first"]
    assert await empty.run(lambda: 1) == 1


def test_a_pool_needs_a_size() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        WorkerPool(0)


def test_the_shared_pool_is_one_per_process() -> None:
    assert shared_pool() is shared_pool()
    code = """
import asyncio, os
from zett_agent.tools.threads import shared_pool
asyncio.run(shared_pool().run(int))
parent = shared_pool()
child = os.fork()
if child == 0:
    ok = shared_pool() is not parent and asyncio.run(shared_pool().run(lambda: 7)) == 7
    os._exit(0 if ok else 1)
print(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=15)
    assert done.stdout.strip() == "0"


def test_loop_03_the_end_of_the_process_waits_for_no_stuck_function() -> None:
    code = """
import asyncio, threading, time
from zett_agent.tools.threads import shared_pool
async def main():
    started = threading.Event()
    def stuck():
        started.set()
        time.sleep(60)
    task = asyncio.create_task(shared_pool().run(stuck))
    while not started.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
asyncio.run(main())
print("over")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=15)
    assert (done.stdout.strip(), done.stderr) == ("over", "")
