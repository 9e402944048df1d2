"""Where a history can be gone on with. Requests that do so: tests/engine/test_resume.py."""

from __future__ import annotations

import pytest

from zett_agent._runtime.resumption import ResumePoint, classify_resume
from zett_agent.exceptions import AgentResumeError
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason

USER = UserMessage(content="hi")
SYSTEM = SystemMessage(content="S")
CALL = ToolCall("a", "t")
BATCH = AssistantMessage(tool_calls=(CALL, ToolCall("b", "t")))
CUT = StopInfo(StopReason.MAX_OUTPUT)


def result(call_id: str) -> ToolMessage:
    return ToolMessage(tool_call_id=call_id, name="t", content="x")


@pytest.mark.parametrize(
    ("messages", "kind", "missing"),
    [
        ([SYSTEM, USER, SYSTEM], "call_model", []),
        ([AgentMessage(content="x")], "call_model", []),
        ([BATCH, result("b"), result("a")], "call_model", []),
        ([BATCH, result("b"), SYSTEM], "recover_tools", ["a"]),
        ([AssistantMessage(tool_calls=(CALL,), stop=CUT)], "recover_tools", ["a"]),
        ([USER, AssistantMessage(stop=CUT)], "continue_response", []),
    ],
)
def test_a_history_that_waits_for_something(messages: list[AnyMessage], kind: str, missing: list[str]) -> None:
    point = classify_resume(messages)
    assert point.kind == kind and point.description
    assert [call.id for call in point.unanswered_tool_calls] == missing


@pytest.mark.parametrize(
    "messages",
    [
        [result("a")],
        [USER, result("a")],
        [AssistantMessage(content="x"), result("a")],
        [AgentMessage(content="x"), result("a")],
    ],
)
def test_results_that_nobody_asked_for_are_malformed(messages: list[AnyMessage]) -> None:
    with pytest.raises(AgentResumeError, match="no assistant message asked for") as error:
        classify_resume(messages)
    assert error.value.reason == "malformed"


def test_the_stop_of_a_cut_batch_is_told() -> None:
    point = classify_resume([AssistantMessage(tool_calls=(CALL,), stop=CUT)])
    assert point == ResumePoint(point.kind, "1 calls have no result", (CALL,), CUT)
