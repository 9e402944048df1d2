"""Streams of a model that break, lie or never end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.engine.scenario import add, lines, scene
from zett_agent.exceptions import AgentProtocolError
from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.model import (
    ModelEvent,
    ModelEventType,
    ModelRequest,
    ModelResponse,
    RetryOptions,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
)
from zett_agent.testing import HookRecorder, call, deltas, end, error, raw_call, reasoning, text

RESPONSE = ModelEvent.completed(ModelResponse(AssistantMessage(content="done")))
NO_ANSWER = ModelEvent.completed(ModelResponse(AssistantMessage(content="x")))
object.__setattr__(NO_ANSWER.response, "message", UserMessage(content="x"))  # behind the back of the constructor
START = ModelEvent.server_tool_started(ServerToolCall("w1", "web_search"))


async def test_core_17_a_stream_that_fails_keeps_its_text_as_an_interrupted_answer() -> None:
    hooks = HookRecorder()
    boom = ConnectionError("lost")
    stage = await scene([reasoning("hm"), text("partial"), error(boom)], extensions=[hooks])
    outcome = await stage.play()
    assert outcome.error is boom
    assert outcome.phases == lines("""
        model_started [generating]
        reasoning_started [generating]
        reasoning_delta hm [generating]
        reasoning_completed [generating]
        content_started [generating]
        text_delta partial [generating]
        content_completed [generating]
        run_failed ConnectionError [failed]
    """)
    assert outcome.story == ["user hi", "assistant partial [interrupted]"]
    assert outcome.recorder.of("run_failed")[0].error is boom
    assert [" ".join(entry).strip() for entry in hooks.entries[-4:]] == lines("""
        on_model_request_end generating
        on_event generating MessageAppended(assistant)
        on_event failed generating->failed
        on_error failed ConnectionError
    """)


async def test_core_17_resuming_a_lost_stream_asks_for_the_answer_again() -> None:
    stage = await scene([text("partial"), error(ConnectionError())], "done")
    await stage.play()
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "retry_response"
    outcome = await stage.resume()
    assert outcome.story[:2] == ["user hi", "assistant partial [interrupted]"]
    assert outcome.story[2].startswith("agent Your last answer was cut off")
    assert outcome.messages[2].attributes == {"resume": "retry_response"}
    assert outcome.story[3] == "assistant done"


async def test_cancel_05_a_call_that_was_being_streamed_is_dropped() -> None:
    stage = await scene([text("let me"), raw_call("add", '{"le', "ft"), error(ConnectionError())], "done", tools=[add])
    outcome = await stage.play()
    assert outcome.story == ["user hi", "assistant let me [interrupted]"]


async def test_ui_02_reasoning_and_server_tools_that_are_open_are_closed_on_failure() -> None:
    stage = await scene([reasoning("hm"), deltas(START), error(ConnectionError())])
    outcome = await stage.play()
    assert outcome.lines == lines("""
        model_started
        reasoning_started
        reasoning_delta hm
        server_tool_started
        reasoning_completed
        server_tool_failed
        run_failed ConnectionError
    """)
    result = outcome.recorder.of("server_tool_failed")[0].server_tool_result
    assert result == ServerToolResult("w1", "web_search", error_code="interrupted")
    assert outcome.story == ["user hi"]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ([text("a"), end()], "without a response"),
        ([deltas(RESPONSE, ModelEvent.text("b"))], "went on after its response, with text_delta"),
        ([deltas(RESPONSE, RESPONSE)], "went on after its response"),
        ([deltas(ModelEvent(ModelEventType.RESPONSE)), end()], "carries nothing"),
        ([deltas(START)], "responded while server tools run: w1"),
        ([deltas(START, START)], "started twice"),
        ([deltas(ModelEvent.server_tool_input(ServerToolInputDelta("w1", "x")))], "has not started"),
        ([deltas(ModelEvent.server_tool_completed(ServerToolResult("w1", "web_search")))], "has not started"),
        (
            [deltas(START, ModelEvent.server_tool_failed(ServerToolResult("w1", "other")))],
            "under another name: 'other'",
        ),
        ([deltas(ModelEvent(ModelEventType.SERVER_TOOL_STARTED))], "carries nothing"),
        ([deltas(NO_ANSWER)], "hold an AssistantMessage"),
    ],
)
async def test_a_stream_that_breaks_the_protocol_fails_the_request(step: Any, says: str) -> None:
    outcome = await (await scene(step)).play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert says in str(outcome.error)
    assert outcome.lines[-1] == "run_failed AgentProtocolError"


async def test_a_model_that_raises_cancelled_error_of_its_own_fails_the_request() -> None:
    outcome = await (await scene([error(asyncio.CancelledError())])).play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert isinstance(outcome.error.__cause__, asyncio.CancelledError)
    assert outcome.lines[-1] == "run_failed AgentProtocolError"


async def test_the_model_stream_is_closed_when_the_request_fails() -> None:
    closed: list[str] = []

    class Model:
        retry = RetryOptions()

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            try:
                yield ModelEvent.text("a")
                yield ModelEvent(ModelEventType.RESPONSE)
            finally:
                closed.append("stream")

    outcome = await (await scene(model=Model())).play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert closed == ["stream"]


async def test_a_model_stream_needs_no_aclose() -> None:
    class Stream:
        def __init__(self) -> None:
            self.left = [ModelEvent.text("done"), RESPONSE]

        def __aiter__(self) -> Stream:
            return self

        async def __anext__(self) -> ModelEvent:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    class Model:
        retry = RetryOptions()

        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            return Stream()

    assert (await (await scene(model=Model())).play()).story == ["user hi", "assistant done"]


async def test_a_failed_call_without_text_leaves_only_the_input() -> None:
    stage = await scene([error(ConnectionError())], [call("add", left=1, right=1)], "done", tools=[add])
    assert (await stage.play()).story == ["user hi"]
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "call_model"
    assert (await stage.resume()).story == [
        "user hi",
        "assistant -> add(call_1)",
        "tool call_1 ok: 2",
        "assistant done",
    ]


async def test_core_18_a_message_that_failed_unanswered_is_replaced_by_the_next_one() -> None:
    stage = await scene([error(ConnectionError())], "done")
    await stage.play("first")
    assert (await stage.play("second")).story == ["user second", "assistant done"]


async def test_core_18_sending_a_failed_message_again_does_not_send_it_twice() -> None:
    stage = await scene([error(ConnectionError())], [error(ConnectionError())], "done", "again")
    await stage.play("hello")
    await stage.play("hello")
    await stage.play("hello")
    assert (await stage.play("more")).story == ["user hello", "assistant done", "user more", "assistant again"]
