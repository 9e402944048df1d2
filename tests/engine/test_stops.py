"""How abnormal ends of a model step are settled."""

from __future__ import annotations

import pytest

from tests.engine.scenario import add, lines, named, scene
from zett_agent.exceptions import AgentIterationLimitError, AgentStopError
from zett_agent.messages import AssistantMessage
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import HookRecorder, call, stop, text


async def test_a_refusal_withholds_its_calls_and_ends_the_request_normally() -> None:
    stage = await scene([text("no"), call("add", left=1, right=1), stop("refusal")], tools=[add])
    outcome = await stage.play()
    assert outcome.lines[-3:] == ["model_completed", "model_stopped refusal", "run_completed"]
    assert outcome.only("tool") == []
    answer = outcome.recorder.answer
    assert answer is not None and answer.stop is not None and answer.tool_calls == ()
    assert answer.stop.detail == {"withheld_tool_calls": ["add"]}
    with pytest.raises(AgentStopError, match="refusal"):
        answer.raise_for_stop()


@pytest.mark.parametrize("raw", ["length", "model_length", "content_filter", "network_error", "strange"])
async def test_an_abnormal_stop_without_calls_completes_with_the_text(raw: str) -> None:
    outcome = await (await scene([text("half"), stop(raw)])).play()
    assert outcome.lines[-3] == "model_completed"
    assert outcome.lines[-2].startswith("model_stopped ")
    assert outcome.lines[-1] == "run_completed"
    assert outcome.story[-1].startswith("assistant half [")


async def test_args_08_core_5_a_truncated_turn_runs_none_of_its_calls() -> None:
    ran: list[str] = []

    async def write(path: str, body: str) -> str:
        ran.append(path)
        return "written"

    tool = named("write", write)
    stage = await scene(
        [call("write", path="a", body="hal"), call("write", path="b", body="x"), stop("length")],
        [call("write", path="a", body="half")],
        "done",
        tools=[tool],
    )
    outcome = await stage.play()
    assert ran == ["a"]
    assert outcome.lines[:4] == lines("""
        model_started
        model_completed
        model_stopped max_output
        tool_skipped write(call_1)
    """)
    assert outcome.story[1].endswith("[max_output]")
    assert "Send it again" in outcome.story[2] and "Send it again" in outcome.story[3]
    assert outcome.story[4:] == ["assistant -> write(call_3)", "tool call_3 ok: written", "assistant done"]


@pytest.mark.parametrize("raw", ["length", "model_length", "strange"])
async def test_args_08_three_truncated_turns_in_a_row_end_the_request(raw: str) -> None:
    cut = [call("add", left=1, right=1), stop(raw)]
    outcome = await (await scene(cut, cut, cut, tools=[add])).play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert outcome.lines[-1] == "run_failed AgentIterationLimitError"
    assert outcome.only("tool_started") == []


async def test_args_08_a_whole_turn_resets_the_count_of_truncated_ones() -> None:
    cut = [call("add", left=1, right=1), stop("length")]
    whole = [call("add", left=1, right=1)]
    outcome = await (await scene(cut, cut, whole, cut, cut, "done", tools=[add])).play()
    assert outcome.error is None


async def test_args_08_length_wins_over_tool_calls() -> None:
    info = StopInfo(StopReason.MAX_OUTPUT, "tool_calls")
    outcome = await (await scene([call("add", left=1, right=1), stop(info)], "done", tools=[add])).play()
    assert outcome.only("tool") == ["tool_skipped add(call_1)"]


async def test_stream_25_complete_calls_run_although_the_stop_reason_is_end_turn() -> None:
    outcome = await (await scene([call("add", left=1, right=1), stop("end_turn")], "done", tools=[add])).play()
    assert outcome.only("tool") == ["tool_started add(call_1)", "tool_completed add(call_1)"]


async def test_a_paused_answer_is_continued_within_its_turn() -> None:
    hooks = HookRecorder(notifications=False)
    paused = [text("p"), stop("pause_turn")]
    stage = await scene(paused, paused, "done", extensions=[hooks])
    outcome = await stage.play()
    assert outcome.only("model", "run") == lines("""
        model_started
        model_completed
        model_started
        model_completed
        model_started
        model_completed
        run_completed
    """)
    kept = ("before_turn", "before_model", "after_model", "after_turn", "after_run")
    assert [name for name in hooks.hooks if name in kept] == lines("""
        before_turn
        before_model
        after_model
        before_model
        after_model
        before_model
        after_model
        after_turn
        after_run
    """)
    assert len(stage.model.requests[-1].messages) == 3


async def test_a_model_that_only_pauses_stops_after_five_continuations() -> None:
    paused = [text("p"), stop("pause_turn")]
    stage = await scene(*[paused] * 6)
    outcome = await stage.play()
    stage.model.assert_done()
    assert outcome.lines[-2:] == ["model_stopped paused", "run_completed"]
    assert outcome.only("model_stopped") == ["model_stopped paused"]


async def test_pauses_count_against_max_iterations() -> None:
    paused = [text("p"), stop("pause_turn")]
    outcome = await (await scene(paused, paused, max_iterations=2)).play()
    assert isinstance(outcome.error, AgentIterationLimitError)


async def test_a_paused_step_with_calls_runs_them() -> None:
    outcome = await (await scene([call("add", left=1, right=1), stop("pause_turn")], "done", tools=[add])).play()
    assert outcome.only("model_stopped", "tool") == lines("""
        model_stopped paused
        tool_started add(call_1)
        tool_completed add(call_1)
    """)


async def test_core_4_a_pause_that_was_not_continued_can_be_resumed() -> None:
    stage = await scene([text("p"), stop("pause_turn")], "done", max_iterations=1)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentIterationLimitError)
    assert outcome.story == ["user hi", "assistant p [paused]"]
    assert (await stage.resume()).story[-1] == "assistant done"


async def test_ends_04_what_the_provider_said_of_a_refusal_is_kept() -> None:
    info = StopInfo(StopReason.REFUSAL, "safety", category="violence", message="no")
    outcome = await (await scene([text("sorry"), stop(info)])).play()
    answer = outcome.messages[-1]
    assert isinstance(answer, AssistantMessage) and answer.stop == info
    assert outcome.recorder.of("model_stopped")[0].stop == info
