"""A runtime for a test, and the proof that no thread of one is left behind."""

from __future__ import annotations

import gc
import signal
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


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """A shell starts its background jobs with SIGINT ignored, and the tests may be one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def runtime() -> Iterator[SyncRuntime]:
    """A runtime that is closed after the test."""
    with SyncRuntime() as runtime:
        yield runtime
