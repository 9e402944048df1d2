"""The clock of the event loop, so that no test waits for a bound to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import pytest_asyncio

Leap = Callable[[float], None]


@pytest_asyncio.fixture
async def leap(monkeypatch: pytest.MonkeyPatch) -> Leap:
    """``leap(seconds)`` moves the loop's clock on: timers that are due by then fire at its next turn."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0

    def skip(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    return skip
