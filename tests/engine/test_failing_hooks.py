"""What each failing hook does to the history, the phase and the claim (core.md section 11, docs/design/001)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.engine.scenario import Scene, add, lines, named, scene
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent, PhaseTransitionEvent
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent
from zett_agent.testing import HookRecorder, call, deltas, error, text

CALLED = ["user hi", "assistant -> add(a)"]
BEFORE = "tool a failed: Not run: the request was stopped first."
RESULT = "tool a ok: 2"
KEPT = {
    "on_tool": [],
    "on_state": [],
    "on_message": [],
    "before_run": ["user hi"],
    "before_turn": ["user hi"],
    "before_model": ["user hi"],
    "on_model_request": ["user hi"],
    "after_model": [*CALLED, BEFORE],
    "before_tool": [*CALLED, BEFORE],
    "after_turn": [*CALLED, RESULT],
    "after_run": [*CALLED, RESULT, "assistant done"],
    "on_success": [*CALLED, RESULT, "assistant done"],
}


class Failing(AgentExtension):
    """Raises in one hook."""

    def __init__(self, hook: str, failure: BaseException) -> None:
        async def fail(*arguments: Any) -> None:
            raise failure

        async def fail_streaming(*arguments: Any) -> AsyncIterator[ModelEvent]:
            raise failure
            yield ModelEvent.text("never")

        setattr(self, hook, fail_streaming if hook == "on_model_request" else fail)


async def failing(hook: str, failure: BaseException, *more: AgentExtension) -> Scene:
    steps = [[call("add", id="a", left=1, right=1)], "done"]
    return await scene(*steps, tools=[add], extensions=[Failing(hook, failure), *more])


@pytest.mark.parametrize("hook", KEPT)
async def test_hooks_01_a_failing_hook_fails_the_request_with_the_same_exception(hook: str) -> None:
    failure, after = RuntimeError("hook"), HookRecorder()
    stage = await failing(hook, failure, after)
    outcome = await stage.play()
    assert outcome.error is failure
    assert outcome.story == KEPT[hook]
    assert outcome.lines[-1] == "run_failed RuntimeError"
    assert stage.agent.state.phase is AgentPhase.FAILED
    assert not stage.agent.pending and not after.pending
    assert [entry.phase for entry in after.of("on_error")] == ["failed"]
    if hook not in ("on_model_request",):
        assert hook not in after.hooks, "the first error stops the rest of that hook"


@pytest.mark.parametrize("hook", KEPT)
async def test_the_session_goes_on_after_a_failing_hook(hook: str) -> None:
    stage = await failing(hook, RuntimeError("hook"))
    await stage.play()
    broken = stage.agent.extensions[1]
    assert isinstance(broken, Failing)
    delattr(broken, hook)
    after = await scene("fine", extensions=[stage.agent.extensions[0]], memory=False)
    outcome = await after.play("again")
    assert outcome.error is None
    assert outcome.story[-2:] == ["user again", "assistant fine"]


async def test_core_13_after_tool_failing_closes_its_call_and_keeps_its_siblings() -> None:
    class Picky(AgentExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            if call.id == "a":
                raise RuntimeError("hook")

    stage = await scene(
        [call("add", id="a", left=1, right=1), call("add", id="b", left=2, right=2)],
        "done",
        tools=[add],
        extensions=[Picky()],
    )
    outcome = await stage.play()
    assert outcome.story == [
        "user hi",
        "assistant -> add(a), add(b)",
        "tool a failed: It ran to its end, but its result was lost: an extension that looked at it failed, "
        "or was stopped.",
        "tool b ok: 4",
    ]
    assert outcome.only("tool", "run") == lines("""
        tool_started add(a)
        tool_started add(b)
        tool_completed add(b)
        tool_failed add(a)
        run_failed RuntimeError
    """)


async def test_core_13_before_tool_failing_lets_no_call_run_and_leaves_a_whole_history() -> None:
    ran: list[str] = []

    async def act() -> str:
        ran.append("act")
        return "x"

    class Gate(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            await asyncio.sleep(0)
            raise RuntimeError("hook")

    stage = await scene([call("act", id="a"), call("act", id="b")], tools=[named("act", act)], extensions=[Gate()])
    outcome = await stage.play()
    assert ran == []
    assert [line.split(":")[0] for line in outcome.story[2:]] == ["tool a failed", "tool b failed"]
    assert outcome.only("tool") == []


async def test_parallel_06_siblings_are_cancelled_and_awaited_before_the_request_is_reported_as_failed() -> None:
    log: list[str] = []

    async def slow() -> None:
        log.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("cleaned up")

    class Fatal(AgentExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            raise RuntimeError("fatal")

        async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
            log.append("failed")

    stage = await scene(
        [call("slow", id="s"), call("add", id="a", left=1, right=1)],
        tools=[named("slow", slow), add],
        extensions=[Fatal()],
    )
    outcome = await stage.play()
    assert log == ["started", "cleaned up", "failed"]
    assert str(outcome.error) == "fatal"
    assert [line.split(":")[0] for line in outcome.story[2:]] == ["tool s failed", "tool a failed"]


async def test_a_sibling_whose_handler_has_ended_keeps_its_result() -> None:
    first_failed = asyncio.Event()

    class Slow(AgentExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            if call.id == "a":
                first_failed.set()
                raise RuntimeError("hook")
            await first_failed.wait()
            await asyncio.sleep(0)

    stage = await scene(
        [call("add", id="b", left=2, right=2), call("add", id="a", left=1, right=1)],
        tools=[add],
        extensions=[Slow()],
    )
    outcome = await stage.play()
    assert outcome.story[2] == "tool b ok: 4"
    assert outcome.story[3].startswith("tool a failed")


async def test_on_tool_call_failing_is_that_calls_failed_result() -> None:
    stage = await failing("on_tool_call", RuntimeError("hook"))
    outcome = await stage.play()
    assert outcome.error is None
    assert outcome.story[2:] == ["tool a failed: RuntimeError: hook", "assistant done"]


async def test_hooks_02_on_error_failing_becomes_a_note_and_the_others_still_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    after, original = HookRecorder(), ConnectionError("original")
    stage = await scene([error(original)], extensions=[Failing("on_error", RuntimeError("second")), after])
    with caplog.at_level(logging.WARNING, "zett_agent"):
        outcome = await stage.play()
    assert outcome.error is original
    assert original.__notes__ == ["on_error failed while the request was closing: RuntimeError: second"]
    assert "RuntimeError: second" in caplog.text
    assert after.of("on_error")[0].detail == "ConnectionError"


class Listener(AgentExtension):
    """Raises at the passage into one phase."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.current_phase == self.phase:
            raise RuntimeError(f"at {self.phase}")


