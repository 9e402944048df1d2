"""Lines that a person types, or that come through a pipe, without ever blocking the event loop.

A thread reads standard input, because a loop cannot watch every kind of it (a file, /dev/null). On a terminal the line
is edited here and not by the terminal, so that output can go on above a half-typed line and a prompt can be taken away
and put back.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol, Self

from zett_agent.cli.line_editor import LineEditor
from zett_agent.cli.text import visible

if sys.platform != "win32":
    import termios

#: Lines that are read ahead before the thread waits for somebody to take them.
READ_AHEAD = 16
#: A longer line that comes through a pipe is cut into several.
LONGEST_LINE = 1_048_576


class Screen(Protocol):
    """What the input must know of the output that shares the terminal with it."""

    def break_line(self) -> None:
        """End the line that is being written, if there is one."""
        ...

    def measure(self, text: str) -> int:
        """The cells that ``text`` takes."""
        ...

    def paint(self, text: str, style: str) -> str:
        """``text`` with the codes that colour it."""
        ...


class ConsoleInput:
    """Standard input as lines, for one event loop; an async context manager.

    ``interactive`` says that a person types. With ``editing`` that happens on the screen itself, else lines are taken
    as the terminal or the pipe hands them over.
    """

    def __init__(self, fd: int | None, output: IO[str], screen: Screen, *, columns: Callable[[], int]) -> None:
        self._fd = fd
        self._output = output
        self._screen = screen
        self._columns = columns
        self.interactive = fd is not None and os.isatty(fd)
        self.editing = self.interactive and _can_edit(output)
        #: Stands before what is typed while no prompt is shown.
        self.aside = "steer ▸ "
        self._prompt = ""
        self._status = ""
        self._editor = LineEditor()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial = ""
        self._lines: deque[str] = deque()
        self._ended = fd is None
        self._drawn = ""
        self._changed = asyncio.Event()
        self._terminal: _Terminal | None = None
        self._reader: _Reader | None = None

    async def __aenter__(self) -> Self:
        if self._fd is not None:
            if self.editing:
                self._terminal = _Terminal(self._fd, self._redraw)
            self._reader = _Reader(self._fd, self._arrived)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._erase()
        if self._reader is not None:
            self._reader.close()
        if self._terminal is not None:
            self._terminal.restore()

    async def line(self) -> str | None:
        """The next line without its end; None when there is no more. Cancelling it loses nothing."""
        while not self._lines:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        if self._reader is not None and len(self._lines) < READ_AHEAD:
            self._reader.go_on()
        return line

    async def quiet(self) -> None:
        """Wait until no half-typed line is on the screen."""
        while self.editing and self._editor.text and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    def set_prompt(self, prompt: str) -> None:
        """Show ``prompt`` before what is typed from now on; an empty one shows nothing until something is typed."""
        self._erase()
        self._prompt = prompt
        self._draw()
        if self.interactive and not self.editing and prompt:
            self._screen.break_line()
            self._write(prompt)

    def set_status(self, status: str) -> None:
        """Show what is being waited for while there is neither a prompt nor anything typed."""
        if self.editing and status != self._status:
            self._erase()
            self._status = status
            self._draw()

    def discard(self) -> None:
        """Forget a half-typed line and take away the prompt."""
        self._erase()
        self._editor.clear()
        self._prompt = ""
        self._changed.set()

    @contextmanager
    def covered(self) -> Iterator[None]:
        """Take the prompt off the screen while something else is written."""
        self._erase()
        try:
            yield
        finally:
            self._draw()

    def _arrived(self, data: bytes) -> None:
        text = self._decoder.decode(data, final=not data)
        if self.editing:
            self._typed(text)
        else:
            self._received(text, ended=not data)
        self._ended = self._ended or not data or self._editor.ended
        self._changed.set()
        if self._reader is not None and len(self._lines) < READ_AHEAD:
            self._reader.go_on()

    def _received(self, text: str, *, ended: bool) -> None:
        *whole, self._partial = (self._partial + text).split("\n")
        if self._partial and (ended or len(self._partial) > LONGEST_LINE):
            whole.append(self._partial)
            self._partial = ""
        self._lines += (line.rstrip("\r") for line in whole)

    def _typed(self, text: str) -> None:
        self._erase()
        for line in self._editor.feed(text):
            self._lines.append(line)
            if line.strip():
                self._screen.break_line()
                self._write(f"{self._painted_prompt()}{visible(line)}\n")
        self._draw()

    def _draw(self) -> None:
        typed = visible(self._editor.text)
        if not self.editing or not (self._prompt or typed or self._status):
            return
        self._screen.break_line()
        if self._prompt or typed:
            self._drawn = (self._prompt or self.aside) + typed
            self._write(self._painted_prompt() + typed)
        else:
            self._drawn = self._status
            self._write(self._screen.paint(self._status, "2"))

    def _painted_prompt(self) -> str:
        return self._screen.paint(self._prompt or self.aside, "1;32")

    def _erase(self) -> None:
        """Take away what was drawn; the cursor stands at its end, perhaps some rows below its start."""
        if self._drawn:
            rows = self._rows_above(self._drawn)
            self._write((f"\x1b[{rows}A" if rows else "") + "\r\x1b[J")
            self._drawn = ""

    def _rows_above(self, text: str) -> int:
        """Rows between the start of ``text`` and its end; a wide character that does not fit leaves a gap."""
        columns, rows, column = max(2, self._columns()), 0, 0
        for character in text:
            cells = self._screen.measure(character)
            if column + cells > columns:
                rows, column = rows + 1, 0
            column += cells
        return rows

    def _redraw(self) -> None:
        self._drawn = ""
        self._draw()

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


class _Reader:
    """The thread that reads; it hands over one piece at a time and goes on when it is told to."""

    def __init__(self, fd: int, arrived: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._room = threading.Event()
        self._room.set()
        self._closing = False
        self._wake_out, self._wake_in = os.pipe()
        self._thread = threading.Thread(target=self._read, name="zett stdin", daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """There is room for more."""
        self._room.set()

    def close(self) -> None:
        """Stop reading; nothing that was not read yet is taken from standard input."""
        self._closing = True
        self._room.set()
        os.write(self._wake_in, b"x")
        if sys.platform != "win32":  # there the thread cannot be woken; it ends with the process
            self._thread.join()
            os.close(self._wake_out)
            os.close(self._wake_in)

    def _read(self) -> None:
        while True:
            self._room.wait()
            if not self._readable():
                return
            data = self._take()
            self._room.clear()
            if self._closing:
                return
            with suppress(RuntimeError):  # the loop was closed without us
                self._loop.call_soon_threadsafe(self._hand_over, data)
            if not data:
                return

    def _readable(self) -> bool:
        if sys.platform == "win32":
            return True
        ready, _, _ = select.select([self._fd, self._wake_out], [], [])
        return self._wake_out not in ready

    def _take(self) -> bytes:
        try:
            return os.read(self._fd, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _hand_over(self, data: bytes) -> None:
        if not self._closing:
            self._arrived(data)


class _Terminal:
    """A terminal that hands over keys as they are pressed and echoes nothing; Ctrl-C and Ctrl-Z work as ever."""

    def __init__(self, fd: int, redraw: Callable[[], None]) -> None:
        self._fd = fd
        self._redraw = redraw
        self._loop = asyncio.get_running_loop()
        self._before: list[Any] = termios.tcgetattr(fd)
        self._apply()
        with suppress(ValueError, RuntimeError):  # not in the main thread: then Ctrl-Z is the shell's business alone
            self._loop.add_signal_handler(signal.SIGTSTP, self._suspend)
            self._loop.add_signal_handler(signal.SIGCONT, self._resumed)

    def restore(self) -> None:
        """Leave the terminal as it was found."""
        for number in (signal.SIGTSTP, signal.SIGCONT):
            self._loop.remove_signal_handler(number)
        self._give_back()

    def _give_back(self) -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def _suspend(self) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _apply(self) -> None:
        modes = list(self._before)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6] = list(modes[6])
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)

    def _resumed(self) -> None:
        self._apply()
        self._redraw()


def _can_edit(output: IO[str]) -> bool:
    return sys.platform != "win32" and output.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
