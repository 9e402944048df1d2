from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from typing import Any

import pytest

from tests.cli.people import Screen, Typist
from tests.cli.server import Delta, chat_server, last_text, tool_call
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal, terminal, zett
from zett_agent.cli import main
from zett_agent.cli.chat import PROMPT, chat, chat_agent
from zett_agent.cli.conversation import Conversation
from zett_agent.cli.interrupts import Interrupts
from zett_agent.events import AgentEvent
from zett_agent.exceptions import ProviderError
from zett_agent.testing import ScriptedModel, error

KEY = {"OPENAI_API_KEY": "sk-very-secret"}


class Model:
    """Answers by what it is told; ``gate`` holds back the end of a long answer."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def __call__(self, body: dict[str, Any]) -> list[Delta] | int:
        text = last_text(body)
        if body["messages"][-1]["role"] == "tool":
            return ["The tool said ", text, "."]
        if "wrong key" in text:
            return 401
        if "long" in text:
            return ["One word ", "after another ", self.gate, "until the end."]
        if "sum" in text:
            return [tool_call("add", '{"left": 20, "right": 22}')]
        if "ask" in text:
            return [tool_call("ask_user", '{"question": "Which colour?", "options": ["red", "blue"]}')]
        said = [message["content"] for message in body["messages"] if message["role"] == "user"]
        return ["You said: ", " / ".join(said)]


def start(url: str, *more: str) -> list[str]:
    return ["chat", "--base-url", url, "--model", "tiny", *more]


def say(tty: Terminal, text: str) -> None:
    tty.expect("you ▸ ")
    tty.type(text + "\r")


def test_a_conversation_on_a_terminal() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url, "--ask-before", "add"), extra=KEY) as tty:
        say(tty, "hello")
        tty.expect("You said: hello")
        say(tty, "a sum, please")
        tty.expect("approve? ▸ ")
        tty.type("y\r")
        tty.expect("● add(left=20, right=22)")
        tty.expect("✔ add  42")
        tty.expect("The tool said 42.")
        say(tty, "ask me")
        tty.expect("Which colour?")
        tty.expect("answer ▸ ")
        tty.type("2\r")
        tty.expect("✔ ask_user  blue")
        tty.expect("you ▸ ")
        tty.type(CTRL_D)
        assert tty.status() == 0
        assert set(server.keys) == {"Bearer sk-very-secret"}
        assert "sk-very-secret" not in tty.text
        assert "12 tokens" not in tty.text and "7 tokens in, 5 out" in tty.text


def test_control_c_stops_a_turn_the_session_goes_on_and_at_the_prompt_it_leaves() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url)) as tty:
        say(tty, "something long")
        tty.expect("after another")
        tty.type(CTRL_C)
        tty.expect("stopped")
        say(tty, "still there?")
        tty.expect("You said: something long / still there?")
        tty.expect("you ▸ ")
        before = tty.modes()
        tty.type(CTRL_C)
        assert tty.status() == 130
        assert tty.modes() != before
        assert "Traceback" not in tty.text


def test_two_control_c_leave_in_mid_turn() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url)) as tty:
        say(tty, "something long")
        tty.expect("after another")
        tty.type(CTRL_C)
        tty.expect("stopping; Ctrl-C again leaves")  # two signals that come together are one
        tty.type(CTRL_C)
        assert tty.status() == 130
        assert "Traceback" not in tty.text


def test_control_z_gives_the_terminal_back_until_it_goes_on() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url)) as tty:
        before = tty.modes()
        tty.expect("you ▸ ")
        tty.type("hel")
        tty.expect("you ▸ hel")  # Ctrl-Z drops what was not read yet
        tty.type("\x1a")
        tty.until_stopped()
        assert tty.modes() == before
        tty.signal(signal.SIGCONT)
        tty.expect("you ▸ hel")
        tty.type("lo\r")
        tty.expect("You said: hello")
        tty.expect("you ▸ ")
        tty.type(CTRL_D)
        assert tty.status() == 0


def test_a_terminate_signal_gives_the_terminal_back() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url)) as tty:
        before = tty.modes()
        tty.expect("you ▸ ")
        tty.signal(signal.SIGTERM)
        assert tty.status() == 143
        assert tty.modes() == before


def test_what_is_typed_while_the_model_answers_steers_it() -> None:
    model = Model()
    with chat_server(model) as server, terminal(*start(server.url)) as tty:
        say(tty, "something long")
        tty.expect("after another")
        tty.type("be brief")
        tty.expect("steer ▸ be brief")
        model.gate.set()
        tty.type("\r")
        tty.expect("↪ steered: be brief")
        tty.expect("You said: something long / be brief")


def test_a_wrong_key_is_one_line_and_the_conversation_can_go_on() -> None:
    with chat_server(Model()) as server, terminal(*start(server.url), extra=KEY) as tty:
        say(tty, "wrong key")
        tty.expect("zett: openai answered 401 Unauthorized: Incorrect API key provided: ***")
        say(tty, "hello")
        tty.expect("You said: ")
        assert "sk-very-secret" not in tty.text and "Traceback" not in tty.text


def test_through_a_pipe_each_line_is_a_message_and_the_end_ends_it() -> None:
    with chat_server(Model()) as server:
        done = zett(*start(server.url), stdin="hello\n\nask me\nblue\nbye")
    assert (done.returncode, done.stderr) == (0, "")
    for shown in ("you ▸ hello", "You said: hello", "✔ ask_user  blue", "you ▸ bye", "You said: hello / ask me / bye"):
        assert shown in done.stdout
    assert "steer" not in done.stdout and "\x1b" not in done.stdout


def test_through_a_pipe_the_first_failure_ends_it() -> None:
    with chat_server(Model()) as server:
        done = zett(*start(server.url), stdin="wrong key\nhello\n", extra=KEY)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "401" in done.stderr and "sk-very-secret" not in done.stderr
    assert "You said" not in done.stdout


async def test_without_a_person_a_failure_is_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel("Hello.", error(ProviderError("the key abc is wrong")))
    with Interrupts() as interrupts:
        async with await chat_agent(model, "Be kind.") as client:
            person = Typist("one", "  ", "two", None, interactive=False)
            assert await chat(client, Screen(), person, interrupts, secrets=["abc"]) == 1
    assert capsys.readouterr().err == "zett: the key *** is wrong\n"
    assert model.requests[0].messages[0].content == "Be kind."


async def test_a_person_goes_on_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    screen, typist = Screen(), Typist("one")
    with Interrupts() as interrupts:
        async with await chat_agent(ScriptedModel(error(ProviderError("gone")), "Here.")) as client:
            chatting = asyncio.create_task(chat(client, screen, typist, interrupts))
            await typist.until_prompted(PROMPT, times=2)
            typist.type("two")
            await screen.until("Here.")
            typist.type(None)
            assert await chatting == 0
    assert capsys.readouterr().err == "zett: gone\n"
    assert screen.text.endswith("Here.\n")


async def test_a_line_that_came_too_late_to_steer_is_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Conversation.turn

    async def late(self: Conversation, message: str) -> AgentEvent:
        last = await turn(self, message)
        if message == "one":
            self.late.append("two")
        return last

    monkeypatch.setattr(Conversation, "turn", late)
    screen, model = Screen(), ScriptedModel("Here.", "There.")
    with model, Interrupts() as interrupts:
        async with await chat_agent(model) as client:
            assert await chat(client, screen, Typist("one", None), interrupts) == 0
    assert "that came after the answer, so it is the next message\nyou ▸ two" in screen.text


def test_the_command_in_one_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.write(write, b"hello\n")
    os.close(write)
    with open(read, encoding="utf-8") as source, chat_server(Model()) as server:
        monkeypatch.setattr(sys, "stdin", source)
        assert main([*start(server.url), "--system", "Be kind.", "--max-tokens", "9"]) == 0
    assert "You said: hello" in capsys.readouterr().out
    assert server.bodies[0]["messages"][0]["content"] == "Be kind."
    assert server.bodies[0]["max_tokens"] == 9
    assert server.keys == ["Bearer none"]


def test_a_standard_input_that_is_no_file_is_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello"))
    with chat_server(Model()) as server:
        assert main(start(server.url)) == 0
    assert not server.bodies
