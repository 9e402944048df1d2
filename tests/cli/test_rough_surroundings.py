"""Full or closed outputs, signals at bad moments, words that are not text: one line and a status, no traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.cli.server import ChatServer, Delta, chat_server, last_text, tool_call
from tests.cli.terminal import SECONDS, environment, zett
from zett_agent.cli.interrupts import SIGNALLED
from zett_agent.cli.questions import Approval, Unclear

DEEP = "[" * 20_000 + "]" * 20_000
WILD = "\x1b]0;title\x07\x1b[2J\x9b31m\x00\u202e" + "x" * 20_000


def reply(body: dict[str, object]) -> list[Delta]:
    said = last_text(body)
    if "wild call" in said:
        return [tool_call("add\x1b[2J", '{"left": "\\u001b[2J\\ud800"}')]
    return [WILD] if "wild" in said else ["The answer ", "is 42."]


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server(reply) as started:
        yield started


def shell(command: str, server: ChatServer, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line; ``ZETT`` is the command and ``AT`` names the server."""
    line = command.replace("ZETT", f"{sys.executable} -m zett_agent.cli")
    line = line.replace(" AT", f" --base-url {server.url} --model m")
    return subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("command", ["run x AT", "run x --json AT", "demo"])
def test_a_closed_output_is_no_fault(server: ChatServer, command: str) -> None:
    done = shell(f"ZETT {command} >&-", server)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["run x AT", "run x --json AT", "demo"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is full")
def test_a_full_output_is_one_line_and_a_failure(server: ChatServer, command: str) -> None:
    done = shell(f"ZETT {command} >/dev/full", server)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "No space left" in done.stderr
    assert shell(f"ZETT {command} >/dev/full 2>/dev/full", server).returncode == 1


@pytest.mark.parametrize("command", ["run x AT", "run x --json AT", "demo"])
def test_a_reader_that_leaves_is_no_traceback(server: ChatServer, command: str) -> None:
    done = shell(f"ZETT {command} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}", server)
    assert done.stdout.strip() in ("0", "1") and done.stderr == ""


@pytest.mark.parametrize("words", ["wild", "wild call"])
@pytest.mark.parametrize(
    "extra",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii", "TERM": "dumb", "NO_COLOR": "1"},
        {"COLUMNS": "1", "HOME": "/nonexistent"},
        {"COLUMNS": "20", "FORCE_COLOR": "1"},
    ],
    ids=["ascii", "dumb", "one column", "twenty columns"],
)
def test_wild_words_drive_no_terminal_wherever_they_are_shown(
    server: ChatServer, words: str, extra: dict[str, str]
) -> None:
    done = zett("chat", "--base-url", server.url, "--model", "m", stdin=f"{words}\n", extra=extra)
    assert "Traceback" not in done.stderr
    assert "\x1b[2J" not in done.stdout and "\x1b]0;" not in done.stdout and "\x00" not in done.stdout


def test_python_without_docstrings_is_told_so() -> None:
    done = zett("demo", extra={"PYTHONOPTIMIZE": "2"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "docstrings" in done.stderr


def test_deep_json_as_an_answer_is_unclear() -> None:
    with pytest.raises(Unclear):
        Approval("call_1", "s", "add", {"left": 1}).read(f"e {DEEP}")


def test_ctrl_c_at_any_moment_leaves_without_a_traceback() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    hang = threading.Event()
    with chat_server(lambda body: ["a", hang, "b"]) as server:
        for _ in range(8):
            child = subprocess.Popen(
                [sys.executable, "-m", "zett_agent.cli", "run", "x", "--base-url", server.url, "--model", "m"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(),
            )
            # Before that Python itself is starting, which is not ours to guard.
            time.sleep(dice.uniform(0.15, 1.2))
            child.send_signal(signal.SIGINT)
            said = child.communicate(timeout=SECONDS)[0].decode()
            assert "Traceback" not in said and "ignored" not in said, said
            assert child.returncode in (SIGNALLED + signal.SIGINT, -signal.SIGINT)
        hang.set()
