"""Closing a stream and cancelling the task that iterates it: what is left is whole, and nothing runs on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import pytest

from tests.engine.conftest import Leap
from tests.engine.scenario import Scene, add, alone, lines, named, scene, spin, story
from zett_agent._runtime.supervisor import STOP_BOUND
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, RunCancelledEvent
from zett_agent.messages import ToolCall
from zett_agent.model import ModelEvent, ModelRequest, RetryOptions
from zett_agent.testing import EventRecorder, HookRecorder, call, stall, text
from zett_agent.tools.base import tool

BEFORE = "failed: Not run: the request was stopped first."
LOST = "failed: It ran to its end, but its result was lost: an extension that looked at it failed, or was stopped."
WITHIN = "failed: Stopped while it ran: what it had done by then, or still does, is not known."


def endless(log: list[str] | None = None) -> Any:
    """A tool that ends only when it is cancelled."""

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if log is not None:
                log.append("ended")

    return named("wait", wait)


async def closed_at(stage: Scene, kind: str) -> list[str]:
    """Close the stream at the first event of a type; the history that is left."""
    before = asyncio.all_tasks()
    await EventRecorder().record(stage.agent.stream("hi"), until=kind)
    assert asyncio.all_tasks() == before
    assert stage.agent.state.phase is AgentPhase.CANCELLED
    assert not stage.agent.pending
    stage.check_messages()
    return story(stage.agent.state.messages)


async def test_cancel_04_closing_within_the_text_keeps_it_as_an_interrupted_answer() -> None:
    hooks = HookRecorder()
    stage = await scene([text("partial "), stall()], extensions=[hooks])
    assert await closed_at(stage, "text_delta") == ["user hi", "assistant partial  [interrupted]"]
    assert [entry.detail for entry in hooks.entries[-3:]] == lines("""
        MessageAppended(assistant)
        generating->cancelled
        RunCancelled
    """)
    assert hooks.of("on_error") == [] and hooks.of("after_run") == []


async def test_closing_before_the_model_says_anything_leaves_the_input() -> None:
    stage = await scene([stall()])
    assert await closed_at(stage, "model_started") == ["user hi"]


async def test_cancel_01_closing_at_tool_started_runs_no_call_and_closes_all() -> None:
    ran: list[str] = []

    async def act() -> None:
        ran.append("act")

    stage = await scene([call("act", id="a"), call("alone", id="b")], tools=[named("act", act), alone])
    assert await closed_at(stage, "tool_started") == [
        "user hi",
        "assistant -> act(a), alone(b)",
        f"tool a {BEFORE}",
        f"tool b {BEFORE}",
    ]
    assert ran == []


async def test_cancel_01_closing_within_a_tool_says_that_its_outcome_is_not_known() -> None:
    log: list[str] = []
    stage = await scene([call("add", id="a", left=1, right=1), call("wait", id="w")], tools=[add, endless(log)])
    assert await closed_at(stage, "tool_completed") == [
        "user hi",
        "assistant -> add(a), wait(w)",
        "tool a ok: 2",
        f"tool w {WITHIN}",
    ]
    assert log == ["ended"]


async def test_a_consumer_that_closes_after_the_terminal_event_changes_nothing() -> None:
    stage = await scene("done")
    await EventRecorder().record(stage.agent.stream("hi"), until="run_completed")
    assert stage.agent.state.phase is AgentPhase.COMPLETED


async def test_cancelling_the_consumers_task_reaches_the_tool_and_is_raised() -> None:
    log: list[str] = []
    stage = await scene([call("wait", id="w")], tools=[endless(log)])
    recorder = EventRecorder()
    request = asyncio.create_task(recorder.record(stage.agent.stream("hi")))
    while "tool_started" not in recorder.types:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert log == ["ended"]
    assert story(stage.agent.state.messages)[-1] == f"tool w {WITHIN}"
    assert recorder.terminal is None, "who leaves sees nothing more"


async def test_a_timeout_around_run_cancels_the_request() -> None:
    stage = await scene([stall()])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await stage.agent.run("hi")
    assert not stage.agent.pending


@pytest.mark.parametrize("hook", ["on_tool", "on_state", "on_message", "before_run", "before_turn", "before_model"])
async def test_cancelling_within_a_hook_cancels_the_request(hook: str) -> None:
    reached, recorder = asyncio.Event(), HookRecorder()

    async def wait(*arguments: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    slow = AgentExtension()
    setattr(slow, hook, wait)
    stage = await scene("never", extensions=[slow, recorder])
    request = asyncio.create_task(stage.agent.run("hi"))
    await reached.wait()
    phase = stage.agent.state.phase.value
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert [entry.detail for entry in recorder.entries[-2:]] == [f"{phase}->cancelled", "RunCancelled"]
    assert not stage.agent.pending and not slow.pending


@pytest.mark.parametrize("hook", ["before_tool", "after_tool"])
async def test_cancelling_within_a_hook_of_a_call_closes_the_call(hook: str) -> None:
    reached = asyncio.Event()

    async def wait(*arguments: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    slow = AgentExtension()
    setattr(slow, hook, wait)
    stage = await scene([call("add", id="a", left=1, right=1)], tools=[add], extensions=[slow])
    request = asyncio.create_task(stage.agent.run("hi"))
    await reached.wait()
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    stage.check_messages()
    assert story(stage.agent.state.messages)[-1] == f"tool a {BEFORE if hook == 'before_tool' else LOST}"


async def test_cancelling_within_on_error_does_not_undo_the_failure() -> None:
    reached = asyncio.Event()

    class Slow(AgentExtension):
        async def on_state(self, context: AgentRunContext) -> None:
            raise RuntimeError("first")

        async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
            reached.set()
            await asyncio.Event().wait()

    stage = await scene(extensions=[Slow()])
    request = asyncio.create_task(stage.agent.run("hi"))
    await reached.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert stage.agent.state.phase is AgentPhase.FAILED
    assert not stage.agent.pending


async def test_a_session_goes_on_after_a_cancel() -> None:
    stage = await scene([call("wait", id="w")], "done", tools=[endless()])
    await closed_at(stage, "tool_started")
    outcome = await stage.play("go on")
    assert outcome.story == ["user hi", "assistant -> wait(w)", f"tool w {BEFORE}", "user go on", "assistant done"]


async def test_core_2_a_hook_may_emit_while_the_request_is_being_cancelled() -> None:
    emitted: list[str] = []

    class Emits(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, RunCancelledEvent):
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="bye"))
                emitted.append("bye")

    stage = await scene([stall()], extensions=[Emits()])
    await closed_at(stage, "model_started")
    assert emitted == ["bye"]


async def test_core_15_core_39_a_sync_tool_learns_that_nobody_waits_for_it() -> None:
    started, told = threading.Event(), threading.Event()

    @tool
    def slow(context: ToolContext) -> str:
        """Wait until told."""
        started.set()
        while not context.cancelled:
            pass
        told.set()
        return "late"

    stage = await scene([call("slow", id="a")], "done", tools=[slow])
    request = asyncio.create_task(stage.agent.run("hi"))
    while not started.is_set():
        await asyncio.sleep(0)
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    assert await asyncio.to_thread(told.wait, 5)
    assert story(stage.agent.state.messages)[-1] == f"tool a {WITHIN}"


async def test_cancel_04_a_stalled_model_stream_is_closed_and_awaited() -> None:
    log: list[str] = []

    class Model:
        retry = RetryOptions()

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            try:
                yield ModelEvent.text("a")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                log.append("connection closed")

    stage = await scene(model=Model())
    await closed_at(stage, "text_delta")
    assert log == ["connection closed"]


async def test_a_tool_that_refuses_to_end_is_named_and_left(caplog: pytest.LogCaptureFixture, leap: Leap) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    stage = await scene([call("stubborn", id="x")], tools=[named("stubborn", stubborn)])
    recorder = EventRecorder()
    with caplog.at_level(logging.ERROR, "zett_agent"):
        request = asyncio.create_task(recorder.record(stage.agent.stream("hi")))
        while "tool_started" not in recorder.types:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        request.cancel()
        await spin()
        leap(STOP_BOUND)
        with suppress(asyncio.CancelledError):
            await request
    release.set()
    await spin()
    assert "zett call x did not stop within" in caplog.text
    assert not stage.agent.pending
    assert story(stage.agent.state.messages)[-1] == f"tool x {WITHIN}"


async def test_calls_that_wait_for_a_place_never_start() -> None:
    started: list[str] = []

    async def act() -> None:
        started.append("act")
        await asyncio.Event().wait()

    stage = await scene([call("act", id="a"), call("act", id="b")], tools=[named("act", act)], max_parallel_calls=1)
    request = asyncio.create_task(stage.agent.run("hi"))
    while not started:
        await asyncio.sleep(0)
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    assert story(stage.agent.state.messages)[2:] == [f"tool a {WITHIN}", f"tool b {BEFORE}"]


async def test_breaking_out_of_the_loop_without_closing_is_cleaned_up_by_aclosing() -> None:
    stage = await scene([text("a"), stall()])
    async with aclosing(stage.agent.stream("hi")) as events:  # type: ignore[type-var]
        async for _ in events:
            break
    assert not stage.agent.pending


async def test_a_stream_that_was_never_started_claims_nothing() -> None:
    stage = await scene()
    stream = stage.agent.stream("hi")
    assert not stage.agent.pending
    await stream.aclose()  # type: ignore[attr-defined]
    assert not stage.agent.pending


class Held(AgentExtension):
    """Holds the first call until cancelled."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        await asyncio.Event().wait()


async def test_a_second_cancel_while_the_first_is_under_way_does_not_break_the_history() -> None:
    class SlowToEnd(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, RunCancelledEvent):
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    stage = await scene([call("add", id="a", left=1, right=1)], tools=[add], extensions=[Held(), SlowToEnd()])
    request = asyncio.create_task(stage.agent.run("hi"))
    while stage.agent.state.phase != "ready" or len(stage.agent.state.messages) < 2:
        await asyncio.sleep(0)
    for _ in range(6):
        request.cancel()
        await asyncio.sleep(0)
    with suppress(asyncio.CancelledError):
        await request
    assert stage.agent.state.phase is AgentPhase.CANCELLED
    assert not stage.agent.pending
    stage.check_messages()
