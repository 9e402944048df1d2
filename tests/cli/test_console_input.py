from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import termios
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from zett_agent.cli import console_input
from zett_agent.cli.console_input import READ_AHEAD, ConsoleInput


class Screen:
    def __init__(self) -> None:
        self.broken = 0

    def break_line(self) -> None:
        self.broken += 1

    def measure(self, text: str) -> int:
        return sum(2 if character > "\u2e80" else 1 for character in text)

    def paint(self, text: str, style: str) -> str:
        return text


@asynccontextmanager
async def piped(fd: int | None) -> AsyncIterator[ConsoleInput]:
    async with ConsoleInput(fd, io.StringIO(), Screen(), columns=lambda: 80) as made:
        yield made


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


class Terminal:
    """Both sides of a pseudo-terminal: what a person types and sees, and the input under test on the other."""

    def __init__(self, master: int, slave: int, output: IO[str], screen: Screen) -> None:
        self.master = master
        self.slave = slave
        self.screen = screen
        self.input = ConsoleInput(slave, output, screen, columns=lambda: 20)

    async def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())
        for _ in range(20):
            await asyncio.sleep(0.005)

    def seen(self) -> str:
        data = b""
        while select.select([self.master], [], [], 0.05)[0]:
            data += os.read(self.master, 65_536)
        return data.decode()


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, term: str = "xterm") -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", term)
    master, slave = os.openpty()
    with open(os.dup(slave), "w", encoding="utf-8") as output:
        yield Terminal(master, slave, output, Screen())
    for side in (master, slave):
        with suppress(OSError):
            os.close(side)


async def lines(source: ConsoleInput) -> list[str]:
    found = []
    while (line := await source.line()) is not None:
        found.append(line)
    return found


async def test_each_line_of_a_pipe_is_one_line_and_its_end_ends_it(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"eins\nzw" + "öl".encode()[:2])
    async with piped(pipe[0]) as source:
        assert await source.line() == "eins"
        os.write(pipe[1], "öl".encode()[2:] + b"f\r\n\nlast without end")
        os.close(pipe[1])
        assert await lines(source) == ["zwölf", "", "last without end"]
        assert await source.line() is None
        assert not source.interactive and not source.editing


async def test_a_file_and_the_null_device_are_read_like_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("a\nb\n")
    for name, wanted in ((str(path), ["a", "b"]), (os.devnull, [])):
        fd = os.open(name, os.O_RDONLY)
        async with piped(fd) as source:
            assert await lines(source) == wanted
        os.close(fd)


async def test_a_closed_standard_input_is_an_empty_one() -> None:
    async with piped(None) as source:
        assert await source.line() is None


async def test_reading_never_blocks_the_loop_and_closing_does_not_wait_for_input(pipe: tuple[int, int]) -> None:
    async with piped(pipe[0]) as source:
        waiting = asyncio.create_task(source.line())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not [thread for thread in threading.enumerate() if thread.name == "zett stdin"]


async def test_a_cancelled_wait_loses_no_line(pipe: tuple[int, int]) -> None:
    async with piped(pipe[0]) as source:
        for number in range(50):
            waiting = asyncio.create_task(source.line())
            await asyncio.sleep(0)
            os.write(pipe[1], f"{number}\n".encode())
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await source.line() == str(number)


async def test_what_nobody_takes_is_not_read_without_bound(pipe: tuple[int, int]) -> None:
    async with piped(pipe[0]) as source:
        await asyncio.sleep(0.01)
        for _ in range(3):
            os.write(pipe[1], b"x\n" * READ_AHEAD)
            await asyncio.sleep(0.02)
        assert select.select([pipe[0]], [], [], 0)[0], "the rest is still in the pipe"
        os.close(pipe[1])
        assert await lines(source) == ["x"] * 3 * READ_AHEAD


async def test_a_line_without_end_is_cut(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_input, "LONGEST_LINE", 10)
    async with piped(pipe[0]) as source:
        os.write(pipe[1], b"x" * 11)
        assert await source.line() == "x" * 11


