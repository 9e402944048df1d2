"""Somebody at the terminal, for tests in one process."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from zett_agent.cli.render import Renderer


class Typist:
    """Types what the test says, when the test says it; None ends the input."""

    def __init__(self, *lines: str | None, interactive: bool = True) -> None:
        self.interactive = interactive
        self.prompts: list[str] = []
        self.statuses: list[str] = []
        self.discarded = 0
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._prompted = asyncio.Event()
        for line in lines:
            self.type(line)

    def type(self, line: str | None) -> None:
        self._lines.put_nowait(line)

    async def until_prompted(self, prompt: str, times: int = 1) -> None:
        """Wait until ``prompt`` is shown, for the first time or a later one."""
        async with asyncio.timeout(10):
            while self.prompts.count(prompt) < times or self.prompts[-1] != prompt:
                self._prompted.clear()
                await self._prompted.wait()

    async def line(self) -> str | None:
        line = await self._lines.get()
        if line is None:
            self.type(None)
        return line

    async def quiet(self) -> None:
        pass

    def set_prompt(self, prompt: str) -> None:
        self.prompts.append(prompt)
        self._prompted.set()

    def set_status(self, status: str) -> None:
        self.statuses.append(status)

    def discard(self) -> None:
        self.discarded += 1

    @contextmanager
    def covered(self) -> Iterator[None]:
        yield


class Noticed(io.StringIO):
    """A text file that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def write(self, text: str) -> int:
        self.changed.set()
        return super().write(text)


class Screen(Renderer):
    """A renderer whose output can be read."""

    def __init__(self) -> None:
        self.file = Noticed()
        self._changed = self.file.changed
        super().__init__(Console(file=self.file, width=100, highlight=False, markup=False, emoji=False))

    @property
    def text(self) -> str:
        return self.file.getvalue()

    async def until(self, wanted: str) -> None:
        """Wait until ``wanted`` is shown."""
        async with asyncio.timeout(10):
            while wanted not in self.text:
                self._changed.clear()
                await self._changed.wait()
