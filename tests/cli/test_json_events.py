from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from zett_agent.cli.json_events import event_line, event_to_json
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase, CompactionEvent
from zett_agent.exceptions import ProviderTimeoutError
from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageUrlSource,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContentPart,
    UserMessage,
)
from zett_agent.model import (
    ModelResponse,
    ModelUsage,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
    ToolCallDelta,
)
from zett_agent.stop import StopInfo, StopReason

CALL = ToolCall("c", "add", {"left": 1}, error="broken")
STOP = StopInfo(StopReason.MAX_OUTPUT, "length", message="cut", detail={"a": 1})
ANSWER = AssistantMessage(content="hi", reasoning="hm", tool_calls=[ToolCall("c", "add", {})], stop=STOP)
USAGE = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "cache_reported": True,
    "reasoning_tokens": 0,
}
ANSWER_JSON = {
    "role": "assistant",
    "content": "hi",
    "reasoning": "hm",
    "tool_calls": [{"id": "c", "name": "add", "arguments": {}}],
    "stop": {"reason": "max_output", "raw": "length", "message": "cut", "detail": {"a": 1}},
}
PICTURES: list[UserContentPart] = [
    TextContent("see"),
    ImageContent(ImageBytesSource(b"\xff", "image/png")),
    ImageContent(ImageUrlSource("https://example.org/a.png")),
]


def test_what_is_not_set_is_left_out() -> None:
    assert event_to_json(AgentEvent(AgentEventType.MODEL_STARTED, "s")) == {
        "type": "model_started",
        "session_id": "s",
        "phase": None,
    }


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"delta": "x"}, {"delta": "x"}),
        (
            {"tool_call_delta": ToolCallDelta(0, "i", "n", "a")},
            {"tool_call_delta": {"index": 0, "id_delta": "i", "name_delta": "n", "arguments_delta": "a"}},
        ),
        (
            {"tool_calls": [CALL]},
            {"tool_calls": [{"id": "c", "name": "add", "arguments": {"left": 1}, "error": "broken"}]},
        ),
        (
            {"server_tool_call": ServerToolCall("c", "web", {"q": 1})},
            {"server_tool_call": {"id": "c", "name": "web", "input": {"q": 1}}},
        ),
        (
            {"server_tool_input_delta": ServerToolInputDelta("c", "d")},
            {"server_tool_input_delta": {"call_id": "c", "delta": "d"}},
        ),
        (
            {"server_tool_result": ServerToolResult("c", "web", [1], "gone")},
            {"server_tool_result": {"call_id": "c", "name": "web", "output": [1], "error_code": "gone"}},
        ),
        (
            {"response": ModelResponse(ANSWER, "length", ModelUsage(3, 2), STOP)},
            {
                "response": {
                    "message": ANSWER_JSON,
                    "finish_reason": "length",
                    "stop": ANSWER_JSON["stop"],
                    "usage": USAGE,
                }
            },
        ),
        ({"stop": StopInfo(StopReason.REFUSAL)}, {"stop": {"reason": "refusal"}}),
        ({"message": ANSWER}, {"message": ANSWER_JSON}),
        (
            {"message": ToolMessage(tool_call_id="c", name="add", content=PICTURES, success=False)},
            {
                "message": {
                    "role": "tool",
                    "tool_call_id": "c",
                    "name": "add",
                    "success": False,
                    "content": [
                        {"type": "text", "text": "see"},
                        {"type": "image", "media_type": "image/png", "data": "/w=="},
                        {"type": "image", "url": "https://example.org/a.png"},
                    ],
                }
            },
        ),
        (
            {"internal_message": AgentMessage(content="psst")},
            {"internal_message": {"role": "agent", "content": "psst"}},
        ),
        ({"steering_message": UserMessage(content="left")}, {"steering_message": {"role": "user", "content": "left"}}),
        (
            {"error": ProviderTimeoutError("slow", phase="idle")},
            {"error": {"type": "ProviderTimeoutError", "message": "slow"}},
        ),
        (
            {"compaction": CompactionEvent(1, 2, 3, 4, "sum"), "applied": False},
            {
                "compaction": {
                    "compressed_from": 1,
                    "compressed_to": 2,
                    "kept_from": 3,
                    "kept_to": 4,
                    "summary": "sum",
                },
                "applied": False,
            },
        ),
    ],
)
def test_every_field_has_its_form(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    event = AgentEvent(AgentEventType.MODEL_COMPLETED, "s", AgentPhase.READY, **fields)
    assert event_to_json(event) == {"type": "model_completed", "session_id": "s", "phase": "ready", **wanted}
    assert json.loads(event_line(event)) == event_to_json(event)


def test_a_payload_that_is_no_json_becomes_json() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    payload = {"when": when, "nan": math.nan, "text": "a\ud800", "bytes": b"\xff"}
    shown = event_to_json(AgentEvent(AgentEventType.CUSTOM, "s", name="n", payload=payload))
    assert shown["payload"] == {"when": "2026-01-02T00:00:00Z", "nan": None, "text": "a�", "bytes": "/w=="}
    opaque = event_to_json(AgentEvent(AgentEventType.CUSTOM, "s", name="n", payload={"it": object()}))
    assert "object object" in str(opaque["payload"])


def test_a_line_is_one_line_of_ascii() -> None:
    line = event_line(AgentEvent(AgentEventType.TEXT_DELTA, "s", delta="a\nb\u2028ü"))
    assert line.isascii() and "\n" not in line


def test_a_response_without_a_stop_says_so() -> None:
    response = ModelResponse(AssistantMessage(content="x"))
    object.__setattr__(response, "stop", None)
    shown = event_to_json(AgentEvent(AgentEventType.MODEL_COMPLETED, "s", response=response))
    assert isinstance(shown["response"], dict) and shown["response"]["stop"] is None
