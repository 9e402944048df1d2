"""Lines that a released format has written are read for ever. The files of a format are added to, never edited."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from zett_agent.extensions.events import MessageTiming
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelUsage
from zett_agent.stop import StopReason
from zett_agent.storage.codec import (
    decode_call,
    decode_event,
    decode_message,
    decode_record,
    decode_timing,
    decode_usage,
    decode_wait,
    encode_call,
    encode_event,
    encode_message,
    encode_record,
    encode_wait,
)
from zett_agent.storage.records import Record, RecordKind
from zett_agent.waits import ExternalEvent

V1 = Path(__file__).parents[2] / "golden" / "stored" / "v1"


def lines(kind: RecordKind) -> list[str]:
    return (V1 / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()


def golden(kind: RecordKind) -> list[Record]:
    return [decode_record(line) for line in lines(kind)]


def test_persist_08_every_kind_of_record_has_a_file() -> None:
    assert {path.stem for path in V1.iterdir()} == {kind.value for kind in RecordKind}


@pytest.mark.parametrize("kind", RecordKind)
def test_persist_08_every_line_of_format_1_is_read_and_written_again_byte_for_byte(kind: RecordKind) -> None:
    for line in lines(kind):
        record = decode_record(line)
        assert (record.kind, record.format) == (kind, 1)
        assert encode_record(record).encode() == line.encode()


def test_persist_08_every_message_of_format_1_is_read_and_written_again() -> None:
    restored = [decode_message(record.body["message"]) for record in golden(RecordKind.MESSAGE)]
    assert {type(message).__name__ for message in restored} == {
        "SystemMessage", "UserMessage", "AssistantMessage", "ToolMessage", "AgentMessage"
    }  # fmt: skip
    assert [encode_message(message) for message in restored] == [
        record.body["message"] for record in golden(RecordKind.MESSAGE)
    ]


def test_persist_08_an_assistant_message_of_format_1_means_what_it_meant() -> None:
    record = next(r for r in golden(RecordKind.MESSAGE) if cast("dict[str, Any]", r.body["message"])["kind"] == 3)
    message = decode_message(record.body["message"])
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls == (
        ToolCall("call_1", "weather", {"city": "Orléans", "days": 9007199254740993}),
        ToolCall("call_2", "weather", {}, "the arguments are not JSON"),
    )
    assert message.stop is not None
    assert (message.stop.reason, message.stop.detail) == (StopReason.TOOL_USE, {"index": 0})
    assert message.replay_blocks[0] == {"type": "thinking", "signature": "EqQBCgIYAhIM+/=", "thinking": "\ud83d"}
    usage = decode_usage(record.body["usage"])
    assert usage == ModelUsage(120, 30, 0, 0, cache_reported=False, reasoning_tokens=8)
    timing = MessageTiming(**cast("dict[str, Any]", decode_timing(record.body["timing"])))
    assert (timing.duration_ns, timing.reasoning_duration_ns) == (172800000000001, 1500000000)


def test_persist_08_waits_and_answers_of_format_1_are_read_and_written_again() -> None:
    (opened,) = golden(RecordKind.WAIT_OPENED)
    wait = decode_wait(opened.body["wait"])
    assert (wait.id, wait.tool) == ("call_1", "ask_user")
    assert wait.response_events == frozenset({"ask_user_answer", "ask_user_cancel"})
    assert wait.expires_at == datetime(2025, 1, 9, 3, 4, 5, 678901, UTC)
    assert encode_wait(wait) == opened.body["wait"]
    (answered,) = golden(RecordKind.WAIT_ANSWERED)
    event = decode_event(answered.body["event"])
    assert event == ExternalEvent("ask_user_answer", {"tool_call_id": "call_1", "answers": ["blue"]})
    assert encode_event(event) == answered.body["event"]


def test_persist_08_started_calls_of_format_1_are_read_and_written_again() -> None:
    (started,) = golden(RecordKind.CALL_STARTED)
    call = decode_call(started.body["call"])
    assert call == ToolCall("call_1", "weather", {"city": "Orléans"})
    assert encode_call(call) == started.body["call"]


def test_persist_08_a_checkpoint_of_format_1_holds_a_user_message() -> None:
    (checkpoint,) = golden(RecordKind.CHECKPOINT)
    assert isinstance(decode_message(checkpoint.body["message"]), UserMessage)
