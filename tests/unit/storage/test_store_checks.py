"""The checks that stores are held to find the faults that they are there for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from zett_agent.storage.base import Lease, SessionInfo, SessionState
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.storage.records import NewRecord, Record
from zett_agent.testing import stores
from zett_agent.testing.stores import STORE_CHECKS, StoreCheck
from zett_agent.waits import ExternalEvent, Wait


class NoFence(MemorySessionStore):
    """A lost lease still appends."""

    async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
        current = self._logs[lease.session_id].lease or await self.claim(lease.session_id, lease.holder, ttl=60)
        return await super().append(current, records)


class NoLease(MemorySessionStore):
    """Anybody may claim at any time."""

    async def claim(self, session_id: str, holder: str, *, ttl: float) -> Lease:
        return await super().claim(session_id, "anybody", ttl=ttl)


class OneByOne(MemorySessionStore):
    """A batch is no unit."""

    async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
        last = await super().append(lease, [])
        for record in records:
            last = await super().append(lease, [record])
        return last


class LastAnswer(MemorySessionStore):
    """Every answer is accepted."""

    async def answer(self, session_id: str, wait_id: str, event: ExternalEvent) -> bool:
        await super().answer(session_id, wait_id, event)
        return True


class OffByOne(MemorySessionStore):
    """Loads the record that the reader has already."""

    async def load(self, session_id: str, after: int = 0) -> Sequence[Record]:
        return await super().load(session_id, max(after - 1, 0))


class YoungestFirst(MemorySessionStore):
    """Lists waits the wrong way round."""

    async def waits(self, session_id: str) -> Sequence[Wait]:
        return list(reversed(await super().waits(session_id)))


class NeverInterrupted(MemorySessionStore):
    """Takes a lost request for a running one."""

    async def sessions(self) -> Sequence[SessionInfo]:
        infos = await super().sessions()
        lost = SessionState.INTERRUPTED
        return [replace(info, state=SessionState.RUNNING) if info.state is lost else info for info in infos]


class NeverClosed(MemorySessionStore):
    """Goes on after it was closed."""

    async def close(self) -> None:
        return None


async def failures(store: type[MemorySessionStore]) -> list[str]:
    async def make_store() -> MemorySessionStore:
        return store()

    async def fault(check: StoreCheck) -> str | None:
        try:
            await check(make_store)
        except Exception:
            return check.__name__.removeprefix("check_")
        return None

    return [name for check in STORE_CHECKS if (name := await fault(check)) is not None]


@pytest.mark.parametrize(
    ("store", "check"),
    [
        (NoFence, "a_lease_that_ran_out_can_be_taken_over"),
        (NoLease, "a_held_session_is_busy"),
        (OneByOne, "an_append_is_all_or_nothing"),
        (LastAnswer, "the_first_of_many_concurrent_answers_wins"),
        (OffByOne, "loading_after_a_seq_gives_what_follows"),
        (YoungestFirst, "a_wait_is_open_until_it_is_answered_or_closed"),
        (NeverInterrupted, "the_state_of_a_session_follows_its_log"),
        (NeverClosed, "a_closed_store_refuses_everything"),
    ],
)
async def test_a_store_with_a_fault_fails_the_check_for_it(store: type[MemorySessionStore], check: str) -> None:
    assert check in await failures(store)


async def test_a_store_without_a_fault_fails_none() -> None:
    assert await failures(MemorySessionStore) == []


def test_every_check_of_the_module_is_on_the_list() -> None:
    named = [name for name in vars(stores) if name.startswith("check_") and name != "check_session_store"]
    assert [check.__name__ for check in STORE_CHECKS] == named
