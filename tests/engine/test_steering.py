"""Steering: where a user's message that arrives meanwhile takes effect, and what it skips."""

from __future__ import annotations

import pytest

from tests.engine.scenario import SESSION, Scene, add, alone, lines, named, scene
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import SteeringMessageEvent
from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.testing import EventRecorder, HookRecorder, call, error, stall, stop, text
from zett_agent.waits import ExternalEvent


def steering(stage: Scene, at: str, *contents: str) -> EventRecorder:
    """Steer when the consumer sees the first event of a type."""

    def act(event: AgentEvent) -> None:
        for content in contents:
            assert stage.steer(content) == ["SteeringExtension"]

    return EventRecorder().when(at, act)


async def test_during_generation_it_skips_every_call_of_the_response() -> None:
    stage = await scene(
        [text("x"), call("add", id="a", left=1, right=1), call("alone", id="b")], "done", tools=[add, alone]
    )
    outcome = await stage.play(recorder=steering(stage, "text_delta", "stop"))
    assert outcome.lines == lines("""
        model_started
        content_started
        text_delta x
        content_completed
        model_completed
        tool_skipped add(a)
        tool_skipped alone(b)
        steering_started stop
        model_started
        content_started
        text_delta done
        content_completed
        model_completed
        steering_completed stop
        run_completed
    """)
    skipped = "failed: Not run: a newer message of the user came first."
    assert outcome.story == [
        "user hi",
        "assistant x -> add(a), alone(b)",
        f"tool a {skipped}",
        f"tool b {skipped}",
        "user stop",
        "assistant done",
    ]
    assert outcome.recorder.of("steering_completed")[0].message == outcome.recorder.answer


async def test_cancel_03_during_a_batch_it_skips_what_has_not_started() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene(
        [call("add", id="p", left=1, right=1), call("alone", id="s1"), call("alone", id="s2")],
        "done",
        tools=[add, alone],
        extensions=[hooks],
    )
    outcome = await stage.play(recorder=steering(stage, "tool_started", "stop"))
    assert outcome.lines[2:7] == lines("""
        tool_started add(p)
        tool_completed add(p)
        tool_skipped alone(s1)
        tool_skipped alone(s2)
        steering_started stop
    """)
    assert [line.split(":")[0] for line in outcome.story] == lines("""
        user hi
        assistant -> add(p), alone(s1), alone(s2)
        tool p ok
        tool s1 failed
        tool s2 failed
        user stop
        assistant done
    """)
    assert [entry.detail for entry in hooks.of("before_tool")] == ["add"]
    turns = ["before_turn", "after_turn"]
    assert [name for name in hooks.hooks if name in turns] == turns * 2


async def test_after_the_last_call_it_comes_before_the_next_model_call() -> None:
    stage = await scene([call("alone", id="s")], "done", tools=[alone])
    outcome = await stage.play(recorder=steering(stage, "tool_completed", "and now"))
    assert outcome.story[2:] == ["tool s ok: alone 0", "user and now", "assistant done"]
    assert outcome.only("tool", "steering") == lines("""
        tool_started alone(s)
        tool_completed alone(s)
        steering_started and now
        steering_completed and now
    """)


async def test_bg_11_during_the_final_answer_it_causes_one_more_round() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene("one", "two", extensions=[hooks])
    outcome = await stage.play(recorder=steering(stage, "text_delta", "again"))
    assert outcome.story == ["user hi", "assistant one", "user again", "assistant two"]
    assert outcome.only("model_completed", "steering", "run") == lines("""
        model_completed
        steering_started again
        model_completed
        steering_completed again
        run_completed
    """)
    assert hooks.hooks[-6:] == lines("""
        on_model_request
        on_model_request_end
        after_model
        after_turn
        after_run
        on_success
    """)
    assert hooks.hooks.count("after_turn") == 2


