from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zett_agent.exceptions import StoredFormatError
from zett_agent.extensions.events import MessageTiming
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelUsage
from zett_agent.storage import records
from zett_agent.storage.codec import (
    decode_call,
    decode_event,
    decode_message,
    decode_record,
    decode_timing,
    decode_usage,
    decode_wait,
    encode_record,
)
from zett_agent.storage.records import FORMAT_VERSION, NewRecord, Record, RecordKind, Timing
from zett_agent.waits import ExternalEvent, Wait, WaitState

AT = datetime(2025, 1, 2, 3, 4, 5, 678901, UTC)
LATER = AT + timedelta(days=2)
WAIT = Wait(
    id="c1",
    session_id="s",
    request_id="r",
    extension="ask",
    response_events=frozenset({"b", "a"}),
    correlation_field="call_id",
    created_at=AT,
    arguments={"x": [1]},
    question={"q": "Ready?"},
    expires_at=LATER,
)


def stored(new: NewRecord) -> Record:
    """What a reader gets of what a writer appended."""
    record = new.numbered("s", 1)
    assert decode_record(encode_record(record)) == record
    return record


def test_a_store_adds_the_session_the_seq_and_the_format() -> None:
    new = records.checked(RecordKind.TASK, {"a": 1}, at=AT)
    assert new.numbered("s", 7) == Record("s", 7, AT, RecordKind.TASK, FORMAT_VERSION, {"a": 1})


def test_a_request_is_opened_with_what_was_asked() -> None:
    new = records.request_opened(
        "r", parent_session_id="p", input_kind="user", metadata={"m": 1}, tags={"t": True}, at=AT
    )
    assert stored(new).body == {
        "request_id": "r",
        "parent_session_id": "p",
        "input_kind": "user",
        "metadata": {"m": 1},
        "tags": {"t": True},
    }
    bare = records.request_opened("r", parent_session_id=None, input_kind="user", metadata=None, tags=None, at=AT)
    assert (bare.body["metadata"], bare.body["tags"]) == ({}, {})


def test_a_request_is_closed_with_its_outcome() -> None:
    assert stored(records.request_closed("r", "completed", at=AT)).body == {
        "request_id": "r",
        "outcome": "completed",
        "error": None,
    }
    failed = records.request_closed("r", "failed", error_type="OSError", error_text="disk full", at=AT)
    assert stored(failed).body["error"] == {"type": "OSError", "text": "disk full"}
    silent = records.request_closed("r", "failed", error_type="OSError", at=AT)
    assert silent.body["error"] == {"type": "OSError", "text": ""}


def test_core_31_a_message_keeps_its_usage_with_whether_the_cache_was_reported() -> None:
    usage = ModelUsage(100, 20, 0, 0, cache_reported=False, reasoning_tokens=5)
    message = AssistantMessage(content="hi")
    body = stored(records.message(message, request_id="r", usage=usage, at=AT)).body
    assert decode_message(body["message"]) == message
    restored = decode_usage(body["usage"])
    assert restored == usage
    assert restored is not None
    assert restored.cache_hit_rate is None


def test_core_58_a_message_keeps_durations_of_any_length() -> None:
    timing = MessageTiming(AT, LATER, 2 * 86_400 * 10**9, AT, LATER, 2**40, AT, LATER, 2**62)
    body = stored(records.message(UserMessage(content=""), request_id="r", timing=timing, at=AT)).body
    assert MessageTiming(**_arguments(decode_timing(body["timing"]))) == timing


def test_a_timing_without_reasoning_or_text_has_only_the_whole() -> None:
    timing = MessageTiming(AT, LATER, 3)
    body = stored(records.message(UserMessage(content=""), request_id="r", timing=timing, at=AT)).body
    assert decode_timing(body["timing"]) == {"started_at": AT, "completed_at": LATER, "duration_ns": 3}


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(values)


@pytest.mark.parametrize("duration", [2**63, 0.5])
def test_a_duration_that_is_no_count_of_nanoseconds_is_refused(duration: Any) -> None:
    timing: Timing = MessageTiming(AT, AT, duration)
    with pytest.raises(StoredFormatError, match=r"^timing\.duration_ns must be a count of nanoseconds in 63 bits$"):
        records.message(UserMessage(content=""), request_id="r", timing=timing, at=AT)


def test_a_message_may_have_neither_timing_nor_usage() -> None:
    body = stored(records.message(UserMessage(content=""), request_id="r", at=AT)).body
    assert (body["timing"], decode_usage(body["usage"])) == (None, None)


def test_persist_03_a_started_call_is_recorded_whole() -> None:
    call = ToolCall("c1", "f", {"x": 2**70})
    body = stored(records.call_started("r", call, at=AT)).body
    assert (body["request_id"], decode_call(body["call"])) == ("r", call)


def test_a_wait_comes_back_with_its_question_and_its_end() -> None:
    new = records.wait_opened(WAIT)
    assert new.at == AT
    assert records.wait_opened(WAIT, at=LATER).at == LATER
    restored = decode_wait(stored(new).body["wait"])
    assert restored.response_events == frozenset({"a", "b"})
    assert (restored.question, restored.expires_at, restored.arguments) == ({"q": "Ready?"}, LATER, {"x": [1]})


def test_a_wait_may_have_no_question_and_no_end() -> None:
    wait = Wait("c1", "s", "r", "ask", frozenset({"a"}), "call_id", AT)
    assert decode_wait(stored(records.wait_opened(wait)).body["wait"]) == wait


def test_the_names_of_answers_are_sorted_so_that_the_text_is_stable() -> None:
    assert records.encode_wait(WAIT)["response_events"] == ["a", "b"]


def test_an_answer_comes_back_with_its_payload() -> None:
    event = ExternalEvent("answer", {"call_id": "c1", "value": {"nested": [1, None]}})
    body = stored(records.wait_answered("c1", event, at=AT)).body
    assert (body["wait_id"], decode_event(body["event"])) == ("c1", event)


def test_an_answer_that_is_not_json_is_refused_by_the_name_of_its_key() -> None:
    with pytest.raises(StoredFormatError, match=r"^event\.payload\['when'\] must be JSON, not datetime$"):
        records.wait_answered("c1", ExternalEvent("answer", {"when": AT}), at=AT)


def test_a_wait_closes_as_expired_or_abandoned() -> None:
    new = records.wait_closed("c1", WaitState.EXPIRED, at=AT)
    assert stored(new).body == {"wait_id": "c1", "state": "expired"}
    assert records.wait_closed("c1", WaitState.ABANDONED, at=AT).body["state"] == "abandoned"
    for state in (WaitState.OPEN, WaitState.ANSWERED):
        with pytest.raises(ValueError, match=f"^a wait closes as expired or abandoned, not {state}$"):
            records.wait_closed("c1", state, at=AT)


def test_a_record_of_any_kind_is_checked_and_copied() -> None:
    state = {"todo": ["a"]}
    new = records.checked(RecordKind.EXTENSION, {"extension": "todo", "state": state}, at=AT)
    state["todo"].append("b")
    assert stored(new).body == {"extension": "todo", "state": {"todo": ["a"]}}
    with pytest.raises(StoredFormatError, match=r"^body\['x'\] must be JSON, not set$"):
        records.checked(RecordKind.EXTENSION, {"x": set[int]()}, at=AT)
