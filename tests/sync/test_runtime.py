"""SyncRuntime: calls from any thread, whatever loops there are (LOOP-01, LOOP-02)."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from tests.sync.support import SECONDS, Gate, in_thread, interrupt_when, wait_for
from zett_agent.sync import SyncRuntime

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def double(number: int, *, plus: int = 0) -> int:
    await asyncio.sleep(0)
    return 2 * number + plus


def test_a_call_returns_the_result_of_plain_and_of_async_functions(runtime: SyncRuntime) -> None:
    assert runtime.call(double, 4, plus=1) == 9
    assert runtime.call(divmod, 7, 2) == (3, 1)


def test_loop_01_calls_work_again_and_again_also_after_another_loop_was_closed(runtime: SyncRuntime) -> None:
    assert runtime.call(double, 1) == 2
    asyncio.run(double(1))
    loop = asyncio.new_event_loop()
    loop.close()
    assert runtime.call(double, 2) == 4


def test_loop_01_a_call_within_a_running_loop_works(runtime: SyncRuntime) -> None:
    async def notebook() -> int:
        return runtime.call(double, 3)

    assert asyncio.run(notebook()) == 6


def test_loop_01_calls_from_many_threads_run_at_the_same_time(runtime: SyncRuntime) -> None:
    together = asyncio.Barrier(8)

    async def meet() -> int:
        return await together.wait()

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: runtime.call(meet), range(8))) == list(range(8))


def test_a_call_on_the_runtimes_own_thread_is_refused_and_says_what_to_do(runtime: SyncRuntime) -> None:
    async def hook() -> None:
        runtime.call(double, 1)

    with pytest.raises(RuntimeError, match=r"await the async object instead .* or call from another thread"):
        runtime.call(hook)


def test_close_on_the_runtimes_own_thread_is_refused_and_changes_nothing(runtime: SyncRuntime) -> None:
    with pytest.raises(RuntimeError, match="own thread"):
        runtime.call(runtime.close)
    assert not runtime.closed
    assert runtime.call(double, 1) == 2


def test_loop_02_a_call_sees_the_callers_context_and_leaks_nothing_into_it(runtime: SyncRuntime) -> None:
    async def look_and_change() -> str:
        found = WHO.get()
        WHO.set("somebody else")
        return found

    token = WHO.set("u1")
    try:
        assert runtime.call(look_and_change) == "u1"
        assert runtime.call(WHO.get) == "u1"
        assert WHO.get() == "u1"
    finally:
        WHO.reset(token)


def test_an_error_keeps_its_identity_type_and_traceback(runtime: SyncRuntime) -> None:
    error = LookupError("gone")

    async def inner() -> None:
        raise error

    with pytest.raises(LookupError) as caught:
        runtime.call(inner)
    assert caught.value is error
    names = [entry.name for entry in caught.traceback]
    assert names[0] == "test_an_error_keeps_its_identity_type_and_traceback"
    assert names[-1] == "inner"


def test_an_error_that_was_raised_is_not_kept(runtime: SyncRuntime) -> None:
    class Heavy(Exception):
        pass

    async def inner() -> None:
        raise Heavy

    gc.disable()  # a reference cycle would keep it
    try:
        with pytest.raises(Heavy) as caught:
            runtime.call(inner)
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()


def test_ctrl_c_in_a_waiting_thread_cancels_the_work_waits_for_it_and_is_raised(runtime: SyncRuntime) -> None:
    gate = Gate()
    interrupt_when(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        runtime.call(gate)
    assert gate.cancelled.is_set()
    assert runtime.call(double, 1) == 2


def test_ctrl_c_in_a_waiting_stream_ends_the_stream(runtime: SyncRuntime) -> None:
    gate = Gate()

    async def items() -> AsyncIterator[int]:
        yield 1
        await gate()

    stream = runtime.stream(items)
    assert next(stream) == 1
    interrupt_when(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert gate.cancelled.is_set()
    assert list(stream) == []


def test_close_is_idempotent_ends_the_thread_and_later_calls_are_refused() -> None:
    runtime = SyncRuntime()
    thread = runtime.call(threading.current_thread)
    runtime.close()
    runtime.close()
    assert not thread.is_alive()
    assert runtime.closed
    for use in (lambda: runtime.call(double, 1), lambda: next(runtime.stream(double, 1)), runtime.__enter__):  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="the SyncRuntime is closed"):
            use()


def test_close_cancels_calls_in_flight_and_their_threads_see_it() -> None:
    runtime, gate = SyncRuntime(), Gate()
    waiting = in_thread(lambda: runtime.call(gate))
    wait_for(gate.reached)
    runtime.close()
    assert gate.cancelled.is_set()
    with pytest.raises(CancelledError):
        waiting.result(SECONDS)


def test_several_threads_may_close_at_once() -> None:
    runtime, gate = SyncRuntime(), Gate()
    waiting = in_thread(lambda: runtime.call(gate))
    wait_for(gate.reached)
    for closing in [in_thread(runtime.close) for _ in range(4)]:
        closing.result(SECONDS)
    with pytest.raises(CancelledError):
        waiting.result(SECONDS)


def test_close_reports_cleanups_that_failed_as_one_group() -> None:
    runtime = SyncRuntime()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise LookupError("cleanup")

    streams = [runtime.stream(items), runtime.stream(items)]
    assert [next(stream) for stream in streams] == [1, 1]
    with pytest.raises(BaseExceptionGroup) as caught:
        runtime.close()
    assert [str(error) for error in caught.value.exceptions] == ["cleanup", "cleanup"]
    runtime.close()
    for stream in streams:
        assert list(stream) == []
        stream.close()


def test_nothing_keeps_a_runtime_that_was_closed() -> None:
    runtime = SyncRuntime()
    portal = weakref.ref(runtime.portal())
    runtime.call(double, 1)
    runtime.close()
    del runtime
    gc.collect()
    assert portal() is None


def test_a_runtime_that_is_dropped_ends_its_thread() -> None:
    runtime = SyncRuntime()
    thread = runtime.call(threading.current_thread)
    del runtime
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()
