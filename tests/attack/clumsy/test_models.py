"""A model that yields what no model may yield, or calls with what is no JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import WRONG, Says, answered, history, hooked, look, made, played
from zett_agent.exceptions import AgentProtocolError
from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.model import ModelEvent, ModelEventType, ModelRequest, ModelResponse, ServerToolCall
from zett_agent.testing import check_transcript

TEXT = ModelEvent.text("a")
SEARCH = ModelEvent.server_tool_started(ServerToolCall("c", "search"))
NO_EVENTS: dict[str, list[Any]] = {
    "none": [None],
    "none-later": [TEXT, TEXT, None],
    "str": ["hello"],
    "type": [ModelEvent(WRONG)],
    "response": [ModelEvent.completed(WRONG)],
    "no-response": [ModelEvent(ModelEventType.RESPONSE)],
    "content-list": [answered(content=["x"])],
    "content-bytes": [answered(content=b"x")],
    "content-none": [answered(content=None)],
    "reasoning": [answered(reasoning=b"x")],
    "calls-int": [answered(tool_calls=[1])],
    "calls-str": [answered(tool_calls="abc")],
    "calls-number": [answered(tool_calls=5)],
    "delta": [ModelEvent.text(WRONG), answered(content="fine")],
    "delta-later": [TEXT, ModelEvent.text(WRONG), answered(content="fine")],
    "reasoning-delta": [ModelEvent.reasoning(WRONG), answered(content="fine")],
    "call-delta": [ModelEvent.tool_call(WRONG), answered(content="fine")],
    "server-tool": [ModelEvent.server_tool_started(WRONG), answered(content="fine")],
    "server-input": [
        ModelEvent.server_tool_started(ServerToolCall("c", "search")),
        ModelEvent.server_tool_input(WRONG),
    ],
    "server-result": [ModelEvent.server_tool_completed(WRONG), answered(content="fine")],
}


@pytest.mark.parametrize("events", NO_EVENTS.values(), ids=NO_EVENTS)
async def test_rule_1_what_is_no_model_event_fails_the_request_with_a_protocol_error(events: list[Any]) -> None:
    agent = await made(Says(*events))
    _, failure = await played(agent)
    assert isinstance(failure, AgentProtocolError) and str(failure)
    _, failure = await played(agent)
    assert failure is None
    check_transcript(history(agent))


async def test_an_attribute_error_of_the_model_itself_stays_what_it_is() -> None:
    class Broken(Says):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield TEXT
            yield WRONG.missing

    _, failure = await played(await made(Broken()))
    assert isinstance(failure, AttributeError) and "missing" in str(failure)


async def test_a_model_whose_stream_is_a_coroutine_is_told_what_it_should_be() -> None:
    class Returns(Says):
        def stream(self, request: ModelRequest) -> Any:
            return [TEXT]

    _, failure = await played(await made(Returns()))
    assert isinstance(failure, AgentProtocolError) and "async generator" in str(failure)


async def test_a_delta_that_is_no_text_does_not_hide_the_error_that_came_behind_it() -> None:
    _, failure = await played(await made(Says(TEXT, ModelEvent.text(WRONG), None)))
    assert isinstance(failure, AgentProtocolError) and "ModelEvent" in str(failure)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
ARGUMENTS: dict[str, dict[Any, Any]] = {
    "deep": nested(10_000),
    "deep-enough": nested(150),
    "cycle": CYCLE,
    "object": {"at": object()},
    "nested-object": {"at": [{"x" * 400: object()}]},
    "bytes": {"at": b"x"},
    "tuple": {"at": (1, 2)},
    "nan": {"at": float("nan")},
    "infinity": {"at": [float("inf")]},
    "digits": {"at": 10**5000},
    "keys": {1: 2},
}


@pytest.mark.parametrize("name", ["look", "unknown"])
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
async def test_rule_1_arguments_that_are_no_json_fail_their_call_and_stay_out_of_the_history(
    arguments: dict[Any, Any], name: str
) -> None:
    calls = [ToolCall("a", "look", {"at": 1}), ToolCall("b", name, arguments), ToolCall("c", "look", {"at": [2.5, -1]})]
    agent = await made(Says(answered(tool_calls=calls)), tools=[look])
    _, failure = await played(agent)
    kept = [call.arguments for message in history(agent) for call in getattr(message, "tool_calls", ())]
    results = [message for message in history(agent) if message.role == "tool"]
    assert failure is None and json.loads(json.dumps(kept, allow_nan=False)) == kept
    assert kept == [{"at": 1}, {}, {"at": [2.5, -1]}]
    assert [result.success for result in results] == [True, False, True] and len(results[1].text) < 500
    check_transcript(history(agent))


async def test_rule_1_a_model_that_edits_the_arguments_it_sent_edits_no_history() -> None:
    sent: dict[str, Any] = {"at": {"deep": [1]}}
    agent = await made(Says(answered(tool_calls=[ToolCall("a", "look", sent)])), tools=[look])
    await played(agent)
    sent["at"]["deep"].append(object())
    assert history(agent)[2].tool_calls[0].arguments == {"at": {"deep": [1]}}


async def test_a_very_long_name_of_a_tool_is_not_said_back_whole() -> None:
    agent = await made(Says(answered(tool_calls=[ToolCall("a", "x" * 100_000)])), tools=[look])
    await played(agent)
    assert "There is no tool named 'xxx" in history(agent)[-2].text and len(history(agent)[-2].text) < 250


@pytest.mark.parametrize("field", ["message", "stop", "finish_reason"])
def test_a_response_checks_what_it_is_made_of(field: str) -> None:
    fields: dict[str, Any] = {"message": AssistantMessage(), field: WRONG}
    with pytest.raises(TypeError, match=f"{field} must be a.*, not object"):
        ModelResponse(**fields)


async def test_an_answer_that_a_hook_of_the_stream_has_broken_is_refused() -> None:
    async def broken(context: Any, request: Any, call_next: Any) -> AsyncIterator[Any]:
        async for event in call_next(request):
            yield event.response

    _, failure = await played(await made(Says(), extensions=[hooked("on_model_request", broken)]))
    assert isinstance(failure, AgentProtocolError) and "ModelResponse" in str(failure)
