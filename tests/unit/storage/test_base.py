from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zett_agent.exceptions import StorageError
from zett_agent.storage import records
from zett_agent.storage.base import LogState, SessionState, SessionStore
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.storage.records import NewRecord
from zett_agent.waits import ExternalEvent, Wait, WaitState

AT = datetime(2025, 1, 2, tzinfo=UTC)


def opened(request_id: str) -> NewRecord:
    return records.request_opened(
        request_id, parent_session_id=None, input_kind="user", metadata=None, tags=None, at=AT
    )


def waiting(wait_id: str) -> NewRecord:
    return records.wait_opened(Wait(wait_id, "s", "r", "ask", frozenset({"answer"}), "call_id", AT))


def answered(wait_id: str) -> NewRecord:
    return records.wait_answered(wait_id, ExternalEvent("answer", {}), at=AT)


def told(*new: NewRecord) -> LogState:
    state = LogState()
    for seq, record in enumerate(new, 1):
        state.apply(record.numbered("s", seq))
    return state


def test_a_log_without_an_open_request_is_idle() -> None:
    closed = records.request_closed("r", "completed", at=AT)
    assert told().state(held=False) is SessionState.IDLE
    assert told(opened("r"), closed).state(held=False) is SessionState.IDLE
    assert told(opened("r"), closed).state(held=True) is SessionState.RUNNING


def test_persist_09_an_open_request_without_an_owner_is_interrupted() -> None:
    assert told(opened("r")).state(held=True) is SessionState.RUNNING
    assert told(opened("r")).state(held=False) is SessionState.INTERRUPTED


def test_persist_09_a_session_that_waits_stays_waiting() -> None:
    for held in (True, False):
        assert told(opened("r"), waiting("c")).state(held=held) is SessionState.WAITING
    assert told(opened("r"), waiting("c"), answered("c")).state(held=False) is SessionState.INTERRUPTED


def test_a_wait_left_open_by_a_closed_request_does_not_make_the_session_wait() -> None:
    closed = records.request_closed("r", "failed", error_type="OSError", at=AT)
    assert told(opened("r"), waiting("c"), closed).state(held=False) is SessionState.IDLE


def test_a_new_request_takes_the_place_of_one_that_never_closed() -> None:
    lost = records.request_closed("lost", "interrupted", at=AT)
    state = told(opened("lost"), opened("r"), lost)
    assert (state.request_id, state.last_seq, state.updated_at) == ("r", 3, AT)


def test_closing_a_wait_that_is_not_open_changes_nothing() -> None:
    assert told(records.wait_closed("c", WaitState.EXPIRED, at=AT)).waits == {}


def test_hitl_20_an_answer_to_a_wait_that_is_not_open_is_refused() -> None:
    with pytest.raises(StorageError, match="^wait 'c' is not open: it is unknown, closed or answered$"):
        told(waiting("c"), answered("c"), answered("c"))


def test_a_copy_goes_on_apart() -> None:
    state = told(opened("r"), waiting("c"))
    copy = state.copy()
    assert copy == state
    copy.apply(answered("c").numbered("s", 3))
    assert list(state.waits) == ["c"]


def test_the_store_in_memory_is_a_session_store() -> None:
    assert isinstance(MemorySessionStore(), SessionStore)
