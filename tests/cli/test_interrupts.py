from __future__ import annotations

import asyncio
import os
import signal
import termios
import threading
from collections.abc import Iterator

import pytest

from zett_agent.cli.interrupts import Interrupts, interruptible, run


@pytest.fixture
def on_a_terminal() -> Iterator[int]:
    """Standard input is a terminal, and SIGINT stays pending."""
    master, slave = os.openpty()
    kept = os.dup(0)
    os.dup2(slave, 0)
    handler, held = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield 0
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.dup2(kept, 0)
        for fd in (master, slave, kept):
            os.close(fd)


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


async def test_while_a_command_leaves_pythons_own_handler_which_raises_anywhere_does_not_come_back() -> None:
    async def stubborn(interrupts: Interrupts) -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            return 7
        return 0

    running = asyncio.create_task(interruptible(stubborn))
    await asyncio.sleep(0)
    await press(signal.SIGINT)
    assert await running == 7


async def test_once_more_gives_the_terminal_back_and_ends_the_process(on_a_terminal: int) -> None:
    """The signal is held back here, as it would end the tests; ``test_many_interrupts.py`` sees it end processes."""
    before = termios.tcgetattr(on_a_terminal)
    with Interrupts() as interrupts:
        changed = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(on_a_terminal, termios.TCSANOW, changed)
        current = asyncio.current_task()
        assert current is not None
        interrupts.leave()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        current.uncancel()
        signal.raise_signal(signal.SIGINT)
        assert signal.SIGINT in signal.sigpending() and signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
        assert signal.sigwait({signal.SIGINT}) is signal.SIGINT
        interrupts._end()
        assert signal.sigwait({signal.SIGINT}) is signal.SIGINT and signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert termios.tcgetattr(on_a_terminal) == before


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
