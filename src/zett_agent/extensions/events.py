"""Notifications: what the runtime and the extensions tell each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Self

from zett_agent.events import AgentPhase, CompactionEvent, ExtensionEvent
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, UserMessage, check_message
from zett_agent.model import ModelUsage

__all__ = [
    "CompactionEvent",
    "ContentCompletedEvent",
    "ContentStartedEvent",
    "ExtensionEvent",
    "InputReturnedEvent",
    "InternalMessageEvent",
    "MessageAppendedEvent",
    "MessageTiming",
    "ModelOutputLifecycleEvent",
    "PhaseTransitionEvent",
    "ReasoningCompletedEvent",
    "ReasoningStartedEvent",
    "RunCancelledEvent",
    "SteeringMessageEvent",
]


@dataclass(frozen=True, slots=True)
class MessageTiming:
    """When a message was made: aware UTC times and durations in nanoseconds; each optional trio is whole or absent."""

    started_at: datetime
    completed_at: datetime
    duration_ns: int
    reasoning_started_at: datetime | None = None
    reasoning_completed_at: datetime | None = None
    reasoning_duration_ns: int | None = None
    content_started_at: datetime | None = None
    content_completed_at: datetime | None = None
    content_duration_ns: int | None = None

    def __post_init__(self) -> None:
        if self.duration_ns < 0:
            raise ValueError("duration_ns must not be negative")
        _trio("reasoning", self.reasoning_started_at, self.reasoning_completed_at, self.reasoning_duration_ns)
        _trio("content", self.content_started_at, self.content_completed_at, self.content_duration_ns)

    @classmethod
    def instant(cls) -> Self:
        """The timing of a message that took no time."""
        now = datetime.now(UTC)
        return cls(now, now, 0)


def _trio(name: str, started: datetime | None, completed: datetime | None, duration: int | None) -> None:
    if started is None and completed is None and duration is None:
        return
    if started is None or completed is None or duration is None:
        raise ValueError(f"{name}_started_at, {name}_completed_at and {name}_duration_ns go together")
    if duration < 0:
        raise ValueError(f"{name}_duration_ns must not be negative")


@dataclass(frozen=True, slots=True)
class MessageAppendedEvent(ExtensionEvent):
    """A message joined the history of a request; never sent for restored history."""

    message: AnyMessage
    timing: MessageTiming
    usage: ModelUsage | None = None

    def __post_init__(self) -> None:
        if self.usage is not None and not isinstance(self.message, AssistantMessage):
            raise ValueError("usage belongs to an AssistantMessage only")


@dataclass(frozen=True, slots=True)
class InternalMessageEvent(ExtensionEvent):
    """Ask for one more model step; ``counted=False`` when the publisher keeps a bound of its own."""

    message: AgentMessage
    counted: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.message, AgentMessage):
            raise TypeError(f"message must be an AgentMessage, not {type(self.message).__name__}")
        check_message(self.message)


@dataclass(frozen=True, slots=True)
class SteeringMessageEvent(ExtensionEvent):
    """Redirect the request with a user message."""

    message: UserMessage

    def __post_init__(self) -> None:
        if not isinstance(self.message, UserMessage):
            raise TypeError(f"message must be a UserMessage, not {type(self.message).__name__}")
        check_message(self.message)


@dataclass(frozen=True, slots=True)
class InputReturnedEvent(ExtensionEvent):
    """Input that was accepted and never reached the model, because the request failed or was cancelled."""

    messages: tuple[UserMessage | AgentMessage, ...]


@dataclass(frozen=True, slots=True)
class PhaseTransitionEvent(ExtensionEvent):
    """The request passed from one phase to another."""

    previous_phase: AgentPhase
    current_phase: AgentPhase
    occurred_at: datetime
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class RunCancelledEvent(ExtensionEvent):
    """The request was cancelled in ``previous_phase``."""

    previous_phase: AgentPhase
    occurred_at: datetime
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class ModelOutputLifecycleEvent(ExtensionEvent):
    """A boundary in the model's output."""

    occurred_at: datetime
    monotonic_ns: int

    @classmethod
    def now(cls) -> Self:
        """The boundary as of now."""
        return cls(datetime.now(UTC), monotonic_ns())


class ReasoningStartedEvent(ModelOutputLifecycleEvent):
    """A stretch of reasoning began."""

    __slots__ = ()


class ReasoningCompletedEvent(ModelOutputLifecycleEvent):
    """A stretch of reasoning ended."""

    __slots__ = ()


class ContentStartedEvent(ModelOutputLifecycleEvent):
    """The answer's text began."""

    __slots__ = ()


class ContentCompletedEvent(ModelOutputLifecycleEvent):
    """The answer's text ended."""

    __slots__ = ()
