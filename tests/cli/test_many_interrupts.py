"""Ctrl-C again and again: the command ends by it, says nothing of Python, and gives the terminal back."""

from __future__ import annotations

import random
import signal
import time
from itertools import count

import pytest

from tests.cli.terminal import CTRL_C, Terminal, on_terminal, terminal

#: Seconds between the first signals, and how many those are: hundreds that the main thread has not come to look at fill
#: the buffer that Python itself tells it by.
GAPS, HURRIED = [0.0005, 0.002, 0.01], 100

ENDED = (128 + signal.SIGINT, -signal.SIGINT)


def check_end(tty: Terminal, before: list[object]) -> None:
    assert tty.status() in ENDED, tty.text
    for word in ("Traceback", "KeyboardInterrupt", "ignored", "never retrieved", "was destroyed"):
        assert word not in tty.text, tty.text
    assert tty.modes() == before


def press_until_it_ends(tty: Terminal, gap: float) -> None:
    for number in count():
        if tty.process.poll() is not None:
            return
        tty.signal(signal.SIGINT)
        time.sleep(gap if number < HURRIED else 0.05)


#: A command that does not want to end: each of its three cleanups takes longer than anybody waits.
STUBBORN = """
import asyncio, os, sys, time, zett_agent.cli.app as app
from zett_agent.cli import main
from zett_agent.cli.chat import stdin
from zett_agent.cli.interrupts import run
from zett_agent.cli.render import Renderer, make_console

async def work(interrupts):
    async with stdin(Renderer(make_console())):
        try:
            print("ready", flush=True)
            await asyncio.sleep(60)
        finally:
            try:
                print("first cleanup", flush=True)
                await asyncio.sleep(60)
            finally:
                print("second cleanup", flush=True)
                await asyncio.sleep(60)

app.run_command = lambda arguments: app.guarded(lambda: run(work))
sys.exit(main())
"""


def test_once_more_ends_a_command_that_does_not_want_to_end_and_gives_the_terminal_back() -> None:
    with on_terminal(["-c", STUBBORN]) as tty:
        before = tty.modes()
        tty.expect("ready")
        assert tty.modes() != before
        tty.type(CTRL_C)
        tty.expect("first cleanup")
        tty.type(CTRL_C)
        check_end(tty, before)


WATCHED = """
import asyncio, signal, sys, zett_agent.cli.app as app
from zett_agent.cli import main
from zett_agent.cli.interrupts import run

def look(when):
    print(when, signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)

async def work(interrupts):
    look("within")
    try:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)
    finally:
        look("leaving")

def command(arguments):
    look("before")
    status = app.guarded(lambda: run(work))
    look("after")
    return status

app.run_command = command
status = main()
look("end")
sys.exit(status)
"""


def test_pythons_own_handler_of_control_c_which_raises_wherever_the_program_is_is_nowhere_in_place() -> None:
    with on_terminal(["-c", WATCHED]) as tty:
        assert tty.status() == 130
        assert tty.text.splitlines() == [f"{when} False" for when in ("before", "within", "leaving", "after", "end")]


def test_a_crowd_of_signals_while_it_leaves_is_no_traceback() -> None:
    with on_terminal(["-c", STUBBORN]) as tty:
        before = tty.modes()
        tty.expect("ready")
        tty.type(CTRL_C)
        tty.expect("first cleanup")
        press_until_it_ends(tty, GAPS[0])
        check_end(tty, before)


@pytest.mark.timeout(60)  # six Python processes
@pytest.mark.parametrize("share", range(2))
def test_any_number_of_control_c_at_any_moment_is_no_traceback_and_leaves_the_terminal_as_it_was(share: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(6):
        with terminal("demo") as tty:
            before = tty.modes()
            tty.expect("zett demo")  # until its code runs, it is Python that starts
            time.sleep(dice.uniform(0, 0.4))
            press_until_it_ends(tty, dice.choice(GAPS))
            check_end(tty, before)
