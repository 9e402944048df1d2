"""SyncStream and SyncContext."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from tests.sync.support import SECONDS, Gate, in_thread, wait_for
from zett_agent.sync import SyncRuntime

WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Counter:
    """An async generator function that shows how far it is and when it was closed."""

    def __init__(self) -> None:
        self.produced: list[int] = []
        self.tasks: set[object] = set()
        self.closed = threading.Event()

    async def __call__(self, end: int = 100) -> AsyncIterator[int]:
        try:
            for number in range(end):
                self.produced.append(number)
                self.tasks.add(asyncio.current_task())
                yield number
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed.set()


def test_a_stream_begins_with_the_first_next_and_fetches_nothing_ahead(runtime: SyncRuntime) -> None:
    count = Counter()
    stream = runtime.stream(count)
    runtime.call(asyncio.sleep, 0)
    assert count.produced == []
    assert next(stream) == 0
    assert next(stream) == 1
    runtime.call(asyncio.sleep, 0)
    assert count.produced == [0, 1]
    stream.close()


def test_a_stream_ends_as_an_iterator_does_and_stays_ended(runtime: SyncRuntime) -> None:
    count = Counter()
    stream = runtime.stream(count, end=3)
    assert list(stream) == [0, 1, 2]
    assert list(stream) == []
    stream.close()
    assert count.closed.is_set()


def test_one_asyncio_task_drives_a_stream_from_begin_to_cleanup(runtime: SyncRuntime) -> None:
    count = Counter()
    with runtime.stream(count) as stream:
        assert (next(stream), next(stream)) == (0, 1)
    assert len(count.tasks) == 1


def test_whatever_returns_an_async_iterable_can_be_streamed(runtime: SyncRuntime) -> None:
    class Letters:
        def __init__(self) -> None:
            self.left = ["b", "a"]

        def __aiter__(self) -> Letters:
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    async def opened() -> Letters:
        return Letters()

    assert list(runtime.stream(Letters)) == ["a", "b"]
    assert list(runtime.stream(opened)) == ["a", "b"]


def test_a_stream_that_ended_or_failed_closes_its_iterator_though_nobody_closes_the_stream(
    runtime: SyncRuntime,
) -> None:
    class Lines:
        def __init__(self, end: Exception) -> None:
            self.end = end
            self.closed = threading.Event()

        def __aiter__(self) -> Lines:
            return self

        async def __anext__(self) -> str:
            raise self.end

        async def aclose(self) -> None:
            self.closed.set()

    ending, failing = Lines(StopAsyncIteration()), Lines(LookupError())
    ended, failed = runtime.stream(lambda: ending), runtime.stream(lambda: failing)
    assert list(ended) == []
    with pytest.raises(LookupError):
        next(failed)
    wait_for(ending.closed)
    wait_for(failing.closed)


def test_an_error_of_the_iterator_is_raised_once_and_ends_the_stream(runtime: SyncRuntime) -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise LookupError("gone")

    stream = runtime.stream(items)
    assert next(stream) == 1
    with pytest.raises(LookupError) as caught:
        next(stream)
    assert caught.traceback[-1].name == "items"
    assert list(stream) == []
    stream.close()


def test_a_cancel_that_nobody_asked_for_is_an_error_and_no_quiet_end(runtime: SyncRuntime) -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    stream = runtime.stream(items)
    assert next(stream) == 1
    with pytest.raises(CancelledError):
        next(stream)


@pytest.mark.parametrize("error", [LookupError("cleanup"), RuntimeError("cleanup")], ids=repr)
def test_close_runs_the_cleanup_and_raises_its_error_once(runtime: SyncRuntime, error: Exception) -> None:
    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise error

    stream = runtime.stream(items)
    assert next(stream) == 1
    with pytest.raises(type(error), match="cleanup"):
        stream.close()
    stream.close()
    assert list(stream) == []


def test_a_stream_that_never_began_runs_nothing_when_it_is_closed(runtime: SyncRuntime) -> None:
    count = Counter()
    with runtime.stream(count) as stream:
        pass
    assert list(stream) == []
    assert count.produced == []


def test_a_second_thread_may_not_wait_at_the_same_time(runtime: SyncRuntime) -> None:
    gate = Gate()

    async def items() -> AsyncIterator[int]:
        await gate()
        yield 1

    stream = runtime.stream(items)
    waiting = in_thread(lambda: next(stream, None))
    wait_for(gate.reached)
    with pytest.raises(RuntimeError, match="another thread waits"):
        next(stream)
    stream.close()
    assert waiting.result(SECONDS) is None


def test_a_stream_may_be_handed_from_thread_to_thread(runtime: SyncRuntime) -> None:
    stream = runtime.stream(Counter())
    assert [in_thread(lambda: next(stream)).result(SECONDS) for _ in range(3)] == [0, 1, 2]
    stream.close()


def test_close_from_another_thread_cancels_waits_for_the_cleanup_and_ends_the_loop(runtime: SyncRuntime) -> None:
    gate = Gate()

    async def items() -> AsyncIterator[int]:
        yield 1
        await gate()
        yield 2

    stream = runtime.stream(items)
    taken = in_thread(lambda: list(stream))
    wait_for(gate.reached)
    stream.close()
    assert gate.cancelled.is_set()
    assert taken.result(SECONDS) == [1]


def test_a_stream_is_refused_on_the_runtimes_own_thread_and_can_go_on_elsewhere(runtime: SyncRuntime) -> None:
    stream = runtime.stream(Counter())
    assert next(stream) == 0
    for use in (stream.__next__, stream.close):
        with pytest.raises(RuntimeError, match="own thread"):
            runtime.call(use)
    assert next(stream) == 1
    stream.close()


def test_a_stream_that_is_dropped_is_closed(runtime: SyncRuntime) -> None:
    count = Counter()
    stream = runtime.stream(count)
    assert next(stream) == 0
    del stream
    gc.collect()
    wait_for(count.closed)


def test_closing_the_runtime_ends_a_stream_that_somebody_waits_for() -> None:
    runtime, gate = SyncRuntime(), Gate()

    async def items() -> AsyncIterator[int]:
        yield 1
        await gate()

    taken = in_thread(lambda: list(runtime.stream(items)))
    wait_for(gate.reached)
    runtime.close()
    assert taken.result(SECONDS) == [1]
    assert gate.cancelled.is_set()


def test_a_stream_that_is_being_closed_when_the_runtime_closes_is_closed_without_an_error() -> None:
    runtime, gate = SyncRuntime(), Gate()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await gate()

    stream = runtime.stream(items)
    assert next(stream) == 1
    closing = in_thread(stream.close)
    wait_for(gate.reached)
    runtime.close()
    closing.result(SECONDS)


def test_loop_02_a_stream_sees_the_context_in_which_it_began(runtime: SyncRuntime) -> None:
    async def items() -> AsyncIterator[str]:
        yield WHO.get()
        yield WHO.get()

    stream = runtime.stream(items)
    token = WHO.set("u1")
    assert next(stream) == "u1"
    WHO.reset(token)
    assert list(stream) == ["u1"]


class Room:
    """An async context manager that notes what happens, in which task."""

    def __init__(self, *, suppress: bool = False) -> None:
        self.suppress = suppress
        self.notes: list[object] = []
        self.tasks: list[object] = []
        self.left = threading.Event()

    async def __aenter__(self) -> str:
        self.tasks.append(asyncio.current_task())
        return "inside"

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        self.tasks.append(asyncio.current_task())
        self.notes.append(kind)
        self.left.set()
        return self.suppress


def test_one_asyncio_task_enters_and_leaves_a_context(runtime: SyncRuntime) -> None:
    room = Room()
    with runtime.context(room) as value:
        assert value == "inside"
        assert room.notes == []
    assert room.notes == [None]
    assert room.tasks[0] is room.tasks[1]


def test_a_context_sees_the_error_of_the_block_and_may_suppress_it(runtime: SyncRuntime) -> None:
    room = Room()
    with pytest.raises(LookupError), runtime.context(room):
        raise LookupError
    quiet = Room(suppress=True)
    with runtime.context(quiet):
        raise LookupError
    assert room.notes == quiet.notes == [LookupError]


def test_a_context_can_be_entered_again_after_it_was_left_and_not_before(runtime: SyncRuntime) -> None:
    context = runtime.context(Room())
    with pytest.raises(RuntimeError, match="not entered"):
        context.__exit__(None, None, None)
    for _ in range(2):
        with context, pytest.raises(RuntimeError, match="entered already"):
            context.__enter__()


def test_a_context_that_cannot_be_entered_is_not_left(runtime: SyncRuntime) -> None:
    notes: list[str] = []

    class Locked(Room):
        async def __aenter__(self) -> str:
            raise LookupError("locked")

    locked = Locked()
    context = runtime.context(locked)
    for _ in range(2):
        with pytest.raises(LookupError, match="locked"), context:
            notes.append("never")
    assert notes == locked.notes == []


def test_closing_the_runtime_within_a_context_leaves_it_as_cancelled() -> None:
    runtime, room = SyncRuntime(), Room()
    with runtime.context(room):
        runtime.close()
        assert room.notes == [asyncio.CancelledError]
    assert room.notes == [asyncio.CancelledError]


def test_a_context_that_is_dropped_within_is_left_as_cancelled(runtime: SyncRuntime) -> None:
    room = Room()
    context = runtime.context(room)
    context.__enter__()
    del context
    gc.collect()
    wait_for(room.left)
    assert room.notes == [asyncio.CancelledError]


def test_a_timeout_that_begins_with_a_context_ends_with_it(runtime: SyncRuntime) -> None:
    @asynccontextmanager
    async def limited() -> AsyncIterator[None]:
        async with asyncio.timeout(SECONDS):  # refuses to be left by another task than entered it
            yield

    with runtime.context(limited()):
        pass
