"""A runtime for a test, and the proof that no thread of one is left behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from tests.sync.support import SECONDS
from zett_agent.sync import SyncRuntime


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A runtime that is closed or dropped ends its thread."""
    yield
    threads = [thread for thread in threading.enumerate() if thread.name in ("zett-agent-sync", "zett-test")]
    if threads:
        gc.collect()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), f"{thread} is left"


@pytest.fixture
def runtime() -> Iterator[SyncRuntime]:
    """A runtime that is closed after the test."""
    with SyncRuntime() as runtime:
        yield runtime
