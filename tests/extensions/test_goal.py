"""``GoalExtension``: a request that goes on until an evaluator says that its goal is reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.scenario import Scene, add
from tests.extensions.questions import decide, results, scene, settle
from tests.extensions.subagents import kind, work
from zett_agent import AgentExtension, AgentIterationLimitError, AgentProtocolError, AgentRunConfig, AgentRunContext
from zett_agent.agent import Agent
from zett_agent.events import AgentEvent, CompactionEvent
from zett_agent.exceptions import AgentCancelledError, ProviderError
from zett_agent.extensions._goal.arming import MAX_ARMED
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.goal import GoalEvaluation, GoalExtension, GoalState, default_goal_subagent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AgentMessage, ImageContent, ImageUrlSource, SystemMessage, TextContent, UserMessage
from zett_agent.model import ModelRequest, ReasoningEffort
from zett_agent.stop import StopReason
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import (
    EXTENSION_CHECKS,
    EventRecorder,
    FunctionModel,
    ScriptedModel,
    call,
    error,
    raw_call,
    stall,
    stop,
    text,
)
from zett_agent.testing.extensions import ExtensionCheck
from zett_agent.tools.base import AgentTool, tool
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")
REPORT = "report_goal_evaluation"
NUDGE = "The goal is not reached yet. half\n\nStill to be done:\n- the rest\n\nNext: do the rest"


def met(summary: str = "all there") -> list[Any]:
    """The evaluator decides that the goal is reached."""
    return [call(REPORT, achieved=True, summary=summary)]


def unmet(summary: str = "half", instruction: str = "do the rest") -> list[Any]:
    """The evaluator decides that something is missing."""
    return [call(REPORT, achieved=False, summary=summary, remaining_work=["the rest"], next_instruction=instruction)]


def evaluator(*steps: Any, tools: Sequence[AgentTool] = (), extensions: Sequence[AgentExtension] = ()) -> Any:
    """A definition of an evaluator, and its model."""
    model = ScriptedModel(*steps)
    return kind(model, "judge", tools=tools, extensions=extensions), model


def arm(agent: Agent, session_id: str | None = "s", request_id: str | None = None) -> list[str]:
    return agent.emit_external_event(ExternalEvent("goal_mode", {}), config=AgentRunConfig(session_id, request_id))


async def striving(answers: Sequence[Any], definition: Any, *more: AgentExtension, **options: Any) -> Scene:
    """A scene in goal mode, whose model gives ``answers`` and whose evaluator is ``definition``."""
    goal_options = {name: options.pop(name) for name in list(options) if name in ("max_decision_retries", "limit")}
    if "limit" in goal_options:
        goal_options["max_iterations"] = goal_options.pop("limit")
    stage = await scene(*answers, extensions=[*more, GoalExtension(definition, **goal_options)], **options)
    assert arm(stage.agent) == ["GoalExtension"]
    return stage


def told(recorder: EventRecorder, name: str = "goal_finished") -> list[dict[str, Any]]:
    """The payloads of the goal's events of one name."""
    return [dict(event.payload or {}) for event in recorder.custom(name)]


def ending(recorder: EventRecorder) -> tuple[str, str]:
    """How the goal ended, said exactly once."""
    (payload,) = told(recorder)
    return payload["state"], payload["reason"]


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_keeps_what_every_extension_must_keep(check: ExtensionCheck) -> None:
    await check(GoalExtension)


# --- the course of a goal -------------------------------------------------------------------------------------------


async def test_bg_09_a_goal_that_is_met_at_once_costs_one_evaluation() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving(["here it is"], judge)
    outcome = await stage.play("write a poem")
    assert outcome.only("custom", "run_") == [
        "custom goal_evaluating",
        "custom goal_evaluated",
        "custom goal_finished",
        "run_completed",
    ]
    assert ending(outcome.recorder) == (GoalState.MET, "all there")
    assert outcome.recorder.answer is not None and outcome.recorder.answer.content == "here it is"
    judge_model.assert_done()
    stage.model.assert_done()