async def test_prompts_are_for_people(pipe: tuple[int, int]) -> None:
    output = io.StringIO()
    async with ConsoleInput(pipe[0], output, Screen(), columns=lambda: 80) as source:
        source.set_prompt("you ▸ ")
        source.set_status("… working")
        with source.covered():
            pass
        await source.quiet()
        source.discard()
    assert output.getvalue() == ""


async def test_a_terminal_that_cannot_edit_hands_over_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, "dumb") as tty:
        async with tty.input as source:
            assert source.interactive and not source.editing
            source.set_prompt("you ▸ ")
            await tty.type("hello\n")
            assert await source.line() == "hello"
        assert tty.seen() == "you ▸ hello\r\n"


async def test_what_is_typed_is_edited_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            source.set_prompt("> ")
            await tty.type("helo\x7flo")
            await tty.type("\r")
            assert await source.line() == "hello"
            source.set_prompt("")
        seen = tty.seen()
        assert "> hello\r\n" in seen
        assert seen.endswith("\r\x1b[J")


async def test_output_goes_above_a_half_typed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            source.set_prompt("> ")
            await tty.type("half a line that wraps over rows")
            tty.seen()
            with source.covered():
                assert tty.seen() == "\x1b[1A\r\x1b[J"
            assert tty.seen() == "> half a line that wraps over rows"


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        ("x" * 18, 0),
        ("x" * 19, 1),
        ("x" * 38, 1),
        ("x" * 39, 2),
        ("字" * 9, 0),
        ("x" + "字" * 9, 1),
        ("x" + "字" * 18, 1),
        ("x" + "字" * 19, 2),
    ],
)
async def test_the_rows_of_a_typed_line_are_taken_away_whole(
    typed: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            source.set_prompt("> ")
            await tty.type(typed)
            tty.seen()
            with source.covered():
                assert tty.seen() == (f"\x1b[{rows}A" if rows else "") + "\r\x1b[J"


async def test_somebody_who_types_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            await source.quiet()
            await tty.type("st")
            assert tty.screen.broken > 0, "the line that streams is ended first"
            waiting = asyncio.create_task(source.quiet())
            await tty.type("op")
            assert not waiting.done()
            await tty.type("\r")
            await waiting
            assert await source.line() == "stop"
        assert "steer ▸ stop" in tty.seen()


async def test_a_discarded_line_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            source.set_prompt("> ")
            await tty.type("never mind")
            waiting = asyncio.create_task(source.quiet())
            await asyncio.sleep(0)
            source.discard()
            await waiting
            await tty.type("ok\r")
            assert await source.line() == "ok"


async def test_a_status_stands_where_nothing_is_asked_or_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            source.set_status("… working")
            source.set_status("… working")
            assert tty.seen() == "… working"
            await tty.type("x")
            assert tty.seen() == "\r\x1b[Jsteer ▸ x"
            await tty.type("\x15")
            source.set_status("")
            assert tty.seen() == "\r\x1b[J… working\r\x1b[J"


async def test_control_d_ends_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            await tty.type("last\r\x04")
            assert await lines(source) == ["last"]


async def test_a_terminal_that_goes_away_ends_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        async with tty.input as source:
            os.close(tty.master)
            assert await source.line() is None


async def test_after_a_return_from_control_z_everything_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        sane = termios.tcgetattr(tty.slave)
        async with tty.input as source:
            source.set_prompt("> ")
            await tty.type("half")
            tty.seen()
            termios.tcsetattr(tty.slave, termios.TCSANOW, sane)  # as the shell does meanwhile
            os.kill(os.getpid(), signal.SIGCONT)
            await asyncio.sleep(0.05)
            await tty.type(" a line\r")
            assert await source.line() == "half a line"
        assert tty.seen().startswith("> half")


async def test_the_terminal_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as tty:
        before = termios.tcgetattr(tty.slave)
        async with tty.input:
            assert not termios.tcgetattr(tty.slave)[3] & (termios.ICANON | termios.ECHO)
            assert termios.tcgetattr(tty.slave)[3] & termios.ISIG
        assert termios.tcgetattr(tty.slave) == before
