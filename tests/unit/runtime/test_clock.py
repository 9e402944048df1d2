"""The clock of a request: when it goes, when it stands, and when it strikes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from tests.engine.virtual_time import in_virtual_time
from zett_agent._runtime.clock import Clock


def struck_at(act: Callable[[Clock], Coroutine[Any, Any, None]], *, counts_waits: bool = False) -> list[float]:
    """When a clock of one second strikes while ``act`` uses it."""
    struck: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = Clock(1.0, lambda: struck.append(loop.time()), counts_waits=counts_waits)
        await act(clock)
        await asyncio.sleep(100)

    in_virtual_time(main)
    return struck


def test_ends_05_it_strikes_when_the_time_is_up() -> None:
    async def nothing(clock: Clock) -> None:
        assert not clock.idle

    assert struck_at(nothing) == [1.0]


def test_ends_05_a_clock_that_is_stopped_never_strikes_and_never_goes_again() -> None:
    async def stop(clock: Clock) -> None:
        clock.opened("w")
        clock.stop()
        clock.closed("w")
        clock.stop()
        assert not clock.idle

    assert struck_at(stop) == []


def test_hitl_16_it_stands_while_a_wait_is_open_and_goes_on_where_it_stood() -> None:
    async def wait(clock: Clock) -> None:
        await asyncio.sleep(0.5)
        clock.opened("w")
        clock.opened("v")
        assert clock.idle
        await asyncio.sleep(10)
        clock.closed("w")
        assert clock.idle
        clock.closed("v")
        assert not clock.idle

    assert struck_at(wait) == [11.0]


def test_hitl_16_it_goes_while_a_handler_runs_that_does_not_wait_itself() -> None:
    async def wait(clock: Clock) -> None:
        clock.entered("busy")
        clock.entered("asks within its handler")
        clock.opened("asks within its handler")
        assert not clock.idle
        await asyncio.sleep(0.5)
        clock.left("busy")
        assert clock.idle
        await asyncio.sleep(10)
        clock.closed("asks within its handler")
        clock.left("asks within its handler")

    assert struck_at(wait) == [11.0]


def test_ends_05_a_clock_that_counts_waits_does_not_stand() -> None:
    async def wait(clock: Clock) -> None:
        clock.opened("w")
        assert clock.idle

    assert struck_at(wait, counts_waits=True) == [1.0]


def test_hitl_16_a_clock_below_that_only_waits_lets_the_one_above_stand() -> None:
    async def family(above: Clock) -> None:
        above.entered("task")
        child = Clock(None, lambda: None, above=above)
        grandchild = Clock(0.5, lambda: None, above=child)
        child.entered("task")
        grandchild.opened("w")
        assert above.idle and child.idle
        await asyncio.sleep(10)
        above.entered("busy")
        assert not above.idle and child.idle
        above.left("busy")
        assert above.idle
        grandchild.stop()
        assert not above.idle and not child.idle

    assert struck_at(family) == [11.0]


def test_hitl_16_a_clock_below_may_outlive_the_one_above() -> None:
    async def family(above: Clock) -> None:
        child = Clock(None, lambda: None, above=above)
        above.stop()
        child.opened("w")
        child.stop()
        assert not above.idle

    assert struck_at(family) == []


def test_ends_05_a_clock_on_another_loop_is_left_alone() -> None:
    async def family(above: Clock) -> None:
        async def elsewhere() -> None:
            Clock(None, lambda: None, above=above).opened("w")

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        thread.join()
        assert not above.idle

    assert struck_at(family) == [1.0]
