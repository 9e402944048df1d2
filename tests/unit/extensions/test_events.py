"""Notifications: what they hold and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from zett_agent.events import AgentPhase
from zett_agent.extensions.events import (
    InputReturnedEvent,
    InternalMessageEvent,
    MessageAppendedEvent,
    MessageTiming,
    PhaseTransitionEvent,
    ReasoningStartedEvent,
    SteeringMessageEvent,
)
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage
from zett_agent.model import ModelUsage

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def test_a_timing_may_have_a_reasoning_and_a_content_span() -> None:
    timing = MessageTiming(NOW, NOW, 1, NOW, NOW, 2, NOW, NOW, 3)
    assert (timing.duration_ns, timing.reasoning_duration_ns, timing.content_duration_ns) == (1, 2, 3)
    instant = MessageTiming.instant()
    assert instant.started_at == instant.completed_at and instant.duration_ns == 0
    assert instant.started_at.tzinfo is UTC and instant.content_started_at is None


@pytest.mark.parametrize("prefix", ["reasoning", "content"])
@pytest.mark.parametrize(
    "given",
    [
        ("started_at",),
        ("completed_at",),
        ("duration_ns",),
        ("started_at", "completed_at"),
        ("started_at", "duration_ns"),
        ("completed_at", "duration_ns"),
    ],
)
def test_a_span_is_whole_or_absent(prefix: str, given: tuple[str, ...]) -> None:
    values: dict[str, Any] = {"started_at": NOW, "completed_at": NOW, "duration_ns": 1}
    span = {f"{prefix}_{name}": values[name] for name in given}
    with pytest.raises(ValueError, match=f"{prefix}_started_at, {prefix}_completed_at and {prefix}_duration_ns"):
        MessageTiming(NOW, NOW, 0, **span)


def test_durations_are_not_negative() -> None:
    with pytest.raises(ValueError, match="duration_ns must not be negative"):
        MessageTiming(NOW, NOW, -1)
    with pytest.raises(ValueError, match="content_duration_ns must not be negative"):
        MessageTiming(NOW, NOW, 0, content_started_at=NOW, content_completed_at=NOW, content_duration_ns=-1)


def test_usage_belongs_to_an_answer() -> None:
    timing = MessageTiming.instant()
    assert MessageAppendedEvent(AssistantMessage(), timing, ModelUsage(1)).usage == ModelUsage(1)
    with pytest.raises(ValueError, match="usage belongs to an AssistantMessage"):
        MessageAppendedEvent(UserMessage(content="x"), timing, ModelUsage(1))


def test_input_notifications_hold_messages_of_their_kind() -> None:
    assert SteeringMessageEvent(UserMessage(content="x")).message.text == "x"
    assert InternalMessageEvent(AgentMessage(content="x")).counted
    for make, wrong in (
        (SteeringMessageEvent, AgentMessage(content="x")),
        (InternalMessageEvent, UserMessage(content="x")),
    ):
        with pytest.raises(TypeError, match="message must be a"):
            make(wrong)  # type: ignore[arg-type]


def test_boundaries_tell_the_time() -> None:
    event = ReasoningStartedEvent.now()
    assert isinstance(event, ReasoningStartedEvent)
    assert event.occurred_at.tzinfo is UTC and event.monotonic_ns > 0


def test_notifications_compare_by_value() -> None:
    first = PhaseTransitionEvent(AgentPhase.READY, AgentPhase.COMPLETED, NOW, 1)
    assert first == PhaseTransitionEvent(AgentPhase.READY, AgentPhase.COMPLETED, NOW, 1)
    assert InputReturnedEvent(()).messages == ()
