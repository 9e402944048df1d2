"""A command on a pseudo-terminal, as a person would use it: type, and wait for what appears."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
SECONDS = 15.0
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# The child makes the pseudo-terminal its controlling one, so that a typed Ctrl-C becomes a signal.
_START = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)

CTRL_C = "\x03"
CTRL_D = "\x04"


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without keys, with the sources on the path."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "COLUMNS", "NO_COLOR"))
    }
    return {**kept, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", **(extra or {})}


def zett(
    *arguments: str, stdin: str | None = "", extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end without a terminal; ``stdin`` comes through a pipe, None closes it."""
    return subprocess.run(
        [sys.executable, "-m", "zett_agent.cli", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Terminal:
    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self._raw = b""
        self._seen = 0

    @property
    def text(self) -> str:
        """All that was written so far, without colours and cursor movements."""
        return _ANSI.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    @property
    def raw(self) -> str:
        return self._raw.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, wanted: str) -> None:
        """Read until ``wanted`` appears behind what was expected before."""
        deadline = time.monotonic() + SECONDS
        while (at := self.text.find(wanted, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{wanted!r} did not appear; the end of what did:\n{self.text[-3000:]}")
        self._seen = at + len(wanted)

    def status(self) -> int:
        """Read to the end and return the exit status."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def until_stopped(self) -> None:
        """Wait until the process is stopped, as by Ctrl-Z; it is no zombie, so its status stays."""
        deadline = time.monotonic() + SECONDS
        while os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def modes(self) -> list[object]:
        return list(termios.tcgetattr(self._master))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self._raw += data
        return bool(data)


@contextmanager
def terminal(
    *arguments: str, columns: int = 100, extra: Mapping[str, str] | None = None, output: int | None = None
) -> Iterator[Terminal]:
    """Start ``python -m zett_agent.cli ARGUMENTS`` on a terminal; whatever happens, it ends with the block."""
    with on_terminal(["-m", "zett_agent.cli", *arguments], columns=columns, extra=extra, output=output) as started:
        yield started


@contextmanager
def on_terminal(
    python: Sequence[str], *, columns: int = 100, extra: Mapping[str, str] | None = None, output: int | None = None
) -> Iterator[Terminal]:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (40, columns))
    process = subprocess.Popen(
        [sys.executable, "-c", _START, *python],
        stdin=slave,
        stdout=slave if output is None else output,
        stderr=slave,
        env=environment(extra),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