async def test_bg_09_an_answer_that_falls_short_gets_exactly_one_nudge() -> None:
    judge, judge_model = evaluator(unmet(), met("now it is"))
    stage = await striving(["half of it", "all of it"], judge)
    outcome = await stage.play("write a poem")
    nudges = [message for message in stage.agent.state.messages if isinstance(message, AgentMessage)]
    assert [nudge.attributes["goal_extension"] for nudge in nudges] == [
        {"iteration": 1, "max_iterations": 36, "max_decision_retries": 3, "raw_content": "do the rest"}
    ]
    assert (
        nudges[0].content == "The goal is not reached yet. half\n\nStill to be done:\n- the rest\n\nNext: do the rest"
    )
    assert told(outcome.recorder, "goal_evaluated") == [
        {
            "session_id": "s",
            "goal": "write a poem",
            "iteration": 0,
            "max_iterations": 36,
            "attempts": 1,
            "achieved": False,
            "summary": "half",
            "remaining_work": ["the rest"],
            "next_instruction": "do the rest",
        },
        {
            "session_id": "s",
            "goal": "write a poem",
            "iteration": 1,
            "max_iterations": 36,
            "attempts": 1,
            "achieved": True,
            "summary": "now it is",
            "remaining_work": [],
            "next_instruction": None,
        },
    ]
    assert outcome.recorder.answer is not None and outcome.recorder.answer.content == "all of it"
    judge_model.assert_done()


async def test_the_input_becomes_a_goal_and_keeps_its_images() -> None:
    judge, _ = evaluator(met())
    stage = await striving(["done"], judge)
    image = ImageContent(ImageUrlSource("https://example.org/a.png"))
    message = UserMessage(content=[TextContent(" draw "), image], attributes={"own": 1})
    await EventRecorder().record(stage.agent.stream(message))
    (sent,) = [each for each in stage.model.requests[0].messages if isinstance(each, UserMessage)]
    assert isinstance(sent.content, list)
    assert sent.content[1:] == [image]
    assert "<goal>\ndraw\n</goal>" in sent.text
    assert sent.attributes == {"own": 1, "goal_extension": {"raw_content": " draw ", "target": "draw"}}
    assert message.content == [TextContent(" draw "), image]


async def test_the_evaluator_sees_the_goal_and_the_answer_and_nothing_else() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving([call("add", left=1, right=2), 'the "answer" is 3'], judge, tools=[add])
    await stage.play("compute")
    (request,) = judge_model.requests
    system, task = request.messages
    assert isinstance(system, SystemMessage) and system.content == "You are judge."
    assert isinstance(task, UserMessage)
    assert json.loads(task.text[task.text.index("{") :]) == {"goal": "compute", "answer": 'the "answer" is 3'}
    assert [definition.name for definition in request.tools] == [REPORT]


async def test_answers_that_call_tools_are_not_evaluated() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving([[text("let me see"), call("add", left=1, right=2)], "3"], judge, tools=[add])
    await stage.play()
    assert len(judge_model.requests) == 1


async def test_a_request_that_is_not_armed_is_an_ordinary_one() -> None:
    stage = await scene("done", extensions=[GoalExtension(evaluator()[0])])
    outcome = await stage.play("hi")
    assert outcome.only("custom") == []
    assert stage.model.requests[0].messages[0].content == "hi"


async def test_a_goal_needs_text() -> None:
    stage = await striving([], evaluator()[0])
    image = ImageContent(ImageUrlSource("https://example.org/a.png"))
    with pytest.raises(AgentProtocolError, match="needs text"):
        await EventRecorder().record(stage.agent.stream(UserMessage(content=[image])))


