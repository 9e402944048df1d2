"""Who owns asyncio tasks: they are named, kept, and ended within a bound."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import suppress

import pytest

from zett_agent._runtime.supervisor import Supervisor, join, start_task, stop_tasks


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_supervised_task_is_kept_while_it_runs() -> None:
    supervisor, done = Supervisor(), asyncio.Event()
    _ = supervisor.spawn(done.wait(), name="kept")
    gc.collect()
    await asyncio.sleep(0)
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "kept"] == ["kept"]
    done.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not supervisor._tasks


async def test_stopping_cancels_and_awaits_everything() -> None:
    supervisor, log = Supervisor(), list[str]()

    async def tidy(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            log.append(name)

    for name in "ab":
        _ = supervisor.spawn(tidy(name), name=name)
    await asyncio.sleep(0)
    await supervisor.stop()
    assert sorted(log) == ["a", "b"]
    await supervisor.stop()


async def test_a_task_that_does_not_stop_is_named_after_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    task = start_task(stubborn(), "stubborn")
    await asyncio.sleep(0)
    with caplog.at_level(logging.ERROR, "zett_agent"):
        await stop_tasks([task], 0.001)
    assert "stubborn did not stop within 0.001 seconds after it was cancelled" in caplog.text
    release.set()
    await task


async def test_a_cancel_of_the_caller_does_not_cut_the_wait_short() -> None:
    ended = asyncio.Event()
    slow = start_task(ended.wait(), "slow")
    joining = start_task(join([slow], 60), "joining")
    await asyncio.sleep(0)
    joining.cancel()
    await asyncio.sleep(0)
    assert not joining.done()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert slow.done()


async def test_joining_tasks_that_have_ended_returns_at_once() -> None:
    task = start_task(asyncio.sleep(0), "quick")
    await task
    await join([task], 60)
    await stop_tasks([])


async def test_a_process_that_was_forked_has_none_of_the_tasks() -> None:
    supervisor = Supervisor()
    task = supervisor.spawn(forever(), name="of the parent")
    supervisor._pid = -1  # as in a child of a fork: what runs is not here
    await supervisor.stop()
    assert not task.done()
    await stop_tasks([task])


async def test_cancel_04_the_error_of_a_stopped_task_is_seen() -> None:
    async def fails_at_its_end() -> None:
        try:
            await forever()
        finally:
            raise ValueError("while it was stopped")

    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    task = start_task(fails_at_its_end(), "failing")
    await asyncio.sleep(0)
    await stop_tasks(iter([task]))
    del task
    gc.collect()
    assert told == []