async def test_on_event_failing_fails_the_publisher() -> None:
    outcome = await (await scene("done", extensions=[Listener("generating")])).play()
    assert str(outcome.error) == "at generating"
    assert outcome.lines == ["run_failed RuntimeError"]


async def test_a_listener_that_fails_at_a_boundary_of_the_output_leaves_events_balanced() -> None:
    class Fussy(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if type(event).__name__ == "ContentStartedEvent":
                raise RuntimeError("boundary")

    outcome = await (await scene([text("x")], extensions=[Fussy()])).play()
    assert outcome.lines == ["model_started", "run_failed RuntimeError"]


async def test_core_25_hooks_02_on_event_failing_at_the_committed_outcome_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    after = HookRecorder()
    stage = await scene("done", extensions=[Listener("completed"), after])
    with caplog.at_level(logging.WARNING, "zett_agent"):
        outcome = await stage.play()
    assert outcome.error is None
    assert outcome.lines[-1] == "run_completed"
    assert "at completed" in caplog.text
    assert after.of("on_error") == []
    assert after.entries[-1].detail == "ready->completed"


async def test_on_event_failing_while_the_request_fails_is_noted_on_the_original_error() -> None:
    original = ConnectionError("original")
    stage = await scene([error(original)], extensions=[Listener("failed")])
    outcome = await stage.play()
    assert outcome.error is original
    assert original.__notes__ == ["on_event of Listener failed while the request was closing: RuntimeError: at failed"]


@pytest.mark.parametrize("hook", ["before_model", "before_tool", "after_tool", "after_turn", "on_state"])
async def test_a_hook_that_raises_cancelled_error_of_its_own_fails_the_request(hook: str) -> None:
    stage = await failing(hook, asyncio.CancelledError())
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert isinstance(outcome.error.__cause__, asyncio.CancelledError)
    assert outcome.lines[-1] == "run_failed AgentProtocolError"


async def test_on_message_must_leave_a_user_message() -> None:
    class Wrong(AgentExtension):
        async def on_message(self, context: AgentRunContext) -> None:
            context.input_message = AssistantMessage(content="no")  # type: ignore[assignment]

    outcome = await (await scene(extensions=[Wrong()])).play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert outcome.story == []


async def test_on_message_may_replace_the_input() -> None:
    class Shout(AgentExtension):
        async def on_message(self, context: AgentRunContext) -> None:
            assert context.input_message is not None
            context.input_message = UserMessage(content=context.input_message.text.upper())

    stage = await scene("done", "done", extensions=[Shout()])
    await stage.play("one")
    assert (await stage.play("two")).story == ["user ONE", "assistant done", "user TWO", "assistant done"]


async def test_core_22_after_tool_decides_by_the_result_what_the_consumer_sees() -> None:
    class Veto(AgentExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            result.success, result.content, result.tool_call_id = False, "vetoed", "something else"

    outcome = await (await scene([call("add", left=1, right=1)], "ok", tools=[add], extensions=[Veto()])).play()
    assert outcome.only("tool") == ["tool_started add(call_1)", "tool_failed add(call_1)"]
    assert outcome.story[2] == "tool call_1 failed: vetoed"


async def test_core_11_arguments_edited_by_a_hook_reach_the_tool_and_not_the_history() -> None:
    class Edit(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.arguments["left"] += 10

        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            call.arguments["right"] += 100
            return await call_next()

    stage = await scene([call("add", left=1, right=2)], "done", tools=[add], extensions=[Edit()])
    outcome = await stage.play()
    assert outcome.story[2] == "tool call_1 ok: 113"
    said = outcome.messages[1]
    assert isinstance(said, AssistantMessage) and said.tool_calls[0].arguments == {"left": 1, "right": 2}


async def test_edited_arguments_are_checked_again() -> None:
    class Edit(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.arguments["left"] = "many"

    outcome = await (await scene([call("add", left=1, right=2)], "done", tools=[add], extensions=[Edit()])).play()
    assert outcome.story[2].startswith("tool call_1 failed:") and "left" in outcome.story[2]


async def test_on_tool_call_may_answer_in_place_of_the_tool() -> None:
    class Cache(AgentExtension):
        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            return "from the cache"

    outcome = await (await scene([call("boom")], "done", tools=[named("boom", _never)], extensions=[Cache()])).play()
    assert outcome.story[2] == "tool call_1 ok: from the cache"


async def _never() -> None:
    raise AssertionError("the tool must not run")


async def test_wrapping_hooks_nest_with_the_first_extension_outermost() -> None:
    order: list[str] = []

    class Wrap(AgentExtension):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            order.append(f"{self.name} in")
            result = await call_next()
            order.append(f"{self.name} out")
            return f"{self.name}({result})"

        async def on_model_request(
            self, context: AgentRunContext, request: Any, call_next: Any
        ) -> AsyncIterator[ModelEvent]:
            order.append(f"{self.name} asks")
            async for event in call_next(request):
                yield event

    first, second = Wrap("first"), Wrap("second")
    second.priority = 200
    stage = await scene([call("add", left=1, right=1)], [deltas()], tools=[add], extensions=[second, first])
    outcome = await stage.play()
    assert outcome.story[2] == "tool call_1 ok: first(second(2))"
    assert order[:6] == ["first asks", "second asks", "first in", "second in", "second out", "first out"]


async def test_appended_messages_are_announced_once_each() -> None:
    seen: list[str] = []

    class Count(AgentExtension):
        subscribes = (MessageAppendedEvent,)

        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            assert isinstance(event, MessageAppendedEvent)
            seen.append(event.message.role.value)

    stage = await scene(
        [call("add", left=1, right=1)], "ok", "ok", tools=[add], extensions=[Count()], system_prompt="S"
    )
    await stage.play()
    await stage.play()
    assert seen == ["system", "user", "assistant", "tool", "assistant", "system", "user", "assistant"]