async def test_steering_over_steering_gives_the_older_one_up() -> None:
    stage = await scene("zero", [text("1"), call("add", id="a", left=1, right=1)], "done", tools=[add])
    recorder = steering(stage, "text_delta", "first").when("steering_started", lambda _: stage.steer("second"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("steering", "tool", "run") == lines("""
        steering_started first
        steering_interrupted first
        tool_skipped add(a)
        steering_started second
        steering_completed second
        run_completed
    """)


async def test_several_messages_are_answered_in_the_order_they_came() -> None:
    stage = await scene("one", "two", "three")
    outcome = await stage.play(recorder=steering(stage, "text_delta", "a", "b"))
    assert outcome.story == ["user hi", "assistant one", "user a", "assistant two", "user b", "assistant three"]


async def test_while_the_request_loads_it_follows_the_first_answer() -> None:
    class Early(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            stage.steer("early")

    stage = await scene("one", "two", extensions=[Early()])
    outcome = await stage.play()
    assert outcome.story == ["user hi", "assistant one", "user early", "assistant two"]


async def test_core_44_it_breaks_a_row_of_paused_answers() -> None:
    paused = [text("p"), stop("pause_turn")]
    stage = await scene(paused, "done")
    outcome = await stage.play(recorder=steering(stage, "text_delta", "enough"))
    assert outcome.story == ["user hi", "assistant p [paused]", "user enough", "assistant done"]


async def test_each_steering_message_has_a_fresh_bound_of_iterations() -> None:
    stage = await scene("one", "two", "three", max_iterations=1)
    outcome = await stage.play(recorder=steering(stage, "text_delta", "a", "b"))
    assert outcome.error is None and len(stage.model.requests) == 3


async def test_bg_11_after_the_end_it_is_refused() -> None:
    stage = await scene("done")
    assert stage.steer("too early") == []
    await stage.play()
    assert stage.steer("too late") == []


@pytest.mark.parametrize("hook", ["after_run", "on_success"])
async def test_it_is_refused_loudly_once_the_final_answer_stands(hook: str) -> None:
    refused: list[str] = []

    async def late(context: AgentRunContext, result: AssistantMessage) -> None:
        assert stage.steer("late") == []
        with pytest.raises(InputRefusedError) as error:
            await context.publish(SteeringMessageEvent(UserMessage(content="late")))
        refused.append(str(error.value))

    extension = AgentExtension()
    setattr(extension, hook, late)
    stage = await scene("done", extensions=[extension])
    assert (await stage.play()).error is None
    assert refused == ["no request of this session takes steering messages now"]


async def test_an_extension_may_steer_by_publishing() -> None:
    class Redirect(AgentExtension):
        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            if result.content == "one":
                await context.publish(SteeringMessageEvent(UserMessage(content="again")))

    stage = await scene("one", "two", extensions=[Redirect()])
    assert (await stage.play()).story == ["user hi", "assistant one", "user again", "assistant two"]


async def test_core_19_bg_11_input_that_was_never_taken_is_handed_back() -> None:
    pause = stall()
    stage = await scene([text("x"), pause, error(ConnectionError("lost"))])
    recorder = steering(stage, "content_started", "wait", "stop").when("text_delta", lambda _: pause.release())
    outcome = await stage.play(recorder=recorder)
    assert outcome.lines[-2:] == ["custom input_returned", "run_failed ConnectionError"]
    returned = outcome.recorder.custom("input_returned")[0].payload
    assert returned == {"messages": [{"role": "user", "content": "wait"}, {"role": "user", "content": "stop"}]}
    state = stage.agent.get_state("s")
    assert state is not None and [message.content for message in state.undelivered] == ["wait", "stop"]
    assert outcome.error is not None and "2 messages" in outcome.error.__notes__[0]


async def test_the_steering_message_of_a_caller_is_copied() -> None:
    own = UserMessage(content="again")
    stage = await scene("one", "two")

    def act(event: AgentEvent) -> None:
        event_ = ExternalEvent("steering_message", {"message": own})
        assert stage.agent.emit_external_event(event_, config=SESSION) == ["SteeringExtension"]
        own.content = "changed"

    outcome = await stage.play(recorder=EventRecorder().when("text_delta", act))
    assert outcome.story[2] == "user again"


async def test_it_reaches_only_the_session_that_is_named() -> None:
    stage = await scene("one", "two")
    both: list[list[str]] = []

    def act(event: AgentEvent) -> None:
        message = ExternalEvent("steering_message", {"content": "x"})
        for config in (AgentRunConfig("t"), AgentRunConfig("s", "not this request"), None):
            both.append(stage.agent.emit_external_event(message, config=config))

    await stage.play(recorder=EventRecorder().when("text_delta", act))
    assert both == [[], [], ["SteeringExtension"]]


async def test_a_tool_result_is_kept_when_steering_arrives_while_it_runs() -> None:
    async def act() -> str:
        stage.steer("now")
        return "kept"

    stage = await scene([call("act", id="a")], "done", tools=[named("act", act)])
    outcome = await stage.play()
    assert outcome.story[2:] == ["tool a ok: kept", "user now", "assistant done"]
