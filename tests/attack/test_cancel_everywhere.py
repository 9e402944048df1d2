"""Rule 8, proved by stopping one rich request at its n-th step and after its n-th event, in every way there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.attack.rich import SESSION, Rich, SteppingLoop
from zett_agent.exceptions import AgentProtocolError

#: Enough to pass the end of the request; every point was tried when this was written, the strides keep it quick.
EVENTS, STEPS = 75, 270

Stop = Callable[[Rich, "asyncio.Task[None]", list[Any]], Callable[[], object]]


def cancel(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    return consumer.cancel


def cancel_again_and_again(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    def act(times: int = 4) -> None:
        consumer.cancel()
        if times:
            asyncio.get_running_loop().call_soon(act, times - 1)

    return act


def cancel_every_task(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    test = asyncio.current_task()
    return lambda: [task.cancel() for task in asyncio.all_tasks() if task is not test]


def stop_now(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    return lambda: rich.agent.stop(SESSION)


def close_the_agent(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    return lambda: started.append(asyncio.ensure_future(rich.agent.aclose()))


def close_the_background(rich: Rich, consumer: asyncio.Task[None], started: list[Any]) -> Callable[[], object]:
    return lambda: started.append(asyncio.ensure_future(rich.background.close()))


def on_a_loop(main: Callable[[SteppingLoop], Any]) -> None:
    loop, faults = SteppingLoop(), list[Any]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        loop.run_until_complete(main(loop))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    assert not faults


@pytest.mark.parametrize(
    "stop",
    [cancel, cancel_again_and_again, cancel_every_task, stop_now, close_the_agent, close_the_background],
)
def test_rule_8_a_stop_at_any_step_leaves_everything_whole(stop: Stop) -> None:
    async def attempt(loop: SteppingLoop, at: int) -> None:
        rich, started = Rich(), list[Any]()
        await rich.open()
        consumer = asyncio.ensure_future(rich.play())
        await asyncio.sleep(0)  # a task that is cancelled before it begins never asks for anything
        loop.arm(at, stop(rich, consumer, started))
        await asyncio.wait({consumer}, timeout=8)
        loop.act = None
        with suppress(asyncio.CancelledError, AgentProtocolError):
            await consumer
        await asyncio.gather(*started)
        await rich.check()

    for at in range(1, STEPS, 9):
        on_a_loop(lambda loop, at=at: attempt(loop, at))  # type: ignore[misc]


@pytest.mark.parametrize("mode", ["close", "now", "after_turn"])
def test_rule_8_a_stop_after_any_event_leaves_everything_whole(mode: Any) -> None:
    async def attempt(at: int) -> None:
        rich = Rich()
        await rich.open()
        act = None if mode == "close" else lambda: rich.agent.stop(SESSION, mode=mode)
        await asyncio.wait_for(rich.play(at, act), 8)
        await rich.check()

    for at in range(1, EVENTS, 3):
        on_a_loop(lambda _, at=at: attempt(at))  # type: ignore[misc]
