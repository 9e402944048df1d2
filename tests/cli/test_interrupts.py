from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from zett_agent.cli.interrupts import Interrupts, interruptible, run


async def forever(interrupts: Interrupts) -> int:
    await asyncio.sleep(60)
    return 0


async def press(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_leaves_and_is_the_exit_status(number: signal.Signals, status: int) -> None:
    before = signal.getsignal(number)
    work = asyncio.create_task(interruptible(forever))
    await asyncio.sleep(0)
    await press(number)
    assert await work == status
    assert signal.getsignal(number) == before


async def test_while_something_can_be_stopped_the_first_stops_and_the_second_leaves() -> None:
    stopped: list[str] = []

    async def work(interrupts: Interrupts) -> int:
        with interrupts.stopping(lambda: stopped.append("now")):
            await asyncio.sleep(60)
        return 0

    running = asyncio.create_task(interruptible(work))
    await asyncio.sleep(0)
    await press(signal.SIGINT)
    assert stopped == ["now"] and not running.done()
    await press(signal.SIGINT)
    assert await running == 130
    assert stopped == ["now"]


async def test_after_the_block_there_is_nothing_to_stop() -> None:
    async def work(interrupts: Interrupts) -> int:
        with interrupts.stopping(lambda: pytest.fail("stopped")):
            pass
        await asyncio.sleep(60)
        return 0

    running = asyncio.create_task(interruptible(work))
    await asyncio.sleep(0)
    await press(signal.SIGINT)
    assert await running == 130


async def test_once_more_ends_the_process_the_hard_way() -> None:
    async def stubborn(interrupts: Interrupts) -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            return 7
        return 0

    running = asyncio.create_task(interruptible(stubborn))
    await asyncio.sleep(0)
    await press(signal.SIGINT)
    assert await running == 7


async def test_a_cancel_from_elsewhere_is_not_taken_for_a_signal() -> None:
    running = asyncio.create_task(interruptible(forever))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_loop_in_another_thread_takes_no_signals_and_works() -> None:
    statuses: list[int] = []

    async def work(interrupts: Interrupts) -> int:
        interrupts.leave()
        await asyncio.sleep(60)
        return 0

    thread = threading.Thread(target=lambda: statuses.append(run(work)))
    thread.start()
    thread.join(10)
    assert statuses == [130]


def test_a_keyboard_interrupt_of_the_loop_itself_is_the_same_status() -> None:
    async def work(interrupts: Interrupts) -> int:
        raise KeyboardInterrupt

    assert run(work) == 130
