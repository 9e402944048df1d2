from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from zett_agent.exceptions import SessionBusyError, StorageError
from zett_agent.storage import records
from zett_agent.storage.base import SessionState
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.storage.records import NewRecord, RecordKind
from zett_agent.testing.stores import STORE_CHECKS, StoreCheck, check_session_store
from zett_agent.waits import ExternalEvent, Wait

_T = TypeVar("_T")
AT = datetime(2025, 1, 2, tzinfo=UTC)
ANSWER = ExternalEvent("answer", {"call_id": "c"})


class Clock:
    """A time that moves only when told to."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def note(number: int = 0) -> NewRecord:
    return records.checked(RecordKind.EXTENSION, {"number": number}, at=AT)


def waiting(wait_id: str) -> NewRecord:
    return records.wait_opened(Wait(wait_id, "s", "r", "ask", frozenset({"answer"}), "call_id", AT))


async def make_store() -> MemorySessionStore:
    return MemorySessionStore()


@pytest.mark.parametrize("check", STORE_CHECKS)
async def test_the_store_in_memory_behaves_as_every_store(check: StoreCheck) -> None:
    await check(make_store)


async def test_all_checks_run_without_a_test_framework() -> None:
    await check_session_store(make_store)


async def test_a_lease_lives_as_long_as_its_ttl() -> None:
    clock = Clock()
    store = MemorySessionStore(clock=clock)
    lease = await store.claim("s", "old", ttl=10)
    assert lease.expires_at == AT + timedelta(seconds=10)
    clock.move(9.9)
    with pytest.raises(SessionBusyError):
        await store.claim("s", "new", ttl=10)
    clock.move(0.1)
    assert (await store.claim("s", "new", ttl=10)).holder == "new"


async def test_a_renewed_lease_has_its_whole_ttl_ahead() -> None:
    clock = Clock()
    store = MemorySessionStore(clock=clock)
    lease = await store.claim("s", "r", ttl=10)
    clock.move(8)
    renewed = await store.renew(lease)
    assert renewed.expires_at == AT + timedelta(seconds=18)
    clock.move(8)
    with pytest.raises(SessionBusyError):
        await store.claim("s", "new", ttl=10)


async def test_persist_09_a_session_whose_owner_went_silent_is_interrupted() -> None:
    clock = Clock()
    store = MemorySessionStore(clock=clock)
    lease = await store.claim("s", "r", ttl=10)
    opened = records.request_opened("r", parent_session_id=None, input_kind="user", metadata=None, tags=None, at=AT)
    await store.append(lease, [opened])
    assert [(info.state, info.holder) for info in await store.sessions()] == [(SessionState.RUNNING, "r")]
    clock.move(10)
    assert [(info.state, info.holder) for info in await store.sessions()] == [(SessionState.INTERRUPTED, None)]


async def test_an_answer_is_recorded_at_the_time_of_the_store() -> None:
    clock = Clock()
    store = MemorySessionStore(clock=clock)
    lease = await store.claim("s", "r", ttl=10)
    await store.append(lease, [waiting("c")])
    clock.move(5)
    await store.answer("s", "c", ANSWER)
    assert (await store.load("s"))[-1].at == AT + timedelta(seconds=5)


async def test_a_negative_seq_loads_everything() -> None:
    store = MemorySessionStore()
    await store.append(await store.claim("s", "r", ttl=10), [note(1), note(2)])
    assert len(await store.load("s", after=-1)) == 2


async def test_a_forgotten_session_is_gone_with_its_lease() -> None:
    store = MemorySessionStore()
    lease = await store.claim("s", "r", ttl=10)
    await store.append(lease, [note(), waiting("c")])
    store.forget("s")
    store.forget("never seen")
    assert (list(await store.load("s")), list(await store.sessions())) == ([], [])
    assert not await store.answer("s", "c", ANSWER)
    new = await store.claim("s", "new", ttl=10)
    with pytest.raises(StorageError, match="^'r' has lost its lease of session 's'$"):
        await store.append(lease, [note()])
    assert await store.append(new, [note()]) == 1


async def test_a_session_that_was_claimed_and_never_written_leaves_nothing() -> None:
    store = MemorySessionStore()
    for number in range(100):
        await store.release(await store.claim(f"s{number}", "r", ttl=10))
    assert not store._logs


async def test_a_released_session_keeps_its_log() -> None:
    store = MemorySessionStore()
    lease = await store.claim("s", "r", ttl=10)
    await store.append(lease, [note()])
    await store.release(lease)
    assert len(await store.load("s")) == 1


def in_threads(work: list[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run each coroutine in a thread with an event loop of its own."""
    with ThreadPoolExecutor(max_workers=len(work)) as pool:
        return [done.result() for done in [pool.submit(asyncio.run, coroutine) for coroutine in work]]


def test_hitl_20_one_of_many_threads_gives_the_first_answer() -> None:
    store = MemorySessionStore()

    async def setup() -> None:
        await store.append(await store.claim("s", "r", ttl=10), [waiting(f"c{n}") for n in range(50)])

    async def answer_all(who: int) -> int:
        event = ExternalEvent("answer", {"who": who})
        return sum([await store.answer("s", f"c{n}", event) for n in range(50)])

    asyncio.run(setup())
    assert sum(in_threads([answer_all(who) for who in range(8)])) == 50
    assert asyncio.run(store.waits("s")) == []


def test_persist_12_threads_that_append_lose_nothing() -> None:
    store = MemorySessionStore()
    lease = asyncio.run(store.claim("s", "r", ttl=60))

    async def append_many(who: int) -> None:
        for _ in range(100):
            await store.append(lease, [note(who), note(who)])

    in_threads([append_many(who) for who in range(8)])
    loaded = asyncio.run(store.load("s"))
    assert [record.seq for record in loaded] == list(range(1, 1601))
    numbers = [record.body["number"] for record in loaded]
    assert numbers[::2] == numbers[1::2]


def test_persist_12_one_of_many_threads_claims_a_session() -> None:
    store = MemorySessionStore()

    async def claim(who: int) -> bool:
        try:
            await store.claim("s", f"r{who}", ttl=60)
        except SessionBusyError:
            return False
        return True

    assert sum(in_threads([claim(who) for who in range(16)])) == 1
