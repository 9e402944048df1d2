from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.people import Screen, Typist
from tests.cli.terminal import CTRL_C, Terminal, on_terminal, zett
from zett_agent.cli import demo as demo_module
from zett_agent.cli import main
from zett_agent.cli.conversation import Conversation
from zett_agent.cli.demo import Defaults, demo
from zett_agent.cli.demo_agent import Pace
from zett_agent.cli.interrupts import Interrupts
from zett_agent.client import AgentClient, create_agent
from zett_agent.events import AgentEvent
from zett_agent.exceptions import ProviderError
from zett_agent.testing import ScriptedModel, error

QUICK = Pace(word=0, work=0.01, hesitation=0.02)
# The command as it is, but for the time that it gives a person to watch.
HURRIED = """
import sys
from zett_agent.cli import demo, main
demo.WATCHED = demo.Pace(word=0.002, work=0.02, hesitation=0.5)
sys.exit(main(["demo"]))
"""
STATIONS = [
    "No terminal, so these answers are taken",
    "you ▸ Lantern is due",
    "┆ Tests and changelog",  # reasoning
    "I'll run the tests",
    "● run_tests(suite=",
    "● read_changelog(since=",
    "● task_start(",
    "◆ task-1 (researcher) works in the background",
    "✔ run_tests",
    "the agent asks",
    "answer ▸ 1 (the default answer)",
    "✔ ask_user  3.0.0",
    "the demo steers",
    "⤼ draft_announcement skipped",
    "↪ steered: keep it short",
    "I was just told that the researcher has finished",
    "✔ task_output",
    "approval needed",
    "approve? ▸ y (the default answer)",
    "✔ publish",
    "Lantern 3.0.0 is published on the channel stable.",
]


def positions(text: str, wanted: list[str]) -> list[int]:
    flat = " ".join(text.split())
    return [flat.find(" ".join(station.split())) for station in wanted]


@pytest.mark.parametrize("stdin", [None, "not an answer\n"])
def test_without_a_terminal_it_takes_the_stated_answers_and_passes_every_station(stdin: str | None) -> None:
    done = zett("demo", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    found = positions(done.stdout, STATIONS)
    assert -1 not in found, STATIONS[found.index(-1)]
    assert found == sorted(found)
    assert "\x1b" not in done.stdout
    for sign in ("◆ task-1 (researcher) has ended", "◆ researcher calls list_issues", "✉ the agent is told"):
        assert sign in done.stdout


@contextmanager
def hurried() -> Iterator[Terminal]:
    with on_terminal(["-c", HURRIED]) as tty:
        yield tty


def test_on_a_terminal_the_answers_of_the_person_shape_the_result() -> None:
    with hurried() as tty:
        tty.expect("answer ▸ ")
        tty.type("v9\r")
        tty.expect("✔ ask_user  v9")
        tty.expect("too long for you?")
        tty.type("rhyme it\r")
        tty.expect("↪ steered: rhyme it")
        tty.expect("approve? ▸ ")
        tty.type("what\r")
        tty.expect("y = yes")
        tty.type('e {"channel": "beta"}\r')
        tty.expect("Lantern v9 is published on the channel beta.")
        tty.expect("(written to your wish: rhyme it)")
        assert tty.status() == 0
        assert "keep it short" not in tty.text.partition("rhyme it")[2]
        assert "\x1b[1m" in tty.raw, "it is coloured"


def test_a_person_may_refuse() -> None:
    with hurried() as tty:
        tty.expect("answer ▸ ")
        tty.type("2\r")
        tty.expect("approve? ▸ ")
        tty.type("n not on a Friday\r")
        tty.expect("Lantern 2.4.0 is not published. You said: ")
        tty.expect("not on a Friday")
        assert tty.status() == 0


def test_control_c_stops_it_and_leaves_the_terminal_as_it_was() -> None:
    with hurried() as tty:
        before = tty.modes()
        tty.expect("answer ▸ ")
        assert tty.modes() != before
        tty.type(CTRL_C)
        tty.expect("stopped")
        assert tty.status() == 130
        assert tty.modes() == before


def test_two_control_c_leave_at_once() -> None:
    with hurried() as tty:
        tty.expect("answer ▸ ")
        tty.type(CTRL_C)
        tty.type(CTRL_C)
        assert tty.status() == 130
        assert "Traceback" not in tty.text


def test_at_the_end_of_input_it_goes_on_without_the_person() -> None:
    with hurried() as tty:
        tty.expect("answer ▸ ")
        tty.type("\x04")
        tty.expect("nobody is there to answer")
        tty.expect("Lantern 3.0.0 is not published.")
        assert tty.status() == 0


def test_the_command_in_one_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo_module, "UNWATCHED", QUICK)
    assert main(["demo"]) == 0
    assert "Lantern 3.0.0 is published" in capsys.readouterr().out


async def play(person: Typist | Defaults, screen: Screen) -> int:
    with Interrupts() as interrupts:
        return await demo(screen, person, interrupts, QUICK)


async def test_the_defaults_answer_in_one_process_too() -> None:
    screen = Screen()
    assert await play(Defaults(screen, delay=0), screen) == 0
    found = positions(screen.text, [station for station in STATIONS if "just told" not in station])
    assert -1 not in found, screen.text


async def reply(typist: Typist, *answers: tuple[str, str]) -> None:
    for prompt, line in answers:
        await typist.until_prompted(prompt)
        typist.type(line)


async def test_a_person_who_steers_is_not_steered_for() -> None:
    screen, typist = Screen(), Typist("in verse")
    answering = asyncio.create_task(reply(typist, ("answer ▸ ", "2"), ("approve? ▸ ", "y")))
    assert await play(typist, screen) == 0
    await answering
    assert "↪ steered: in verse" in screen.text and "the demo steers" not in screen.text
    assert "too long for you?" not in screen.text


async def test_a_person_who_does_not_steer_is_shown_how_and_steered_for() -> None:
    screen, typist = Screen(), Typist()
    answering = asyncio.create_task(reply(typist, ("answer ▸ ", "1"), ("approve? ▸ ", "y")))
    assert await play(typist, screen) == 0
    await answering
    assert screen.text.index("too long for you?") < screen.text.index("the demo steers")


async def test_a_failure_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*arguments: object) -> AgentClient:
        return await create_agent(ScriptedModel(error(ProviderError("gone"))))

    monkeypatch.setattr(demo_module, "demo_agent", broken)
    assert await play(Defaults(Screen(), delay=0), Screen()) == 1
    assert capsys.readouterr().err == "zett: gone\n"


async def test_a_line_that_comes_after_the_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Conversation.turn

    async def late(self: Conversation, message: str) -> AgentEvent:
        last = await turn(self, message)
        self.late.append("wait")
        return last

    monkeypatch.setattr(Conversation, "turn", late)
    screen = Screen()
    assert await play(Defaults(screen, delay=0), screen) == 0
    assert '"wait" came after the end' in screen.text


async def test_a_stop_is_an_exit_status() -> None:
    screen, typist = Screen(), Typist()
    with Interrupts() as interrupts:
        running = asyncio.create_task(demo(screen, typist, interrupts, QUICK))
        await typist.until_prompted("answer ▸ ")
        interrupts._interrupted()
        assert await running == 130


async def test_stand_ins_for_a_person_have_nothing_on_the_screen() -> None:
    screen = Screen()
    nobody = Defaults(screen, delay=0)
    nobody.discard()
    nobody.set_status("working")
    await nobody.quiet()
    with nobody.covered():
        pass
    assert screen.text == ""
