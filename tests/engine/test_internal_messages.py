"""Internal messages: a machine's request for one more model step."""

from __future__ import annotations

import pytest

from tests.engine.scenario import Scene, add, lines, scene
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.exceptions import AgentIterationLimitError, AgentProtocolError, InputRefusedError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InternalMessageEvent
from zett_agent.messages import AgentMessage, AssistantMessage
from zett_agent.testing import EventRecorder, HookRecorder, call, text


def nudging(stage: Scene, at: str, *contents: str) -> EventRecorder:
    """Send internal messages when the consumer sees the first event of a type."""

    def act(event: AgentEvent) -> None:
        for content in contents:
            assert stage.nudge(content) == ["InternalMessageExtension"]

    return EventRecorder().when(at, act)


async def test_each_is_answered_in_turn_after_the_answer_before() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene("one", "two", "three", extensions=[hooks])
    outcome = await stage.play(recorder=nudging(stage, "text_delta", "int1", "int2"))
    assert outcome.only("model_started", "internal", "run") == lines("""
        model_started
        internal_message_started int1
        model_started
        internal_message_completed int1
        internal_message_started int2
        model_started
        internal_message_completed int2
        run_completed
    """)
    assert outcome.story == lines("""
        user hi
        assistant one
        agent int1
        assistant two
        agent int2
        assistant three
    """)
    assert outcome.recorder.answer is not None and outcome.recorder.answer.content == "three"
    assert hooks.hooks.count("after_turn") == 3 and hooks.hooks.count("after_run") == 1


async def test_steering_goes_before_internal_messages() -> None:
    stage = await scene("one", [text("2"), call("add", id="a", left=1, right=1)], "three", "four", tools=[add])
    recorder = nudging(stage, "text_delta", "int1", "int2").when(
        "internal_message_started", lambda _: stage.steer("user first")
    )
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("internal", "tool", "steering", "run") == lines("""
        internal_message_started int1
        internal_message_interrupted int1
        tool_skipped add(a)
        steering_started user first
        steering_completed user first
        internal_message_started int2
        internal_message_completed int2
        run_completed
    """)


async def test_the_budget_bounds_how_many_are_taken() -> None:
    stage = await scene("one", "two", max_internal_messages=1)
    outcome = await stage.play(recorder=nudging(stage, "text_delta", "int1", "int2"))
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert outcome.only("internal", "run", "custom") == lines("""
        internal_message_started int1
        internal_message_completed int1
        custom input_returned
        run_failed AgentIterationLimitError
    """)
    assert [message.content for message in stage.agent.state.undelivered] == ["int2"]


async def test_core_21_a_budget_of_zero_refuses_them_and_harms_nothing() -> None:
    refused: list[list[str]] = []
    stage = await scene("one", max_internal_messages=0)
    outcome = await stage.play(
        recorder=EventRecorder().when("text_delta", lambda _: refused.append(stage.nudge("int1")))
    )
    assert refused == [[]]
    assert outcome.story == ["user hi", "assistant one"]


async def test_core_21_publishing_with_a_budget_of_zero_raises_a_typed_error() -> None:
    class Nudge(AgentExtension):
        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            with pytest.raises(InputRefusedError, match="disabled"):
                await context.publish(InternalMessageEvent(AgentMessage(content="more")))

    stage = await scene("one", max_internal_messages=0, extensions=[Nudge()])
    assert (await stage.play()).error is None


async def test_an_extension_that_keeps_its_own_bound_is_not_counted() -> None:
    class Goal(AgentExtension):
        left = 3

        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            if self.left:
                self.left -= 1
                await context.publish(InternalMessageEvent(AgentMessage(content="go on"), counted=False))

    stage = await scene("1", "2", "3", "4", max_internal_messages=1, extensions=[Goal()])
    outcome = await stage.play()
    assert outcome.error is None
    assert outcome.story[-1] == "assistant 4"


@pytest.mark.parametrize("hook", ["after_run", "on_success"])
async def test_publishing_after_the_final_answer_is_refused(hook: str) -> None:
    async def late(context: AgentRunContext, result: AssistantMessage) -> None:
        await context.publish(InternalMessageEvent(AgentMessage(content="late")))

    extension = AgentExtension()
    setattr(extension, hook, late)
    outcome = await (await scene("one", extensions=[extension])).play()
    assert isinstance(outcome.error, AgentProtocolError)
    assert outcome.lines[-1] == "run_failed InputRefusedError"


async def test_a_request_may_start_from_an_internal_message() -> None:
    stage = await scene("hello", "woken")
    await stage.play()
    outcome = await stage.watch(stage.agent.stream_internal(AgentMessage(content="task-1 is done")))
    assert outcome.story[-2:] == ["agent task-1 is done", "assistant woken"]
    stage = await scene("woken")
    assert (await stage.agent.run_internal(AgentMessage(content="wake"))).content == "woken"
