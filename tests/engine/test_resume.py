"""Resuming over every end that a history can have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.engine.scenario import Scene, add, lines, scene
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentResumeError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import EventRecorder, HookRecorder

USER = UserMessage(content="hi")
CALLS = AssistantMessage(tool_calls=(ToolCall("a", "add"), ToolCall("b", "add")))
RESULT_A = ToolMessage(tool_call_id="a", name="add", content="1")
RESULT_B = ToolMessage(tool_call_id="b", name="add", content="2")
UNKNOWN = "failed: The outcome of this call is unknown"


def stopped(reason: StopReason) -> AssistantMessage:
    return AssistantMessage(content="half", stop=StopInfo(reason))


class Restores(AgentExtension):
    """Gives each request the same earlier messages."""

    def __init__(self, earlier: Sequence[AnyMessage]) -> None:
        self.earlier = earlier

    async def on_state(self, context: AgentRunContext) -> None:
        context.restore_messages(self.earlier)


async def over(*earlier: AnyMessage, extensions: Sequence[AgentExtension] = ()) -> Scene:
    """A session with this history."""
    return await scene("done", extensions=[Restores(earlier), *extensions], tools=[add], memory=False)


@pytest.mark.parametrize(
    ("earlier", "added"),
    [
        ([USER], []),
        ([USER, AgentMessage(content="note")], []),
        ([USER, CALLS, RESULT_A, RESULT_B], []),
        ([USER, CALLS, RESULT_A], [f"tool b {UNKNOWN}"]),
        ([USER, CALLS], [f"tool a {UNKNOWN}", f"tool b {UNKNOWN}"]),
        ([USER, stopped(StopReason.PAUSED)], []),
        ([USER, stopped(StopReason.INTERRUPTED)], ["agent Your last answer was cut off"]),
        ([USER, stopped(StopReason.MAX_OUTPUT)], ["agent Your last answer reached the output limit."]),
    ],
)
async def test_a_history_that_waits_for_something_is_gone_on_with(earlier: list[AnyMessage], added: list[str]) -> None:
    stage = await over(*earlier)
    outcome = await stage.resume()
    assert outcome.error is None
    new = outcome.story[len(earlier) :]
    assert len(new) == len(added) + 1
    assert all(line.startswith(start) for line, start in zip(new, added, strict=False))
    assert new[-1] == "assistant done"


@pytest.mark.parametrize(
    ("earlier", "reason"),
    [
        ([], "empty"),
        ([SystemMessage(content="S")], "empty"),
        ([USER, AssistantMessage(content="done")], "completed"),
        ([USER, stopped(StopReason.REFUSAL)], "refused"),
        ([USER, stopped(StopReason.CONTEXT_FULL)], "context_full"),
        ([USER, stopped(StopReason.OTHER)], "unknown_stop"),
    ],
)
async def test_a_history_that_waits_for_nothing_is_refused(earlier: list[AnyMessage], reason: str) -> None:
    hooks = HookRecorder(notifications=False)
    stage = await over(*earlier, extensions=[hooks])
    outcome = await stage.resume()
    assert isinstance(outcome.error, AgentResumeError)
    assert outcome.error.reason == reason
    assert outcome.lines == ["run_failed AgentResumeError"]
    assert hooks.hooks == ["on_tool", "on_state", "on_error"]
    assert await stage.agent.resume_point() is None


async def test_hooks_03_resuming_calls_every_hook_but_on_message() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await over(USER, extensions=[hooks])
    assert (await stage.agent.resume()).content == "done"
    assert hooks.hooks == lines("""
        on_tool
        on_state
        before_run
        before_turn
        before_model
        on_model_request
        on_model_request_end
        after_model
        after_turn
        after_run
        on_success
    """)


async def test_core_7_looking_for_the_resume_point_changes_nothing() -> None:
    hooks = HookRecorder()
    stage = await over(USER, CALLS, RESULT_A, extensions=[hooks])
    point = await stage.agent.resume_point()
    assert point is not None
    assert point.kind == "recover_tools"
    assert [call.id for call in point.unanswered_tool_calls] == ["b"]
    assert stage.model.requests == []
    assert [entry.detail for entry in hooks.of("on_event")] == lines("""
        created->loading_context
        loading_context->ready
        ready->completed
    """)
    assert not {"before_run", "on_success", "on_message"} & set(hooks.hooks)


async def test_a_new_message_closes_calls_that_an_earlier_request_left_open() -> None:
    stage = await over(USER, CALLS, RESULT_A)
    outcome = await stage.play("again")
    assert [line[:40] for line in outcome.story] == [
        "user hi",
        "assistant -> add(a), add(b)",
        "tool a ok: 1",
        f"tool b {UNKNOWN}"[:40],
        "user again",
        "assistant done",
    ]


async def test_persist_06_stray_results_and_calls_left_open_in_the_middle_are_repaired() -> None:
    stray = ToolMessage(tool_call_id="zz", name="add", content="?")
    stage = await over(USER, stray, CALLS, RESULT_B, UserMessage(content="next"), AssistantMessage(content="ok"))
    outcome = await stage.play("again")
    assert [line.split(":")[0] for line in outcome.story] == lines("""
        user hi
        assistant -> add(a), add(b)
        tool a failed
        tool b ok
        user next
        assistant ok
        user again
        assistant done
    """)


async def test_compact_05_a_broken_session_can_be_compacted() -> None:
    class Compacts(AgentExtension):
        async def on_compact(self, context: AgentRunContext) -> None:
            await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, context.session_id))
            await context.emit(AgentEvent(AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=False))

    stage = await over(USER, CALLS, RESULT_A, extensions=[Compacts()])
    recorder = await EventRecorder().record(stage.agent.compact())
    assert recorder.types == ["compaction_started", "compaction_completed"]
    stage.check_messages()


async def test_duplicate_ids_in_a_stored_batch_are_repaired() -> None:
    twice = AssistantMessage(tool_calls=(ToolCall("a", "add"), ToolCall("a", "add", {"n": 2})))
    outcome = await (await over(USER, twice, RESULT_A)).play("again")
    assert outcome.story[1:3] == ["assistant -> add(a)", "tool a ok: 1"]
