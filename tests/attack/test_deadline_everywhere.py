"""Rule 8 for deadlines: the time of one rich request is up at its n-th step, alone or together with a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.attack.rich import LIMIT, SESSION, Cast, Rich, SteppingLoop
from tests.attack.test_cancel_everywhere import LEAST_STEPS, SHARES, try_each
from tests.attack.whole import SECONDS, check
from zett_agent.events import AgentEventType
from zett_agent.exceptions import AgentCancelledError, AgentDeadlineError

Tried = Callable[[str, int], None]
Strike = Callable[[Rich, SteppingLoop, "asyncio.Task[bool]"], object]


def the_time_is_up(rich: Rich, loop: SteppingLoop, consumer: asyncio.Task[bool]) -> None:
    loop.skipped += LIMIT


def and_it_is_stopped(rich: Rich, loop: SteppingLoop, consumer: asyncio.Task[bool]) -> None:
    def stop() -> None:
        if not consumer.done():  # else it would be the next request
            rich.agent.stop(SESSION)

    loop.skipped += LIMIT
    loop.call_soon(loop.call_soon, stop)  # timers are looked at behind what is ready: both are due at once


def and_its_reader_is_cancelled(rich: Rich, loop: SteppingLoop, consumer: asyncio.Task[bool]) -> None:
    loop.skipped += LIMIT
    loop.call_soon(loop.call_soon, consumer.cancel)


def after_it_was_stopped(rich: Rich, loop: SteppingLoop, consumer: asyncio.Task[bool]) -> None:
    rich.agent.stop(SESSION)
    loop.skipped += LIMIT


STRIKES = [the_time_is_up, and_it_is_stopped, and_its_reader_is_cancelled, after_it_was_stopped]


@pytest.mark.timeout(90, func_only=True)  # a hundred requests; on a busy machine each may take a tenth second
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("strike", STRIKES)
def test_ends_05_a_deadline_at_any_step_leaves_everything_whole(strike: Strike, share: int, tried: Tried) -> None:
    cast, told = Cast(), list[bool]()

    async def attempt(at: int, loop: SteppingLoop) -> bool:
        rich = Rich(cast)
        await rich.open()
        rich.stream = rich.agent.stream("hi", deadline=LIMIT, deadline_counts_waits=True)
        consumer = asyncio.ensure_future(rich.play())
        await asyncio.sleep(0)
        loop.arm(at, partial(strike, rich, loop, consumer))
        await asyncio.wait({consumer}, timeout=LIMIT + 2 * SECONDS)
        struck = loop.disarm()
        assert consumer.done()
        with suppress(asyncio.CancelledError, AgentCancelledError, AgentDeadlineError):
            await consumer
        told.append(check_told(rich, consumer, alone=strike is the_time_is_up))
        await check(rich)
        return struck

    points = try_each(count(1 + share, SHARES), attempt)
    if strike in (the_time_is_up, and_it_is_stopped):  # but for the last steps, where the outcome stands
        assert sum(told) >= points - 6
    else:
        assert not any(told)
    assert points >= LEAST_STEPS // SHARES
    tried(f"steps, {strike.__name__}", points)


def check_told(rich: Rich, consumer: asyncio.Task[Any], *, alone: bool) -> bool:
    """Who reads to the end sees the deadline as the outcome, or that the request was done before."""
    failed = [event.error for event in rich.events if event.type is AgentEventType.RUN_FAILED]
    if not failed:
        assert not alone or rich.events[-1].type is AgentEventType.RUN_COMPLETED
        return False
    (error,) = failed
    assert isinstance(error, AgentDeadlineError)
    assert error.messages == rich.agent.state.messages
    assert consumer.cancelled() or consumer.exception() is error
    rich.ended = not consumer.cancelled()
    return True
