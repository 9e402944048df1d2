"""The demonstration with a real model, up to the model: tests/real has that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.people import Screen, Typist
from tests.cli.server import Delta, chat_server, last_text, tool_call
from zett_agent.cli import demo_real
from zett_agent.cli.interrupts import Interrupts
from zett_agent.testing import ScriptedModel, call, error, stall, text, usage
from zett_agent.testing.local_model import LocalModel, LocalModelError
from zett_agent.testing.scripted import Piece


async def ask(model: ScriptedModel, *, screen: Screen | None = None) -> int:
    with Interrupts() as interrupts:
        return await demo_real.round_trip(model, screen or Screen(), Typist(), interrupts)


ADD: list[Piece] = [call("add", left=20, right=22), usage(5, 5)]


async def test_the_right_answer_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    assert await ask(ScriptedModel(ADD, [text("The result ", "is 42."), usage(5, 5)]), screen=screen) == 0
    for shown in ("you ▸ Use add to compute 20 plus 22.", "● add(left=20, right=22)", "✔ add  42", "The result is 42."):
        assert shown in screen.text
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("model", "faults"),
    [
        (
            ScriptedModel("The result is 41."),
            ["the answer is 'The result is 41.'", "no tool was called", "the server reported no usage"],
        ),
        (ScriptedModel(ADD, [text("The result is 42.", ""), usage(1, 1)]), []),
        (ScriptedModel(ADD, ""), ["the answer is ''", "the answer was not streamed"]),
        (ScriptedModel(error(OSError("gone"))), ["gone"]),
    ],
)
async def test_anything_else_says_what_is_wrong(
    model: ScriptedModel, faults: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await ask(model) == (1 if faults else 0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(faults)
    assert all(line.startswith(f"zett: {fault}") for line, fault in zip(lines, faults, strict=True))


async def test_a_stop_is_status_130() -> None:
    gate = stall()
    with Interrupts() as interrupts:
        asking = demo_real.round_trip(ScriptedModel([text("The "), gate]), Screen(), Typist(), interrupts)
        running = asyncio.create_task(asking)
        await gate.reached.wait()
        interrupts._interrupted()
        assert await running == 130


def test_it_serves_the_model_asks_and_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def reply(body: dict[str, Any]) -> list[Delta]:
        told = last_text(body)
        return ["The result ", f"is {told}."] if told == "42" else [tool_call("add", '{"left": 20, "right": 22}')]

    ended: list[bool] = []

    @contextmanager
    def served() -> Iterator[LocalModel]:
        with chat_server(reply) as server:
            yield LocalModel(server.url.removesuffix("/v1"), 0)
        ended.append(True)

    monkeypatch.setattr(demo_real, "local_model", served)
    assert demo_real.main() == 0
    assert ended and "The result is 42." in capsys.readouterr().out


def test_a_model_that_cannot_be_had_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> Iterator[LocalModel]:
        raise LocalModelError("the local model could not be installed:\nno network")

    monkeypatch.setattr(demo_real, "local_model", refused)
    assert demo_real.main() == 1
    assert capsys.readouterr().err == "zett: the local model could not be installed: no network\n"
