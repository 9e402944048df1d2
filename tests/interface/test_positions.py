"""Where a value's fields stand: the golden file of the public surface sorts them, programs give them by position."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from zett_agent import events, messages, model, stop, waits
from zett_agent.config import AgentRunConfig
from zett_agent.extensions import events as notifications
from zett_agent.extensions.async_subagent import SubAgentTask
from zett_agent.extensions.subagent import SubAgentDefinition
from zett_agent.resume import ResumePoint
from zett_agent.tools import AgentTool

_EVENT = (
    "type session_id phase delta tool_call_delta tool_calls server_tool_call server_tool_input_delta"
    " server_tool_result response stop message internal_message steering_message error compaction applied name payload"
)
_TIMING = (
    "started_at completed_at duration_ns reasoning_started_at reasoning_completed_at reasoning_duration_ns"
    " content_started_at content_completed_at content_duration_ns"
)
_TOOL = "name description parameters handler guidelines snippet return_schema execution_mode deferred local_tool_search"
_TASK = (
    "task_id parent_session_id session_id subagent_type description prompt status started_at finished_at content stop"
    " error notified"
)

# What the interface gives by position; fields of our own may follow.
POSITIONS: list[tuple[Callable[..., object], str]] = [
    (AgentRunConfig, "session_id request_id parent_session_id cache_key"),
    (AgentTool, _TOOL),
    (ResumePoint, "kind description unanswered_tool_calls stop"),
    (SubAgentDefinition, "name description system_prompt model tools extensions reasoning_effort max_iterations"),
    (SubAgentTask, _TASK),
    (events.AgentEvent, _EVENT),
    (messages.TextContent, "text"),
    (messages.ImageUrlSource, "url"),
    (messages.ImageBytesSource, "data media_type"),
    (messages.ImageContent, "source detail alt_text"),
    (messages.ToolCall, "id name arguments error"),
    (model.ToolDefinition, "name description parameters deferred local_tool_search"),
    (model.ServerToolDefinition, "type configuration"),
    (model.ServerToolCall, "id name input"),
    (model.ServerToolInputDelta, "call_id delta"),
    (model.ServerToolResult, "call_id name output error_code"),
    (
        model.ModelRequest,
        "messages tools server_tools reasoning_effort tool_choice parallel_tool_call cache_key",
    ),
    (model.RetryOptions, "base_delay max_delay max_retries"),
    (model.TimeoutOptions, "connect first_byte idle"),
    (
        model.ModelUsage,
        "input_tokens output_tokens cache_read_tokens cache_write_tokens cache_reported reasoning_tokens",
    ),
    (model.ModelResponse, "message finish_reason usage stop"),
    (model.ToolCallDelta, "index id_delta name_delta arguments_delta"),
    (
        model.ModelEvent,
        "type delta tool_call_delta server_tool_call server_tool_input_delta server_tool_result response",
    ),
    (notifications.MessageTiming, _TIMING),
    (notifications.MessageAppendedEvent, "message timing usage"),
    (notifications.InternalMessageEvent, "message"),
    (notifications.SteeringMessageEvent, "message"),
    (notifications.PhaseTransitionEvent, "previous_phase current_phase occurred_at monotonic_ns"),
    (notifications.RunCancelledEvent, "previous_phase occurred_at monotonic_ns"),
    (notifications.ReasoningStartedEvent, "occurred_at monotonic_ns"),
    (notifications.CompactionEvent, "compressed_from compressed_to kept_from kept_to summary"),
    (stop.StopInfo, "reason raw category message recommended_model detail"),
    (waits.ExternalEvent, "name payload"),
]


@pytest.mark.parametrize(("make", "names"), POSITIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_fields_stand_where_programs_give_them_by_position(make: Callable[..., object], names: str) -> None:
    expected = names.split()
    parameters = list(inspect.signature(make).parameters.values())[: len(expected)]
    assert [parameter.name for parameter in parameters] == expected
    assert all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)


@pytest.mark.parametrize(
    "make",
    [
        messages.SystemMessage,
        messages.UserMessage,
        messages.AssistantMessage,
        messages.ToolMessage,
        messages.AgentMessage,
    ],
)
def test_messages_are_made_by_keyword_only(make: Callable[..., object]) -> None:
    assert {parameter.kind for parameter in inspect.signature(make).parameters.values()} == {
        inspect.Parameter.KEYWORD_ONLY
    }
