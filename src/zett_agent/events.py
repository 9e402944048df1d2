"""What a stream consumer sees, and the phases of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from zett_agent.messages import AgentMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import (
    ModelResponse,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
    ToolCallDelta,
)
from zett_agent.stop import StopInfo


class AgentPhase(StrEnum):
    """Where a request is in its life."""

    CREATED = "created"
    LOADING_CONTEXT = "loading_context"
    READY = "ready"
    COMPACTING = "compacting"
    GENERATING = "generating"
    RUNNING_TOOL = "running_tool"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def accepts_new_request(self) -> bool:
        """True before the first request and after each outcome."""
        return self in _IDLE


_IDLE = frozenset({AgentPhase.CREATED, AgentPhase.COMPLETED, AgentPhase.FAILED, AgentPhase.CANCELLED})


class AgentEventType(StrEnum):
    """The kinds of event; ``run_completed``, ``run_failed`` and ``run_cancelled`` are terminal."""

    COMPACTION_STARTED = "compaction_started"
    COMPACTION_TEXT_DELTA = "compaction_text_delta"
    COMPACTION_REASONING_DELTA = "compaction_reasoning_delta"
    COMPACTION_COMPLETED = "compaction_completed"
    MODEL_STARTED = "model_started"
    REASONING_STARTED = "reasoning_started"
    REASONING_DELTA = "reasoning_delta"
    REASONING_COMPLETED = "reasoning_completed"
    CONTENT_STARTED = "content_started"
    TEXT_DELTA = "text_delta"
    CONTENT_COMPLETED = "content_completed"
    TOOL_CALL_DELTA = "tool_call_delta"
    SERVER_TOOL_STARTED = "server_tool_started"
    SERVER_TOOL_INPUT_DELTA = "server_tool_input_delta"
    SERVER_TOOL_COMPLETED = "server_tool_completed"
    SERVER_TOOL_FAILED = "server_tool_failed"
    MODEL_COMPLETED = "model_completed"
    MODEL_STOPPED = "model_stopped"
    TOOL_STARTED = "tool_started"
    TOOL_COMPLETED = "tool_completed"
    TOOL_FAILED = "tool_failed"
    TOOL_SKIPPED = "tool_skipped"
    STEERING_STARTED = "steering_started"
    STEERING_COMPLETED = "steering_completed"
    STEERING_INTERRUPTED = "steering_interrupted"
    INTERNAL_MESSAGE_STARTED = "internal_message_started"
    INTERNAL_MESSAGE_COMPLETED = "internal_message_completed"
    INTERNAL_MESSAGE_INTERRUPTED = "internal_message_interrupted"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    CUSTOM = "custom"


class ExtensionEvent:
    """Base of notifications: what extensions tell each other; never streamed by itself."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CompactionEvent(ExtensionEvent):
    """A summary replaced a range of the history.

    The positions are 1-based and inclusive over the list of non-system messages before the compaction.
    """

    compressed_from: int
    compressed_to: int
    kept_from: int
    kept_to: int
    summary: str


@dataclass(slots=True)
class AgentEvent:
    """One event of a stream. ``phase`` is stamped by the runtime; CUSTOM events need a ``name``."""

    type: AgentEventType
    session_id: str
    phase: AgentPhase | None = None
    delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    server_tool_call: ServerToolCall | None = None
    server_tool_input_delta: ServerToolInputDelta | None = None
    server_tool_result: ServerToolResult | None = None
    response: ModelResponse | None = None
    stop: StopInfo | None = None
    message: AssistantMessage | ToolMessage | None = None
    internal_message: AgentMessage | None = None
    steering_message: UserMessage | None = None
    error: BaseException | None = None
    compaction: CompactionEvent | None = None
    applied: bool | None = None
    name: str | None = None
    payload: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.type is AgentEventType.CUSTOM and not (self.name and self.name.strip()):
            raise ValueError("a CUSTOM event needs a non-blank name")


TERMINAL_EVENTS = frozenset({AgentEventType.RUN_COMPLETED, AgentEventType.RUN_FAILED, AgentEventType.RUN_CANCELLED})
