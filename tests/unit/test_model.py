"""The model protocol: what its values refuse, and the constructors of its events."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    AgentModel,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    RetryOptions,
    ServerToolCall,
    ServerToolDefinition,
    ServerToolInputDelta,
    ServerToolResult,
    TimeoutOptions,
    ToolCallDelta,
    validate_response,
    validate_retry,
    validate_timeout,
)
from zett_agent.stop import StopInfo, StopReason


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ServerToolDefinition(" "), "type must not be blank"),
        (lambda: ServerToolDefinition("web", {"type": "x"}), "must not contain 'type'"),
        (lambda: ServerToolCall("", "web"), "id must not be blank"),
        (lambda: ServerToolCall("1", " "), "name must not be blank"),
        (lambda: ServerToolInputDelta("", "x"), "must not be empty"),
        (lambda: ServerToolInputDelta("1", ""), "must not be empty"),
        (lambda: ServerToolResult(" ", "web"), "call_id must not be blank"),
        (lambda: ServerToolResult("1", ""), "name must not be blank"),
        (lambda: ModelRequest((), parallel_tool_call=1), "must be a bool"),  # type: ignore[arg-type]
        (lambda: ModelRequest((), cache_key=" "), "cache_key must not be blank"),
        (lambda: ToolCallDelta(-1, "x"), "index must be at least 0"),
        (lambda: ToolCallDelta(0), "at least one fragment"),
    ],
)
def test_values_refuse_what_makes_no_sense(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("field", ["base_delay", "max_delay"])
@pytest.mark.parametrize("value", [-1, math.inf, math.nan, True, "1"])
def test_retry_delays_are_finite_seconds(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        RetryOptions(**{field: value})


@pytest.mark.parametrize("value", [-1, 1.5, True, "3"])
def test_retries_are_counted(value: Any) -> None:
    with pytest.raises(ValueError, match="max_retries"):
        RetryOptions(max_retries=value)


@pytest.mark.parametrize("field", ["connect", "first_byte", "idle"])
@pytest.mark.parametrize("value", [0, -1, math.inf, False])
def test_timeouts_are_seconds_above_zero_or_none(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        TimeoutOptions(**{field: value})
    assert getattr(TimeoutOptions(**{field: None}), field) is None


def test_the_defaults_are_fine() -> None:
    assert RetryOptions(0.25, 8.0, 3) == DEFAULT_RETRY_OPTIONS
    assert TimeoutOptions(5.0, 60.0, 600.0) == DEFAULT_TIMEOUT_OPTIONS


def test_validators_return_what_is_right_and_refuse_the_rest() -> None:
    assert validate_retry(DEFAULT_RETRY_OPTIONS) is DEFAULT_RETRY_OPTIONS
    assert validate_timeout(DEFAULT_TIMEOUT_OPTIONS) is DEFAULT_TIMEOUT_OPTIONS
    assert validate_response(True) is True
    for validate in (validate_retry, validate_timeout, validate_response):
        with pytest.raises(ValueError, match="must be"):
            validate("x")


@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": -1},
        {"output_tokens": -1},
        {"reasoning_tokens": -1},
        {"cache_read_tokens": 1},
        {"cache_write_tokens": 1},
        {"cache_read_tokens": -1},
        {"cache_write_tokens": -1},
        {"output_tokens": 1, "reasoning_tokens": 2},
    ],
)
def test_usage_must_add_up(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        ModelUsage(**counts)  # type: ignore[arg-type]


def test_usage_sums_and_rates() -> None:
    usage = ModelUsage(100, 20, cache_read_tokens=80)
    assert (usage.total_tokens, usage.cache_hit_rate) == (120, 0.8)
    assert ModelUsage().cache_hit_rate is None
    assert ModelUsage(100, cache_reported=False).cache_hit_rate is None


def test_the_stop_of_a_response_is_derived_unless_it_is_given() -> None:
    calls = AssistantMessage(tool_calls=(ToolCall("1", "x"),))
    assert ModelResponse(AssistantMessage()).stop == StopInfo(StopReason.END_TURN)
    assert ModelResponse(calls, "stop").stop == StopInfo(StopReason.TOOL_USE, "stop")
    given = StopInfo(StopReason.OTHER)
    assert ModelResponse(calls, "stop", stop=given).stop is given


def test_each_constructor_of_an_event_fills_its_field() -> None:
    call, result = ServerToolCall("1", "web"), ServerToolResult("1", "web")
    delta, fragment = ServerToolInputDelta("1", "x"), ToolCallDelta(0, "1")
    response = ModelResponse(AssistantMessage())
    made = [
        (ModelEvent.text("a"), "text_delta", "delta", "a"),
        (ModelEvent.reasoning("b"), "reasoning_delta", "delta", "b"),
        (ModelEvent.tool_call(fragment), "tool_call_delta", "tool_call_delta", fragment),
        (ModelEvent.server_tool_started(call), "server_tool_started", "server_tool_call", call),
        (ModelEvent.server_tool_input(delta), "server_tool_input_delta", "server_tool_input_delta", delta),
        (ModelEvent.server_tool_completed(result), "server_tool_completed", "server_tool_result", result),
        (ModelEvent.server_tool_failed(result), "server_tool_failed", "server_tool_result", result),
        (ModelEvent.completed(response), "response", "response", response),
    ]
    for event, kind, field, value in made:
        assert event.type == kind and getattr(event, field) is value


def test_a_model_is_whatever_streams() -> None:
    class Model:
        retry = RetryOptions()

        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            raise NotImplementedError

    assert isinstance(Model(), AgentModel)
    assert not isinstance(object(), AgentModel)
