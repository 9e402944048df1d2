"""Rule 8, proved by stopping one rich request at its n-th step and after its n-th event, in every way there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.attack.rich import CALLS, LIMIT, SESSION, Cast, Rich, SteppingLoop
from tests.attack.whole import SECONDS, check
from zett_agent.exceptions import AgentProtocolError

#: The scenario had 260 steps and 55 events when this was written. An end that comes much earlier means that it was
#: emptied, and that nothing is proved any more.
LEAST_STEPS, LEAST_EVENTS = 200, 50

#: Each kind of stop is tried at every step by so many tests, one after every so many steps: each of them is short.
SHARES = 3

Tried = Callable[[str, int], None]


@dataclass
class Scene:
    """One attempt: the request, who follows it, and what a stop has started."""

    rich: Rich
    loop: SteppingLoop
    consumer: asyncio.Task[Any]
    started: list[Awaitable[Any]] = field(default_factory=list)

    def start(self, work: Any) -> None:
        self.started.append(asyncio.ensure_future(work))


def cancel(scene: Scene) -> None:
    scene.consumer.cancel()


def cancel_again_and_again(scene: Scene, times: int = 4) -> None:
    scene.consumer.cancel()
    if times:
        scene.loop.call_soon(cancel_again_and_again, scene, times - 1)


def cancel_every_task(scene: Scene) -> None:
    for task in asyncio.all_tasks():
        if task.get_name() != "test":
            task.cancel()


def cancel_every_task_but_the_reader(scene: Scene) -> None:
    for task in asyncio.all_tasks() - {scene.consumer}:
        if task.get_name() != "test":
            task.cancel()


def stop_now(scene: Scene) -> None:
    scene.rich.agent.stop(SESSION)


def stop_after_the_turn(scene: Scene) -> None:
    scene.rich.agent.stop(SESSION, mode="after_turn")


def close_the_agent(scene: Scene) -> None:
    scene.start(scene.rich.agent.aclose())


def close_the_background(scene: Scene) -> None:
    scene.start(scene.rich.cast.background.close())


def close_the_stream_elsewhere(scene: Scene) -> None:
    async def close() -> None:
        with suppress(RuntimeError):  # Python refuses it while the consumer waits for the next event
            await scene.rich.stream.aclose()  # type: ignore[attr-defined]

    scene.start(close())


def let_wait_for_be_over(scene: Scene) -> None:
    scene.loop.skipped += LIMIT


STOPS = [
    *(cancel, cancel_again_and_again, cancel_every_task, cancel_every_task_but_the_reader),
    *(stop_now, stop_after_the_turn),
    *(close_the_agent, close_the_background, close_the_stream_elsewhere, let_wait_for_be_over),
]


def on_a_loop(main: Callable[[SteppingLoop], Any]) -> Any:
    loop, faults = SteppingLoop(), list[Any]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        result = loop.run_until_complete(loop.create_task(main(loop), name="test"))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    assert not faults
    return result


def try_each(places: Any, attempt: Callable[[int, SteppingLoop], Any]) -> int:
    """Try one place after another until the request ends before; the number of those where it did not."""
    for points, at in enumerate(places):
        try:
            struck = on_a_loop(partial(attempt, at))
        except BaseException as error:
            error.add_note(f"at {at}")
            raise
        if not struck:
            return points
    raise AssertionError("unreachable")


def test_the_request_that_is_stopped_has_everything_in_it() -> None:
    async def whole(loop: SteppingLoop) -> None:
        rich = Rich(Cast())
        await rich.open()
        await rich.play()
        seen = [event.type.value for event in rich.events]
        ended = {event.tool_calls[0].id for event in rich.events if event.type == "tool_completed"}
        asked = [event.name for event in rich.events if event.type == "custom"]
        assert ended == set(CALLS) and seen.count("steering_completed") == seen.count("internal_message_completed") == 1
        assert asked.count("ask_user") == 8 and asked.count("permission_request") == 7
        assert len(rich.cast.ledger.accounts) == 7 and seen[-1] == "run_completed"
        await check(rich)

    on_a_loop(whole)


@pytest.mark.timeout(90, func_only=True)  # a hundred requests and more; on a busy machine each may take a tenth second
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("stop", STOPS)
def test_rule_8_a_stop_at_any_step_leaves_everything_whole(
    stop: Callable[[Scene], None], share: int, tried: Tried
) -> None:
    cast = Cast()

    async def attempt(at: int, loop: SteppingLoop) -> bool:
        rich = Rich(cast)
        await rich.open()
        follow: Any = rich.play()
        if stop is let_wait_for_be_over:
            follow = asyncio.wait_for(follow, LIMIT + SECONDS)
        scene = Scene(rich, loop, asyncio.ensure_future(follow))
        await asyncio.sleep(0)  # a task that is cancelled before it begins never asks for anything
        loop.arm(at, partial(stop, scene))
        await asyncio.wait({scene.consumer}, timeout=LIMIT + 2 * SECONDS)
        struck = loop.disarm()
        assert scene.consumer.done()
        with suppress(asyncio.CancelledError, AgentProtocolError, TimeoutError):
            await scene.consumer
        await asyncio.gather(*scene.started)
        if stop not in (cancel_every_task, cancel_every_task_but_the_reader):
            assert rich.agent.state.phase.value in ("cancelled", "completed"), rich.agent.state.phase
        await check(rich)
        return struck

    points = try_each(count(1 + share, SHARES), attempt)
    assert points >= LEAST_STEPS // SHARES
    tried(f"steps, {stop.__name__}", points)


def leave(rich: Rich) -> None:
    pass


def stop_it_now(rich: Rich) -> None:
    rich.agent.stop(SESSION)


def stop_it_after_the_turn(rich: Rich) -> None:
    rich.agent.stop(SESSION, mode="after_turn")


def close_it_elsewhere(rich: Rich) -> asyncio.Task[Any]:
    rich.closed = True
    return asyncio.ensure_future(rich.stream.aclose())  # type: ignore[attr-defined]


def close_its_agent(rich: Rich) -> asyncio.Task[Any]:
    return asyncio.ensure_future(rich.agent.aclose())


def cancel_its_reader(rich: Rich) -> asyncio.Future[Any]:
    current = asyncio.current_task()
    assert current is not None
    current.cancel()
    return asyncio.ensure_future(asyncio.sleep(0))


@pytest.mark.timeout(60, func_only=True)  # as above
@pytest.mark.parametrize(
    "act",
    [leave, stop_it_now, stop_it_after_the_turn, close_it_elsewhere, close_its_agent, cancel_its_reader],
)
def test_rule_8_a_stop_after_any_event_leaves_everything_whole(act: Callable[[Rich], Any], tried: Tried) -> None:
    cast = Cast()

    async def attempt(at: int, loop: SteppingLoop) -> bool:
        rich = Rich(cast)
        await rich.open()
        struck = True
        with suppress(asyncio.CancelledError):
            struck = await rich.play(at, None if act is leave else partial(act, rich))
        await check(rich)
        return struck

    points = try_each(count(1), attempt)
    assert points >= LEAST_EVENTS
    tried(f"events, {act.__name__}", points)


@pytest.mark.timeout(60, func_only=True)  # as above
def test_rule_8_a_stream_that_is_dropped_after_any_event_leaves_everything_whole(tried: Tried) -> None:
    cast = Cast()

    async def attempt(at: int, loop: SteppingLoop) -> bool:
        rich = Rich(cast)
        await rich.open()
        stream = rich.stream
        del rich.stream
        struck = await rich.follow(stream, at)
        del stream  # nobody closes it: the loop does, when it is collected
        while rich.agent.pending:
            await asyncio.sleep(0)
        await check(rich)
        return struck

    points = try_each(count(1), attempt)
    assert points >= LEAST_EVENTS
    tried("events, break out of the loop", points)
