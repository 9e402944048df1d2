from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from typing import Any

import pytest

from tests.cli.server import Delta, chat_server, last_text, tool_call
from tests.cli.terminal import CTRL_C, on_terminal, terminal, zett
from zett_agent.cli import main
from zett_agent.cli.interrupts import Interrupts
from zett_agent.cli.run import answer
from zett_agent.testing import ScriptedModel, stall, stop, text

KEY = {"OPENAI_API_KEY": "sk-very-secret"}


def reply(body: dict[str, Any]) -> list[Delta] | int:
    said = last_text(body)
    if body["messages"][-1]["role"] == "tool":
        return ["The result ", "is ", said, "."]
    if "wrong key" in said:
        return 401
    return [tool_call("add", '{"left": 20, "right": 22}')] if "sum" in said else ["You said: ", said]


def start(url: str, prompt: str, *more: str) -> list[str]:
    return ["run", prompt, "--base-url", url, "--model", "tiny", *more]


def test_it_prints_the_answer_and_nothing_else() -> None:
    with chat_server(reply) as server:
        done = zett(*start(server.url, "a sum"), extra=KEY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "The result is 42.\n", "")


def test_json_prints_every_event_as_one_line() -> None:
    with chat_server(reply) as server:
        done = zett(*start(server.url, "a sum", "--json"))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert done.returncode == 0 and done.stderr == ""
    assert kinds[0] == "model_started" and kinds[-1] == "run_completed"
    assert {"tool_started", "tool_completed", "text_delta", "model_completed"} <= set(kinds)
    assert events[-1]["message"]["content"] == "The result is 42."
    assert len({event["session_id"] for event in events}) == 1


def test_a_dash_reads_the_prompt_from_standard_input() -> None:
    with chat_server(reply) as server:
        done = zett(*start(server.url, "-"), stdin="line one\nline two\n")
    assert done.stdout == "You said: line one\nline two\n\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_failure_is_status_1_and_one_line_without_the_key(as_json: bool) -> None:
    with chat_server(reply) as server:
        done = zett(*start(server.url, "wrong key", *(["--json"] if as_json else [])), extra=KEY)
    assert done.returncode == 1
    assert done.stderr == "zett: openai answered 401 Unauthorized: Incorrect API key provided: ***\n"
    assert "sk-very-secret" not in done.stdout
    if as_json:
        last = json.loads(done.stdout.splitlines()[-1])
        assert last["type"] == "run_failed" and last["error"]["type"] == "ProviderAuthError"
    else:
        assert done.stdout == ""


def test_an_answer_that_was_cut_off_is_printed_and_is_status_3() -> None:
    with chat_server(reply, finish="length") as server:
        done = zett(*start(server.url, "hello"))
    assert (done.returncode, done.stdout) == (3, "You said: hello\n")
    assert done.stderr == "zett: the model stopped: max_output (length)\n"


def test_a_server_that_is_not_there_is_one_line() -> None:
    with chat_server(reply) as server:
        pass
    done = zett(*start(server.url, "hello"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("zett: ") and "127.0.0.1" in done.stderr


def test_control_c_is_status_130() -> None:
    endless = chat_server(lambda body: ["begin ", threading.Event()])
    with endless as server, terminal(*start(server.url, "hello", "--json")) as tty:
        tty.expect("text_delta")
        tty.type(CTRL_C)
        tty.expect("run_cancelled")
        tty.expect("zett: interrupted")
        assert tty.status() == 130


def test_on_a_terminal_the_answer_cannot_drive_it() -> None:
    with chat_server(lambda body: ["\x1b[2Jboo"]) as server, terminal(*start(server.url, "hello")) as tty:
        tty.expect("␛[2Jboo")
        assert tty.status() == 0


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    with chat_server(lambda body: ["word "] * 5000) as server:
        command = [sys.executable, "-m", "zett_agent.cli", *start(server.url, "hello", "--json")]
        shell = [
            "-c",
            "import subprocess, sys; a = sys.argv[1:]; p = subprocess.Popen(a, stdout=subprocess.PIPE); "
            "p.stdout.readline(); p.stdout.close(); print('STATUS', p.wait())",
            *command,
        ]
        with on_terminal(shell) as tty:
            tty.expect("STATUS 1")
            assert "Traceback" not in tty.text and "Exception" not in tty.text


async def run(model: ScriptedModel, *, as_json: bool = False) -> int:
    with Interrupts() as interrupts:
        return await answer(model, "hello", interrupts=interrupts, as_json=as_json)


async def test_the_exit_status_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(ScriptedModel("Hi.")) == 0
    assert await run(ScriptedModel([text("No."), stop("content_filter")])) == 3
    assert await run(ScriptedModel()) == 1
    out, err = capsys.readouterr()
    assert out == "Hi.\nNo.\n"
    assert err.splitlines()[0] == "zett: the model stopped: refusal (content_filter)"
    assert err.splitlines()[1].startswith("zett: model call 1 has no step")


async def test_json_leaves_the_answer_to_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(ScriptedModel("Hi."), as_json=True) == 0
    assert all(json.loads(line)["type"] for line in capsys.readouterr().out.splitlines())


async def test_a_stop_is_status_130(capsys: pytest.CaptureFixture[str]) -> None:
    gate = stall()
    with Interrupts() as interrupts:
        running = asyncio.create_task(answer(ScriptedModel([text("Endless "), gate]), "hello", interrupts=interrupts))
        await gate.reached.wait()
        interrupts._interrupted()
        assert await running == 130
    assert capsys.readouterr() == ("", "zett: interrupted\n")


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


async def test_a_broken_pipe_is_not_a_failure_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        await run(ScriptedModel("Hi."), as_json=True)


@pytest.mark.parametrize("prompt", ["-", "hello"])
def test_the_command_in_one_process(
    prompt: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hell\xc3\xb6\xff")))
    with chat_server(reply) as server:
        assert main(start(server.url, prompt, "--system", "Be kind.")) == 0
    assert capsys.readouterr().out == ("You said: hellö�\n" if prompt == "-" else "You said: hello\n")
    assert server.bodies[0]["messages"][0]["content"].startswith("Be kind.")


def test_no_standard_input_at_all_is_an_empty_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["run", "-", "--model", "m", "--base-url", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == "zett: the prompt is empty\n"