async def test_once_the_goal_is_met_what_follows_in_the_request_is_not_evaluated() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving(["done", "you are welcome"], judge)
    recorder = EventRecorder()
    for _ in range(2):
        recorder.when("custom", lambda _: None)
    recorder.when("custom", lambda _: stage.steer("thanks"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("steering_", "run_") == [
        "steering_started thanks",
        "steering_completed thanks",
        "run_completed",
    ]
    assert len(judge_model.requests) == 1
    assert ending(outcome.recorder)[0] == "met"


# --- bounds ---------------------------------------------------------------------------------------------------------


async def test_b12_all_thirty_six_continuations_fit_into_the_agents_defaults() -> None:
    judge, judge_model = evaluator(*[unmet()] * 36, met())
    stage = await striving([f"try {n}" for n in range(37)], judge)
    outcome = await stage.play()
    assert ending(outcome.recorder)[0] == "met"
    judge_model.assert_done()
    stage.model.assert_done()


async def test_bg_09_after_max_iterations_the_request_fails_and_keeps_its_answers() -> None:
    judge, _ = evaluator(unmet(), unmet(), unmet("still half"))
    stage = await striving(["one", "two", "three"], judge, limit=2)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert str(outcome.error) == "the goal was not reached within 2 continuations: still half"
    assert ending(outcome.recorder) == ("exhausted", "the goal was not reached within 2 continuations")
    assert outcome.story[-1] == "assistant three"


async def test_bg_10_the_agents_own_bound_holds_before_every_model_call() -> None:
    judge, _ = evaluator(unmet())
    stage = await striving(["step one of three"], judge, max_total_iterations=1)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert len(stage.model.requests) == 1
    assert ending(outcome.recorder)[0] == "exhausted"


async def test_where_internal_messages_are_disabled_the_goal_is_blocked_and_the_answer_stands() -> None:
    judge, _ = evaluator(unmet())
    stage = await striving(["half"], judge, max_internal_messages=0)
    outcome = await stage.play()
    assert outcome.error is None
    assert ending(outcome.recorder) == ("blocked", "internal messages are disabled: max_internal_messages is 0")


@pytest.mark.parametrize(
    "options", [{"max_iterations": 0}, {"max_iterations": True}, {"max_decision_retries": -1}], ids=str
)
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError):
        GoalExtension(**options)


# --- evaluators that do not decide ----------------------------------------------------------------------------------


async def test_b12_an_evaluator_without_a_decision_does_not_cost_the_answer() -> None:
    judge, judge_model = evaluator("well", "hm", "so", "perhaps")
    stage = await striving(["the answer"], judge)
    outcome = await stage.play()
    assert outcome.only("run_") == ["run_completed"]
    assert outcome.recorder.answer is not None and outcome.recorder.answer.content == "the answer"
    assert ending(outcome.recorder) == ("blocked", "the evaluator did not decide after 4 attempts")
    judge_model.assert_done()
    last = judge_model.requests[-1].messages
    assert [message.role.value for message in last] == ["system", *["user", "assistant"] * 3, "user"]
    assert "have not decided" in str(last[-1].content)


async def test_an_evaluator_that_decides_after_being_asked_again_counts() -> None:
    judge, _ = evaluator("hm", met())
    stage = await striving(["done"], judge)
    outcome = await stage.play()
    assert told(outcome.recorder, "goal_evaluated")[0]["attempts"] == 2
    assert ending(outcome.recorder)[0] == "met"


async def test_bg_09_reports_that_are_refused_count_and_end_blocked() -> None:
    broken = [
        [call(REPORT, achieved=True, summary="")],
        [call(REPORT, achieved=True, summary="x", remaining_work=["y"])],
        [call(REPORT, achieved=False, summary="x")],
        [raw_call(REPORT, '{"achieved":')],
    ]
    judge, judge_model = evaluator(*broken, *broken)
    stage = await striving(["the answer"], judge)
    outcome = await stage.play()
    assert ending(outcome.recorder) == ("blocked", "the evaluator did not decide after 4 attempts")
    assert len(judge_model.requests) == 4


async def test_a_report_that_is_mended_in_time_counts() -> None:
    judge, judge_model = evaluator([call(REPORT, achieved=False, summary="x", remaining_work=["y"])], unmet(), met())
    stage = await striving(["one", "two"], judge)
    await stage.play()
    refusal = [message for message in judge_model.requests[1].messages if message.role == "tool"]
    assert "needs remaining_work and next_instruction" in str(refusal[0].content)


async def test_a_second_report_is_refused_and_the_first_one_counts() -> None:
    judge, judge_model = evaluator([*met("first"), *unmet("second")])
    stage = await striving(["done"], judge)
    outcome = await stage.play()
    assert ending(outcome.recorder) == ("met", "first")
    assert len(judge_model.requests) == 1  # nothing that follows a decision is waited for


async def test_an_evaluator_that_fails_is_asked_again_from_the_start() -> None:
    judge, judge_model = evaluator([error(ProviderError("down"))], met())
    stage = await striving(["the answer"], judge)
    outcome = await stage.play()
    assert ending(outcome.recorder)[0] == "met"
    assert judge_model.requests[1].messages == judge_model.requests[0].messages


async def test_bg_09_an_evaluator_that_only_fails_is_an_error_of_the_goal_not_of_the_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    judge, _ = evaluator(*[[error(ProviderError("down"))]] * 2)
    stage = await striving(["the answer"], judge, max_decision_retries=1)
    outcome = await stage.play()
    assert outcome.error is None
    assert ending(outcome.recorder) == ("error", "the evaluator did not decide after 2 attempts: ProviderError: down")
    assert "the evaluator of session s failed: down" in caplog.text


async def test_an_evaluator_that_cannot_be_built_fails_the_request() -> None:
    judge, _ = evaluator(extensions=[AskUserExtension(), AskUserExtension()])
    stage = await striving(["the answer"], judge)
    outcome = await stage.play()
    assert isinstance(outcome.error, ValueError)
    assert ending(outcome.recorder)[0] == "error"


# --- other ends -----------------------------------------------------------------------------------------------------


async def test_bg_09_a_request_that_fails_ends_its_goal() -> None:
    stage = await striving([[error(ProviderError("down"))]], evaluator()[0])
    outcome = await stage.play()
    assert ending(outcome.recorder) == ("error", "down")
    assert outcome.lines[-2:] == ["custom goal_finished", "run_failed ProviderError"]


async def test_bg_09_a_request_that_is_stopped_ends_its_goal() -> None:
    held = stall()
    stage = await striving([[text("I"), held]], evaluator()[0])
    recorder = EventRecorder().when("text_delta", lambda _: stage.agent.stop())
    outcome = await stage.play(recorder=recorder)
    assert ending(outcome.recorder) == ("cancelled", "the request was cancelled")
    assert outcome.lines[-1] == "run_cancelled"


async def test_bg_09_a_goal_that_is_stopped_after_the_turn_is_cancelled() -> None:
    judge, _ = evaluator(unmet())
    stage = await striving(["half"], judge)
    recorder = EventRecorder().when("custom", lambda _: stage.agent.stop(mode="after_turn"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.lines[-1] == "run_completed"
    assert ending(outcome.recorder) == ("cancelled", "the request was stopped before the next turn")
    assert [type(message) for message in stage.agent.state.undelivered] == [AgentMessage]


async def test_cancelling_within_an_evaluation_stops_the_evaluator() -> None:
    held = stall()
    judge, _ = evaluator([text("hm"), held])
    goal = GoalExtension(judge)
    stage = await scene("half", extensions=[goal])
    arm(stage.agent)
    request = asyncio.ensure_future(stage.agent.run("go"))
    await held.reached.wait()
    stage.agent.stop()
    with pytest.raises(AgentCancelledError):
        await request
    assert not goal.pending
    assert list(goal.open_waits()) == []


@pytest.mark.parametrize("reason", [StopReason.REFUSAL, StopReason.INTERRUPTED])
async def test_an_answer_that_is_none_is_not_evaluated(reason: StopReason) -> None:
    stage = await striving([[text("no"), stop(reason)]], evaluator()[0])
    outcome = await stage.play()
    assert outcome.only("custom") == ["custom goal_finished"]
    state, why = ending(outcome.recorder)
    assert state == "blocked"
    assert why.startswith(reason)


async def test_a_goal_whose_answer_nobody_evaluated_is_blocked() -> None:
    class Mute(GoalExtension):
        async def after_model(self, context: AgentRunContext, response: Any) -> None:
            pass

    stage = await scene("done", extensions=[Mute()])
    stage.agent.emit_external_event(ExternalEvent("goal_mode", {}), config=SESSION)
    outcome = await stage.play()
    assert ending(outcome.recorder) == ("blocked", "the request ended without an evaluation")


# --- steering -------------------------------------------------------------------------------------------------------


async def test_steering_that_waits_goes_before_an_evaluation() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving([[text("half")], "all"], judge)
    recorder = EventRecorder().when("text_delta", lambda _: stage.steer("and more"))
    outcome = await stage.play(recorder=recorder)
    assert len(judge_model.requests) == 1
    assert ending(outcome.recorder)[0] == "met"


async def test_steering_during_an_evaluation_is_answered_before_the_model_goes_on() -> None:
    judge, judge_model = evaluator(unmet(), met())
    stage = await striving(["half", "to the steering", "all"], judge)
    recorder = EventRecorder().when("custom", lambda _: stage.steer("and more"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("steering_started", "internal_message_started") == [
        "steering_started and more",
        f"internal_message_started {NUDGE}",
    ]
    assert len(judge_model.requests) == 2
    assert ending(outcome.recorder)[0] == "met"


# --- arming ---------------------------------------------------------------------------------------------------------


async def test_b13_an_armed_session_is_consumed_by_its_next_request() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving(["done", "plain"], judge)
    await stage.play("first")
    outcome = await stage.play("second")
    assert outcome.only("custom") == []
    assert len(judge_model.requests) == 1


async def test_a_named_request_is_armed_by_its_name_only() -> None:
    judge, judge_model = evaluator(met())
    stage = await scene("plain", "done", extensions=[GoalExtension(judge)])
    assert arm(stage.agent, request_id="second") == ["GoalExtension"]
    await stage.play("one", config=AgentRunConfig("s", "first"))
    await stage.play("two", config=AgentRunConfig("s", "second"))
    assert len(judge_model.requests) == 1


async def test_another_session_is_not_armed() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving(["plain", "done"], judge)
    await stage.play("one", config=AgentRunConfig("other"))
    assert judge_model.requests == []
    await stage.play("two")
    assert len(judge_model.requests) == 1


async def test_b13_arming_expires() -> None:
    judge, judge_model = evaluator()
    stage = await scene("plain", extensions=[GoalExtension(judge, arming_seconds=0.0)])
    assert arm(stage.agent) == ["GoalExtension"]
    await stage.play()
    assert judge_model.requests == []


async def test_b13_what_is_armed_is_bounded_and_the_oldest_is_forgotten() -> None:
    goal = GoalExtension(evaluator(met())[0])
    stage = await scene("plain", "done", extensions=[goal])
    for n in range(MAX_ARMED + 1):
        arm(stage.agent, f"session {n}")
    assert len(goal._arming) == MAX_ARMED
    await stage.play(config=AgentRunConfig("session 0"))
    outcome = await stage.play(config=AgentRunConfig("session 1"))
    assert ending(outcome.recorder)[0] == "met"


async def test_a_request_that_runs_cannot_be_armed_but_the_next_one_can() -> None:
    goal = GoalExtension(evaluator(met())[0])
    stage = await scene("plain", "done", extensions=[goal])
    seen: list[list[str]] = []
    recorder = EventRecorder().when("model_started", lambda _: seen.append(arm(stage.agent, request_id="r")))
    recorder.when("text_delta", lambda _: seen.append(arm(stage.agent)))
    await stage.play(recorder=recorder, config=AgentRunConfig("s", "r"))
    assert seen == [[], ["GoalExtension"]]
    assert ending((await stage.play()).recorder)[0] == "met"


async def test_b13_a_request_that_ends_early_takes_its_arming_with_it() -> None:
    class Breaks(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            raise RuntimeError("no tools")

    goal = GoalExtension(evaluator()[0])
    stage = await scene(extensions=[Breaks(), goal])
    arm(stage.agent, request_id="r")
    outcome = await stage.play(config=AgentRunConfig("s", "r"))
    assert isinstance(outcome.error, RuntimeError)
    assert len(goal._arming) == 0


async def test_arming_needs_a_session() -> None:
    goal = GoalExtension()
    assert goal.accept(None, ExternalEvent("goal_mode", {})) is False
    assert goal.accept(AgentRunConfig(), ExternalEvent("goal_mode", {})) is False
    assert goal.accept(SESSION, ExternalEvent("goal_mood", {})) is False


async def test_b13_nothing_of_ended_sessions_stays() -> None:
    goal = GoalExtension(evaluator(unmet(), met())[0])
    stage = await scene("one", "two", extensions=[goal])
    arm(stage.agent)
    await stage.play()
    assert (goal._goals, len(goal._arming), goal._arming._begun) == ({}, 0, set())


# --- waiting --------------------------------------------------------------------------------------------------------


async def test_bg_10_a_goal_with_an_open_question_waits() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving([[call("ask_user", id="q", question="Which?")], "done"], judge, AskUserExtension())
    shown = asyncio.Event()
    recorder = EventRecorder().when("custom", lambda _: shown.set())
    request = asyncio.ensure_future(recorder.record(stage.agent.stream("go")))
    await shown.wait()
    await settle()
    assert (len(stage.model.requests), len(judge_model.requests), request.done()) == (1, 0, False)
    event = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": "a"})
    assert stage.agent.emit_external_event(event, config=SESSION) == ["AskUserExtension"]
    await request
    assert ending(recorder)[0] == "met"


async def _with_background(*steps: Any) -> tuple[Scene, Any, ScriptedModel]:
    """A goal whose model starts one background task, which goes on until it is released."""
    gate = stall()
    judge, judge_model = evaluator(met())
    background = AsyncSubAgentExtension([kind(ScriptedModel([gate, text("the report")]), "helper")])
    start = [call("task_start", **work())]
    stage = await striving([start, "it runs", *steps], judge, background)
    return stage, gate, judge_model


async def test_bg_10_a_goal_with_background_work_waits_for_it() -> None:
    stage, gate, judge_model = await _with_background("all of it")
    waiting = asyncio.Event()
    recorder = EventRecorder().when("custom", lambda _: waiting.set())
    request = asyncio.ensure_future(recorder.record(stage.agent.stream("go")))
    await waiting.wait()
    await settle()
    assert (len(stage.model.requests), len(judge_model.requests), request.done()) == (2, 0, False)
    assert told(recorder, "goal_waiting")[0]["tasks"] == ["task-1"]
    gate.release()
    await request
    last = [message.content for message in stage.model.requests[-1].messages if isinstance(message, AgentMessage)]
    assert any("Background work has ended" in str(content) for content in last)
    assert any("the report" in str(content) for content in last)
    assert (ending(recorder)[0], told(recorder)[0]["iteration"]) == ("met", 0)
    await stage.agent.aclose()


async def test_bg_10_a_person_who_speaks_is_heard_while_the_goal_waits() -> None:
    stage, gate, judge_model = await _with_background("to the steering", "all of it")
    recorder = EventRecorder().when("custom", lambda _: stage.steer("how is it going?"))
    recorder.when("custom", lambda _: gate.release())
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("steering_completed") == ["steering_completed how is it going?"]
    assert len(told(recorder, "goal_waiting")) == 2
    assert ending(recorder)[0] == "met"
    assert len(judge_model.requests) == 1
    await stage.agent.aclose()


async def test_bg_10_cancelling_a_goal_that_waits_leaves_no_asyncio_task() -> None:
    stage, _, _ = await _with_background()
    before = asyncio.all_tasks()
    recorder = EventRecorder().when("custom", lambda _: stage.agent.stop())
    outcome = await stage.play(recorder=recorder)
    assert ending(outcome.recorder)[0] == "cancelled"
    await stage.agent.aclose()
    await settle()
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}


# --- restart and compaction -----------------------------------------------------------------------------------------


class Forgetful(AgentExtension):
    """Replaces the history by a summary before each model call but the first."""

    def __init__(self, kept: int = 0) -> None:
        self.kept = kept
        self.calls = 0

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        self.calls += 1
        if self.calls == 1:
            return
        history = list(context.transcript.view())
        context.replace_messages([UserMessage(content="Summary: it went on."), *history[len(history) - self.kept :]])
        await context.publish(CompactionEvent(1, len(history), 1, 1, "it went on"))


async def test_bg_10_compact_07_after_two_compactions_the_goal_is_still_sent() -> None:
    judge, judge_model = evaluator(unmet(), unmet(), met())
    stage = await striving(["one", "two", "three"], judge, Forgetful())
    outcome = await stage.play("write a poem about rain")
    for request in stage.model.requests[1:]:
        assert [str(message.content).count("write a poem about rain") for message in request.messages] == [0, 1]
    assert all("write a poem about rain" in str(request.messages[-1].content) for request in judge_model.requests)
    assert ending(outcome.recorder)[0] == "met"


async def test_a_goal_that_a_compaction_kept_is_not_said_again() -> None:
    judge, _ = evaluator(unmet(instruction="more of: write a poem"), met())
    stage = await striving(["one", "two"], judge, Forgetful(kept=1))
    await stage.play("write a poem")
    assert len(stage.model.requests[-1].messages) == 2


@pytest.mark.parametrize("rounds", [0, 1])
async def test_bg_10_a_goal_survives_a_restart(rounds: int) -> None:
    store = MemorySessionStore()
    first = await striving(
        [*["half"] * rounds, [call("add", left=1, right=2)], [error(ProviderError("down"))]],
        evaluator(*[unmet()] * rounds)[0],
        tools=[add],
        memory=False,
        store=store,
    )
    assert isinstance((await first.play("write a poem")).error, ProviderError)
    judge, judge_model = evaluator(unmet(), met())
    second = await scene("two", "three", tools=[add], memory=False, store=store, extensions=[GoalExtension(judge)])
    outcome = await second.resume()
    assert ending(outcome.recorder)[0] == "met"
    assert told(outcome.recorder)[0]["iteration"] == rounds + 1
    assert "write a poem" in str(judge_model.requests[0].messages[-1].content)


async def test_a_request_without_a_goal_is_resumed_without_one() -> None:
    goal = GoalExtension(evaluator(met())[0])
    stage = await scene("done", [error(ProviderError("down"))], "plain", extensions=[goal])
    arm(stage.agent)
    await stage.play("a goal")
    await stage.play("no goal")
    outcome = await stage.resume()
    assert outcome.only("custom") == []


async def test_a_goal_that_ended_is_not_taken_up_again() -> None:
    goal = GoalExtension(evaluator(met())[0])
    stage = await scene("done", [error(ProviderError("down"))], "plain", extensions=[goal])
    arm(stage.agent)
    await stage.play("a goal")
    with pytest.raises(ProviderError):
        await stage.agent.run_internal(AgentMessage(content="news"))
    outcome = await stage.resume()
    assert outcome.only("custom") == []


async def test_a_session_without_a_user_message_is_resumed_without_a_goal() -> None:
    stage = await scene([error(ProviderError("down"))], "plain", extensions=[GoalExtension(evaluator()[0])])
    with pytest.raises(ProviderError):
        await stage.agent.run_internal(AgentMessage(content="news"))
    assert (await stage.resume()).only("custom") == []


# --- what holds for evaluators --------------------------------------------------------------------------------------


@tool
async def look(path: str) -> str:
    """Look at a file."""
    looked.append(path)
    return f"contents of {path}"


looked: list[str] = []


async def test_b11_the_default_evaluator_can_do_nothing_but_decide() -> None:
    looked.clear()

    def answer(request: ModelRequest) -> Any:
        if any(definition.name == REPORT for definition in request.tools):
            offered.append([definition.name for definition in request.tools])
            return met()
        return "done"

    offered: list[list[str]] = []
    model = FunctionModel(answer)
    stage = await scene(tools=[look], extensions=[GoalExtension()], model=model)
    arm(stage.agent)
    await stage.play()
    assert offered == [[REPORT]]
    definition = default_goal_subagent(model)
    assert (definition.name, definition.reasoning_effort, definition.max_iterations) == (
        "goal",
        ReasoningEffort.HIGH,
        18,
    )
    assert definition.tools == ()


@pytest.mark.parametrize(("decision", "seen"), [("deny", []), ("allow", ["/a"])])
async def test_b11_the_policy_of_the_agent_holds_for_its_evaluators(decision: str, seen: list[str]) -> None:
    looked.clear()
    judge, _ = evaluator([call("look", path="/a")], met(), tools=[look])
    policy = PermissionExtension([PermissionRule("look", decision), PermissionRule(REPORT, "allow")], default="deny")
    stage = await striving(["done"], judge, policy)
    outcome = await stage.play()
    assert looked == seen
    assert ending(outcome.recorder)[0] == "met"


async def test_b11_what_an_evaluator_must_ask_for_is_shown_and_answered_at_the_agent() -> None:
    looked.clear()
    judge, _ = evaluator([call("look", id="l", path="/a"), call("ask_user", id="q", question="Sure?")], met())
    judge = kind(judge.model, "judge", tools=[look], extensions=[AskUserExtension()])
    policy = PermissionExtension([PermissionRule("look", "ask"), PermissionRule("*", "allow")])
    stage = await striving(["done"], judge, policy)
    waits: list[tuple[str, ...]] = []

    def act(event: AgentEvent) -> None:
        payload = event.payload or {}
        if event.name not in ("permission_request", "ask_user"):
            return
        waits.append(tuple(sorted(wait.id for wait in stage.agent.pending_waits(config=SESSION))))
        assert payload["subagent"] == ["judge"]
        if event.name == "permission_request":
            assert decide(stage.agent, "l", session_id=payload["session_id"])
        else:
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": "yes"})
            route = AgentRunConfig(session_id=payload["session_id"])
            assert stage.agent.emit_external_event(answer, config=route) == ["GoalExtension"]

    recorder = EventRecorder()
    for _ in range(3):
        recorder.when("custom", act)
    outcome = await stage.play(recorder=recorder)
    assert looked == ["/a"]
    assert waits[0] == ("l", "q")
    assert ending(outcome.recorder)[0] == "met"


async def test_evaluators_count_against_no_bound_of_subagents_and_are_told_apart() -> None:
    helper = kind(ScriptedModel("the help"), "helper")
    judge, judge_model = evaluator([call("task", id="t", **work())], met(), extensions=[SubAgentExtension([helper])])
    own = SubAgentExtension([helper], max_total=1, max_depth=1)
    stage = await striving(["done"], judge, own)
    outcome = await stage.play()
    assert ending(outcome.recorder)[0] == "met"
    (result,) = [message for message in judge_model.requests[-1].messages if message.role == "tool"]
    assert json.loads(str(result.content))["content"] == "the help"


async def test_a_memory_that_the_evaluator_brings_is_used() -> None:
    memory = InMemoryMessageAccumulator()
    judge, _ = evaluator("hm", met(), extensions=[memory])
    stage = await striving(["done"], judge)
    await stage.play()
    (session_id,) = memory._sessions
    assert [message.role.value for message in memory.messages(session_id)][:3] == ["user", "assistant", "user"]


# --- the decision as a value ----------------------------------------------------------------------------------------


def test_a_decision_must_be_consistent() -> None:
    assert GoalEvaluation(achieved=True, summary="x").remaining_work == []
    assert GoalEvaluation(achieved=False, summary="x", remaining_work=["a"], next_instruction="b").achieved is False
    for wrong in (
        {"achieved": True, "summary": "x", "next_instruction": "b"},
        {"achieved": True, "summary": "x", "remaining_work": ["a"]},
        {"achieved": False, "summary": "x", "remaining_work": ["a"]},
        {"achieved": False, "summary": "x", "remaining_work": ["a"], "next_instruction": " "},
        {"achieved": False, "summary": "x", "next_instruction": "b"},
        {"achieved": True, "summary": ""},
        {"achieved": True, "summary": "x", "mood": "good"},
    ):
        with pytest.raises(ValueError):
            GoalEvaluation.model_validate(wrong)


async def test_the_tool_that_decides_has_the_documented_schema() -> None:
    judge, judge_model = evaluator(met())
    stage = await striving(["done"], judge)
    await stage.play()
    properties = judge_model.requests[0].tools[0].parameters["properties"]
    assert list(properties) == ["achieved", "summary", "remaining_work", "next_instruction"]
    assert (properties["summary"]["minLength"], properties["summary"]["maxLength"]) == (1, 8000)
    assert (properties["remaining_work"]["maxItems"], properties["remaining_work"]["default"]) == (100, [])
    assert properties["next_instruction"]["anyOf"][0]["maxLength"] == 16_000
    assert properties["next_instruction"]["default"] is None


async def test_results_of_the_request_are_untouched() -> None:
    judge, _ = evaluator(met())
    stage = await striving([[call("add", id="a", left=1, right=2)], "3"], judge, tools=[add])
    await stage.play()
    assert results(stage)["a"].text == "3"
