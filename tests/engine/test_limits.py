"""The bounds of a request: a typed outcome with what there is by then, and a session that goes on."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tests.engine.scenario import Outcome, Scene, add, lines, scene
from zett_agent import create_agent_sync
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentError, AgentIterationLimitError, AgentLimitError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.goal import GoalExtension
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AgentMessage, AssistantMessage, ToolCall
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, ModelUsage
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import (
    EventRecorder,
    FunctionModel,
    ScriptedModel,
    call,
    deltas,
    error,
    stall,
    stop,
    text,
    usage,
)
from zett_agent.testing.function_model import Answer
from zett_agent.waits import ExternalEvent

ADD = [call("add", left=1, right=1)]


def limit(outcome: Outcome, name: str, value: float) -> AgentLimitError:
    """The outcome is this limit."""
    found = outcome.error
    assert isinstance(found, AgentLimitError)
    assert (found.limit, found.value) == (name, value)
    assert outcome.recorder.types[-1] == "run_failed"
    return found


async def test_ends_01_the_call_above_max_iterations_is_not_made() -> None:
    stage = await scene(ADD, ADD, "done", tools=[add], max_iterations=2)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert "max_iterations=2" in str(outcome.error)
    assert len(stage.model.requests) == 2
    assert outcome.lines[-2:] == ["tool_completed add(call_2)", "run_failed AgentIterationLimitError"]
    resumed = await stage.resume()
    assert resumed.story == lines("""
        user hi
        assistant -> add(call_1)
        tool call_1 ok: 2
        assistant -> add(call_2)
        tool call_2 ok: 2
        assistant done
    """)


async def test_exactly_max_iterations_calls_are_allowed() -> None:
    stage = await scene(ADD, "done", tools=[add], max_iterations=2)
    assert (await stage.play()).error is None


async def test_a_request_as_a_whole_is_bounded_whatever_a_client_sends() -> None:
    def answer(request: ModelRequest) -> Answer:
        stage.steer("more")
        return "ok"

    stage = await scene(model=FunctionModel(answer), max_iterations=2)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert "max_total_iterations=8" in str(outcome.error)
    assert len(outcome.recorder.of("model_completed")) == 8
    assert outcome.story[-1] == "user more"


async def test_the_bound_of_the_whole_request_can_be_set() -> None:
    stage = await scene(ADD, "done", tools=[add], max_total_iterations=1)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError) and "max_total_iterations=1" in str(outcome.error)


async def test_args_09_turns_of_only_unknown_tools_are_bounded() -> None:
    stage = await scene(*[[call("ad_d", n=1), call("nothing_like_it")]] * 6, tools=[add])
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert "6 turns in a row" in str(outcome.error)
    assert outcome.story[2].endswith("Did you mean add?")
    assert outcome.story[3].endswith("Use one of the tools that are offered.")
    stage.model.assert_done()


async def test_args_09_one_known_tool_resets_the_count() -> None:
    unknown = [call("nope")]
    stage = await scene(*[unknown] * 5, [call("nope"), *ADD], *[unknown] * 5, "done", tools=[add])
    assert (await stage.play()).error is None


@pytest.mark.parametrize("content", ["", "   "])
async def test_empty_texts_are_fine(content: str) -> None:
    outcome = await (await scene("")).play(content)
    assert outcome.error is None
    assert outcome.recorder.answer is not None and outcome.recorder.answer.content == ""


async def test_a_full_inbox_refuses_with_a_clear_error() -> None:
    stage = await scene("one", *["ok"] * 256, max_iterations=300)
    seen: list[str] = []

    def flood(event: object) -> None:
        for n in range(256):
            assert stage.steer(str(n))
        with pytest.raises(Exception, match="256 messages wait already") as error:
            stage.steer("one too many")
        seen.append(type(error.value).__name__)

    outcome = await stage.play(recorder=EventRecorder().when("text_delta", flood))
    assert seen == ["InputRefusedError"]
    assert outcome.error is None


# ---- ENDS-01: what the error carries, and how the session goes on


async def test_ends_01_the_error_carries_messages_usage_and_text() -> None:
    stage = await scene(
        [text("First."), *ADD, usage(100, 10, cached=60)],
        [*ADD, usage(120, 5, cached=100, reasoning=2)],
        tools=[add],
        max_iterations=2,
    )
    outcome = await stage.play()
    found = limit(outcome, "max_iterations", 2)
    assert isinstance(found, AgentIterationLimitError) and isinstance(found, AgentError)
    assert found.messages == outcome.messages
    assert found.usage == ModelUsage(220, 15, cache_read_tokens=160, reasoning_tokens=2)
    assert found.text == "First."


async def test_ends_01_resume_with_a_higher_limit_runs_the_third_turn_and_no_tool_again() -> None:
    ran: list[int] = []

    class Count(AgentExtension):
        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            ran.append(len(ran))
            return await call_next()

    stage = await scene(ADD, ADD, "done", tools=[add], extensions=[Count()], max_iterations=2)
    limit(await stage.play(), "max_iterations", 2)
    resumed = await stage.watch(stage.agent.stream_resume(max_iterations=3))
    assert resumed.recorder.answer is not None and resumed.recorder.answer.content == "done"
    assert ran == [0, 1]
    stage.model.assert_done()


async def test_ends_01_the_bounds_of_one_request_are_not_those_of_the_next() -> None:
    stage = await scene(ADD, "after one", ADD, "after all", tools=[add])
    limit(await stage.play(max_iterations=1), "max_iterations", 1)
    assert (await stage.resume()).error is None
    assert (await stage.play()).story[-1] == "assistant after all"
    assert stage.agent.max_iterations == 36


async def test_ends_01_a_new_message_goes_on_as_well() -> None:
    stage = await scene(ADD, "three", tools=[add], max_iterations=1)
    limit(await stage.play(), "max_iterations", 1)
    assert (await stage.play("and?")).story[-2:] == ["user and?", "assistant three"]


@pytest.mark.parametrize(
    ("agent", "request_", "total"),
    [
        ({"max_iterations": 1}, {}, 4),
        ({"max_iterations": 9}, {"max_iterations": 1}, 4),
        ({"max_iterations": 1}, {"max_total_iterations": 6}, 6),
        ({"max_total_iterations": 3}, {"max_iterations": 5}, 3),
        ({"max_total_iterations": 3}, {"max_total_iterations": 5}, 5),
    ],
)
async def test_ends_01_a_total_that_nobody_gave_follows_the_other(
    agent: dict[str, Any], request_: dict[str, Any], total: int
) -> None:
    def answer(request: ModelRequest) -> Answer:
        stage.steer("more")
        return "ok"

    stage = await scene(model=FunctionModel(answer), **agent)
    limit(await stage.play(**request_), "max_total_iterations", total)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "3"])
@pytest.mark.parametrize("name", ["max_iterations", "max_total_iterations"])
async def test_ends_01_a_bad_bound_of_a_request_is_refused_before_anything_happens(name: str, bad: Any) -> None:
    stage = await scene("never")
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1"):
        await stage.agent.run("hi", **{name: bad})
    assert not stage.agent.pending and not stage.model.requests


async def test_ends_01_an_internal_message_too_many_is_handed_back() -> None:
    stage = await scene("one", max_internal_messages=1)
    stage.model._steps.append((text("two"),))
    recorder = EventRecorder().when("text_delta", lambda _: (stage.nudge("int1"), stage.nudge("int2")))
    outcome = await stage.play(recorder=recorder)
    assert limit(outcome, "max_internal_messages", 1).text == "two"
    assert [message.content for message in stage.agent.state.undelivered] == ["int2"]


async def test_ends_01_what_no_option_sets_has_a_name_too() -> None:
    unknown = await scene(*[[call("nope")]] * 6)
    limit(await unknown.play(), "unknown_turns", 6)
    cut = await scene(*[[*ADD, stop("length")]] * 3, tools=[add])
    limit(await cut.play(), "truncated_turns", 3)


async def test_ends_01_the_limit_of_a_child_is_the_failed_result_of_its_call() -> None:
    child = SubAgentDefinition("child", "c", "c", ScriptedModel(ADD), tools=[add], max_iterations=1)
    task = call("task", description="d", prompt="p", subagent_type="child")
    stage = await scene([task], "done", extensions=[SubAgentExtension([child])])
    outcome = await stage.play()
    assert outcome.error is None
    assert "AgentIterationLimitError: the request reached max_iterations=1" in outcome.story[2]


async def test_ends_01_an_error_that_is_filled_tells_of_the_request_that_reached_the_limit() -> None:
    class Nested(AgentExtension):
        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            inner = await scene([text("inner"), *ADD], tools=[add], max_iterations=1)
            await inner.agent.run("inside")

    outcome = await (await scene("outer", extensions=[Nested()])).play()
    assert limit(outcome, "max_iterations", 1).text == "inner"


async def test_ends_01_an_error_of_an_extension_of_ones_own_is_filled_too() -> None:
    class Budget(AgentExtension):
        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            raise AgentLimitError("too dear", limit="money", value=0.5)

    outcome = await (await scene("never", extensions=[Budget()])).play()
    found = limit(outcome, "money", 0.5)
    assert found.messages == outcome.messages and found.usage == ModelUsage()
    for other in (copy.copy(found), pickle.loads(pickle.dumps(AgentIterationLimitError("t", limit="l", value=2)))):
        assert other.limit and other.value


def test_ends_01_code_that_blocks_gets_the_same() -> None:
    with create_agent_sync(ScriptedModel(ADD, "done"), tools=[add]) as agent:
        with pytest.raises(AgentIterationLimitError) as caught:
            agent.run("hi", max_iterations=1)
        assert caught.value.limit == "max_iterations" and len(caught.value.messages) == 4
        assert agent.resume(max_iterations=2).content == "done"


async def test_ends_01_a_model_whose_usage_is_none_does_no_harm() -> None:
    broken = ModelResponse(AssistantMessage(tool_calls=(ToolCall("c", "add", {"left": 1, "right": 1}),)), usage=None)  # type: ignore[arg-type]
    stage = await scene(deltas(ModelEvent.completed(broken)), tools=[add], max_iterations=1)
    assert limit(await stage.play(), "max_iterations", 1).usage == ModelUsage()


# ---- ENDS-01: the final turn


async def closed(*last: Any, **options: Any) -> tuple[Scene, Outcome]:
    """A request that reaches its limit after one call and has a final turn."""
    options = {"tools": [add], "max_iterations": 1, "final_turn": True, **options}
    stage = await scene([text("I add."), *ADD], *last, "went on", **options)
    return stage, await stage.play()


async def test_ends_01_a_final_turn_lets_the_model_say_its_last_words() -> None:
    stage, outcome = await closed("Added; the rest is left.")
    assert limit(outcome, "max_iterations", 1).text == "Added; the rest is left."
    assert outcome.story[-1] == "assistant Added; the rest is left."
    assert outcome.lines[-3:] == ["content_completed", "model_completed", "run_failed AgentIterationLimitError"]
    working, closing = stage.model.requests
    assert closing.tool_choice == "none" and working.tool_choice is None
    assert closing.tools == working.tools and closing.server_tools == ()
    assert closing.messages[: len(working.messages)] == working.messages
    assert isinstance(closing.messages[-1], AgentMessage) and "may call no tool" in closing.messages[-1].content


async def test_ends_01_after_a_final_turn_resume_goes_on_with_the_work() -> None:
    stage, _ = await closed("So far.")
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "continue_work"
    resumed = await stage.watch(stage.agent.stream_resume(max_iterations=2))
    assert resumed.error is None
    assert resumed.story[-3:-1] == [
        "assistant So far.",
        "agent The limit that ended your work no longer holds, and you may call tools again. "
        "Go on where you were and do nothing twice.",
    ]
    assert stage.model.requests[-1].tool_choice is None


async def test_ends_01_a_final_turn_survives_a_store() -> None:
    stage, _ = await closed("So far.", memory=False, store=MemorySessionStore())
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "continue_work"


async def test_ends_01_calls_of_a_final_turn_are_withheld() -> None:
    _, outcome = await closed([text("One more"), *ADD])
    limit(outcome, "max_iterations", 1)
    assert outcome.story[-1] == "assistant One more"
    (response,) = [event.response for event in outcome.recorder.of("model_completed")][1:]
    assert response is not None and response.stop is not None
    assert response.stop.detail == {"withheld_tool_calls": ["add"]}
    assert len(outcome.recorder.of("tool_started")) == 1


async def test_ends_01_a_final_turn_that_fails_leaves_the_limit() -> None:
    stage, outcome = await closed([text("I have"), error(ConnectionError("gone"))])
    found = limit(outcome, "max_iterations", 1)
    assert found.__notes__ == ["the final turn failed: ConnectionError: gone"]
    assert found.text == "I have"
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "continue_work"


async def test_ends_01_a_final_turn_that_is_paused_or_refused_is_not_continued() -> None:
    _, paused = await closed([text("I"), stop("pause_turn")])
    limit(paused, "max_iterations", 1)
    assert paused.lines[-2] == "model_stopped paused"
    stage, refused = await closed([text("No"), stop("refusal")])
    limit(refused, "max_iterations", 1)
    assert await stage.agent.resume_point() is None


async def test_ends_01_a_stop_cancels_a_final_turn() -> None:
    stage = await scene(ADD, [text("I have"), stall()], tools=[add], max_iterations=1, final_turn=True)
    recorder = EventRecorder().when("text_delta", lambda _: stage.agent.stop())
    outcome = await stage.play(recorder=recorder)
    assert outcome.error is None and outcome.lines[-1] == "run_cancelled"
    point = await stage.agent.resume_point()
    assert point is not None and point.kind == "continue_work"


async def test_ends_01_there_is_no_final_turn_where_the_model_has_just_spoken() -> None:
    stage = await scene("one", "two", max_internal_messages=1, final_turn=True)
    outcome = await stage.play(
        recorder=EventRecorder().when("text_delta", lambda _: (stage.nudge("int1"), stage.nudge("int2")))
    )
    limit(outcome, "max_internal_messages", 1)
    stage.model.assert_done()


async def test_ends_01_there_is_no_final_turn_while_calls_are_open() -> None:
    class Gate(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            raise AgentLimitError("no more", limit="gate")

    stage = await scene(ADD, tools=[add], extensions=[Gate()], final_turn=True)
    assert isinstance((await stage.play()).error, AgentLimitError)
    stage.model.assert_done()


async def test_ends_01_a_goal_does_not_judge_last_words() -> None:
    stage = await scene(ADD, "So far.", tools=[add], extensions=[GoalExtension()], final_turn=True)
    stage.agent.emit_external_event(ExternalEvent("goal_mode", {}))
    outcome = await stage.play("Do it", max_iterations=1)
    limit(outcome, "max_iterations", 1)
    assert outcome.only("custom") == ["custom goal_finished"]
    (finished,) = outcome.recorder.custom("goal_finished")
    assert finished.payload is not None and finished.payload["state"] == "exhausted"


async def test_ends_01_a_request_may_ask_for_a_final_turn_or_against_it() -> None:
    stage = await scene(ADD, "words", ADD, tools=[add], max_iterations=1)
    assert limit(await stage.play(final_turn=True), "max_iterations", 1).text == "words"
    other = await scene(ADD, tools=[add], max_iterations=1, final_turn=True)
    assert limit(await other.play(final_turn=False), "max_iterations", 1).text == ""


async def test_usage_04_an_extension_knows_what_the_request_has_used_so_far_and_at_its_end() -> None:
    seen: list[tuple[int, int]] = []
    kept: list[AgentRunContext] = []

    class Watching(AgentExtension):
        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            kept[:] = [context]
            seen.append((context.usage.input_tokens, context.usage.output_tokens))

    model = ScriptedModel([call("add", left=1, right=2), usage(10, 3)], [text("done"), usage(20, 4)])
    agent = await Agent.create(model, tools=[add], extensions=[Watching()])
    await agent.run("hi")
    assert seen == [(0, 0), (10, 3)]
    assert kept[0].usage == ModelUsage(30, 7)
