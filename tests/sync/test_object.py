"""SyncObject: any asynchronous object from blocking code."""

from __future__ import annotations

import copy
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from zett_agent.sync import SyncContext, SyncObject, SyncRuntime, SyncStream, to_sync
from zett_agent.sync_runtime import SyncRuntime as SameRuntime


class Radio:
    """One method of every shape."""

    kind = dict

    def __init__(self) -> None:
        self.volume = 1
        self.off = False

    async def tune(self, station: str) -> str:
        """Find a station."""
        return f"{station} on {threading.current_thread().name}"

    def where(self) -> str:
        return threading.current_thread().name

    def soon(self) -> Awaitable[str]:
        return self.tune("later")

    async def songs(self) -> AsyncIterator[str]:
        yield "a"
        yield "b"

    def playlist(self) -> AsyncIterator[str]:
        return self.songs()

    async def another(self) -> Radio:
        return Radio()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[str]:
        yield "on air"

    async def __aenter__(self) -> str:
        return "entered"

    async def __aexit__(self, *exc_info: object) -> None:
        self.off = True

    async def __call__(self, word: str) -> str:
        return f"said {word}"

    def __repr__(self) -> str:
        return "Radio()"


@pytest.fixture
def radio(runtime: SyncRuntime) -> SyncObject:
    return runtime.wrap(Radio())


def test_methods_block_and_run_on_the_loops_thread(radio: SyncObject) -> None:
    assert radio.tune("one") == "one on zett-agent-sync"
    assert radio.where() == "zett-agent-sync"
    assert radio.soon() == "later on zett-agent-sync"
    assert radio("hello") == "said hello"
    assert (radio.tune.__name__, radio.tune.__doc__) == ("tune", "Find a station.")


def test_async_iterators_become_streams_and_async_contexts_contexts(radio: SyncObject) -> None:
    assert isinstance(radio.songs(), SyncStream)
    assert list(radio.songs()) == list(radio.playlist()) == ["a", "b"]
    assert isinstance(radio.session(), SyncContext)
    with radio.session() as value:
        assert value == "on air"


def test_what_was_awaited_is_given_as_it_is(radio: SyncObject) -> None:
    assert isinstance(radio.another(), Radio)


def test_attributes_are_those_of_the_wrapped_object(radio: SyncObject) -> None:
    assert radio.volume == 1
    assert radio.kind is dict
    radio.volume = 2
    assert radio.wrapped.volume == 2
    del radio.volume
    with pytest.raises(AttributeError, match="volume"):
        radio.volume  # noqa: B018
    assert {"tune", "wrapped", "runtime"} <= set(dir(radio))
    assert repr(radio) == "SyncObject(Radio())"


def test_a_copy_wraps_the_same_object(radio: SyncObject) -> None:
    assert copy.copy(radio).wrapped is radio.wrapped


def test_it_closes_a_runtime_that_it_made_and_no_other(runtime: SyncRuntime) -> None:
    with runtime.wrap(Radio()):
        pass
    assert not runtime.closed
    with to_sync(Radio()) as own:
        assert own.tune("two") == "two on zett-agent-sync"
    assert own.runtime.closed
    assert not own.wrapped.off


def test_the_module_of_the_interface_names_the_same_classes() -> None:
    assert SameRuntime is SyncRuntime
