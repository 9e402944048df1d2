"""Recorders of events and hooks, the clock, and the checks of what a request leaves behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.engine.scenario import add, boom, scene
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AnyMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ServerToolCall, ServerToolResult
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import (
    EventRecorder,
    HookEntry,
    HookRecorder,
    ManualClock,
    call,
    check_event_order,
    check_transcript,
    error,
    text,
)


async def test_a_recorder_shows_what_a_consumer_saw() -> None:
    stage = await scene([text("let me"), call("add", left=1, right=2)], "3", tools=[add])
    recorder = await EventRecorder().record(stage.agent.stream("hi"))
    assert recorder.types[0] == "model_started" and recorder.types[-1] == "run_completed"
    assert recorder.text == "let me3"
    assert recorder.answer == AssistantMessage(content="3")
    assert recorder.terminal is recorder.events[-1]
    assert [event.tool_calls[0].name for event in recorder.of("tool_started")] == ["add"]
    assert recorder.of(AgentEventType.TOOL_FAILED) == recorder.custom("x") == []


async def test_a_recorder_keeps_what_came_before_an_error() -> None:
    recorder = EventRecorder()
    stage = await scene([text("x"), error(ConnectionError("lost"))])
    with pytest.raises(ConnectionError):
        await recorder.record(stage.agent.stream("hi"))
    assert recorder.types[-1] == "run_failed" and recorder.answer is None


async def test_a_recorder_may_stop_early_and_close_the_stream() -> None:
    stage = await scene("done")
    recorder = await EventRecorder().record(stage.agent.stream("hi"), until="content_started")
    assert recorder.types == ["model_started", "content_started"]
    assert recorder.terminal is None and not stage.agent.pending


async def test_a_recorder_acts_once_for_each_action() -> None:
    seen: list[str] = []

    async def later(event: AgentEvent) -> None:
        seen.append(f"second {event.delta}")

    stage = await scene([text("a", "b", "c")])
    recorder = EventRecorder().when("text_delta", lambda event: seen.append(f"first {event.delta}"))
    await recorder.when("text_delta", later).record(stage.agent.stream("hi"))
    assert seen == ["first a", "second b"]


async def test_a_recorder_knows_only_types_of_events() -> None:
    with pytest.raises(ValueError, match="nothing"):
        EventRecorder().when("nothing", print)


async def test_hook_recorders_may_share_their_entries() -> None:
    entries: list[HookEntry] = []
    first = HookRecorder(entries=entries, name="first", notifications=False)
    second = HookRecorder(entries=entries, name="second", notifications=False)
    stage = await scene([call("boom")], "done", tools=[boom], extensions=[first, second])
    await stage.play()
    assert first.entries is second.entries is entries
    assert first.hooks[:2] == ["on_tool", "on_tool"]
    assert first.of("after_tool") == [HookEntry("after_tool", "ready", "boom")] * 2
    assert first.of("on_tool_call_end") == [("on_tool_call_end", "running_tool", "boom")] * 2
    assert first.of("on_event") == []


async def test_a_hook_recorder_overrides_every_hook() -> None:
    hooks = [name for name in vars(AgentExtension) if name.startswith(("on_", "before_", "after_", "authorize_"))]
    assert len(hooks) > 15
    missing = [name for name in hooks if name not in vars(HookRecorder)]
    assert missing == []


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    begin = clock.now()
    assert clock() == clock.now() == begin and begin.tzinfo is UTC and clock.monotonic() == 0
    assert clock.advance(90) == begin + timedelta(seconds=90)
    assert clock.monotonic() == 90
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    start = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert ManualClock(start).now() == start and ManualClock(start).now().tzinfo is UTC
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2030, 1, 1))


async def test_a_store_takes_a_manual_clock() -> None:
    clock = ManualClock()
    store = MemorySessionStore(clock=clock)
    lease = await store.claim("s", "r", ttl=30)
    assert lease.expires_at == clock.now() + timedelta(seconds=30)


USER = UserMessage(content="hi")


def batch(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=[ToolCall(call_id, "t") for call_id in ids])


def result(call_id: str) -> ToolMessage:
    return ToolMessage(tool_call_id=call_id, name="t", content="x")


@pytest.mark.parametrize(
    "messages", [[], [USER], [USER, batch("a", "b"), result("a"), result("b"), AssistantMessage(content="x")]]
)
def test_a_whole_transcript_passes(messages: list[AnyMessage]) -> None:
    check_transcript(messages)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([result("a")], "message 0 is a result of 'a', which no call waits for"),
        ([batch("a"), result("a"), result("a")], "message 2 is a result of 'a', which no call waits for"),
        ([batch("a", "b"), result("b")], "message 1 is a result of 'b'; 'a' comes first"),
        ([batch("a", "b"), result("a"), USER], r"message 2 \(user\) comes before the results of \['b'\]"),
        ([batch("a", "a")], "message 0 has calls with the same id"),
        ([USER, batch("a")], r"the messages end before the results of \['a'\]"),
    ],
)
def test_a_broken_transcript_is_named(messages: list[AnyMessage], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_transcript(messages)


def events(*kinds: str, **fields: Any) -> list[AgentEvent]:
    return [AgentEvent(AgentEventType(kind), "s", **fields) for kind in kinds]


def of_call(call_id: str, *kinds: str) -> list[AgentEvent]:
    return events(*kinds, tool_calls=[ToolCall(call_id, "t")])


STARTED = events("server_tool_started", server_tool_call=ServerToolCall("w", "web"))
FAILED = events("server_tool_failed", server_tool_result=ServerToolResult("w", "web"))


@pytest.mark.parametrize(
    "stream",
    [
        events("run_completed"),
        [*of_call("a", "tool_started"), *of_call("b", "tool_started", "tool_failed"), *of_call("a", "tool_completed"),
         *events("run_completed")],
        [*STARTED, *FAILED, *events("run_failed")],
        events("model_started", "steering_started", "run_cancelled"),
        events("reasoning_started", "reasoning_completed", "reasoning_started", "reasoning_completed", "run_completed"),
    ],
)  # fmt: skip
def test_a_whole_stream_passes(stream: list[AgentEvent]) -> None:
    check_event_order(stream)


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ([], "has no terminal event"),
        (
            events("run_completed", "run_completed"),
            r"event 1 \(run_completed\) follows the terminal event run_completed",
        ),
        (
            events("content_started", "content_started"),
            r"event 1 \(content_started\) starts what was started at event 0",
        ),
        (events("content_completed"), r"event 0 \(content_completed\) ends what was not started"),
        (of_call("a", "tool_started") + of_call("b", "tool_completed"), "ends what was not started"),
        (events("content_started", "run_failed"), r"event 0 \(content_started\) has no end before run_failed"),
        (events("model_started", "run_completed"), r"event 0 \(model_started\) has no end before run_completed"),
    ],
)
def test_a_broken_stream_is_named(stream: list[AgentEvent], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_event_order(stream)


async def test_the_recorder_closes_a_stream_that_it_leaves() -> None:
    closed: list[str] = []

    async def stream() -> AsyncIterator[AgentEvent]:
        try:
            yield events("model_started")[0]
            yield events("run_completed")[0]
        finally:
            closed.append("stream")

    await EventRecorder().record(stream(), until="model_started")
    assert closed == ["stream"]
