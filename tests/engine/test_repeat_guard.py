"""A model that goes in circles is warned, then stopped, when its application asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import Outcome, named, scene
from zett_agent._runtime.repeats import RepeatGuard
from zett_agent.agent import Agent
from zett_agent.exceptions import AgentLimitError, AgentRepeatError
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.messages import ToolCall
from zett_agent.testing import EventRecorder, HookRecorder, ScriptedModel, call, raw_call
from zett_agent.tools.base import tool

WARNING = "Not run: you have made this very call 3 times without trying anything new."


@tool
async def read(a: int, b: int) -> str:
    """Read."""
    return f"{a}{b}"


@tool(repeatable=True)
async def poll() -> str:
    """Ask how it goes."""
    return "still going"


def swapped(rounds: int) -> list[list[Any]]:
    """The same call, with its keys now in one order, now in the other."""
    return [[call("read", a=1, b=2) if n % 2 else call("read", b=2, a=1)] for n in range(rounds)]


def results(outcome: Outcome) -> list[str]:
    """What became of each call."""
    return [line.split(": ", 1)[1] for line in outcome.story if line.startswith("tool ")]


async def test_ends_02_a_call_that_comes_back_is_warned_of_and_then_stops_the_request() -> None:
    spy = HookRecorder(notifications=False)
    stage = await scene(*swapped(10), tools=[read], extensions=[spy], max_repeats=3)
    outcome = await stage.play()
    error = outcome.error
    assert isinstance(error, AgentRepeatError) and isinstance(error, AgentLimitError)
    assert (error.limit, error.value) == ("max_repeats", 3)
    assert "'read'" in str(error) and "repeatable=True" in str(error)
    assert results(outcome)[:3] == ["12"] * 3
    assert [line.startswith(WARNING) for line in results(outcome)] == [False] * 3 + [True] * 2
    assert outcome.only("tool_", "run_")[6:] == [
        "tool_skipped read(call_4)",
        "tool_skipped read(call_5)",
        "run_failed AgentRepeatError",
    ]
    assert len(stage.model.requests) == 5 and len(spy.of("before_tool")) == 3
    assert error.messages == outcome.messages


async def test_ends_02_a_model_that_heeds_the_warning_goes_on() -> None:
    stage = await scene(*swapped(4), [call("read", a=1, b=3)], *swapped(3), "done", tools=[read], max_repeats=3)
    outcome = await stage.play()
    assert outcome.error is None
    assert results(outcome)[3].startswith(WARNING) and results(outcome)[4:] == ["13", "12", "12", "12"]


async def test_ends_02_it_is_off_unless_it_is_asked_for() -> None:
    stage = await scene(*swapped(10), "done", tools=[read])
    assert (await stage.play()).error is None


async def test_ends_02_a_repeatable_tool_is_exempt() -> None:
    stage = await scene(*[[call("poll")]] * 10, "done", tools=[poll], max_repeats=2)
    assert (await stage.play()).error is None


async def test_ends_02_polling_beside_it_hides_no_repetition() -> None:
    rounds = [[call("poll"), *pieces] for pieces in swapped(10)]
    stage = await scene(*rounds, tools=[read, poll], max_repeats=3)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentRepeatError)
    assert results(outcome)[-2] == "still going"


@pytest.mark.parametrize(
    "again",
    [
        call("nothing_like_it", n=1),
        call("read", a="no number", b=2),
        raw_call("read", '{"a": '),
        ToolCall("", "", {}),
        ToolCall("", "read", {"a": 1, "b": 2}, "refused"),
    ],
    ids=["unknown", "invalid", "broken", "unnamed", "refused"],
)
async def test_ends_02_calls_that_fail_count(again: Any) -> None:
    stage = await scene(*[[again]] * 10, tools=[read], max_repeats=2)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentRepeatError)
    assert len(stage.model.requests) == 4


async def test_ends_02_two_calls_that_take_turns_are_a_circle() -> None:
    one, two = [call("read", a=1, b=1)], [call("read", a=2, b=2)]
    stage = await scene(*[one, two] * 10, tools=[read], max_repeats=3)
    assert isinstance((await stage.play()).error, AgentRepeatError)
    assert len(stage.model.requests) < 14


async def test_ends_02_the_same_test_after_each_change_is_work() -> None:
    rounds = [step for n in range(12) for step in ([call("read", a=0, b=0)], [call("read", a=1, b=n)])]
    stage = await scene(*rounds, "done", tools=[read], max_repeats=2)
    assert (await stage.play()).error is None


async def test_ends_02_the_same_call_twice_in_one_response_counts_once() -> None:
    twice = [call("read", a=1, b=2), call("read", b=2, a=1)]
    stage = await scene(twice, twice, "done", tools=[read], max_repeats=2)
    outcome = await stage.play()
    assert outcome.error is None and results(outcome) == ["12"] * 4


async def test_ends_02_others_of_the_response_run_and_keep_their_places() -> None:
    rounds = [[*pieces, call("read", a=7, b=7)] for pieces in swapped(3)]
    stage = await scene(*rounds, tools=[read], max_repeats=1)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentRepeatError)
    mixed = await scene(*swapped(2), [*swapped(1)[0], call("read", a=9, b=9)], "done", tools=[read], max_repeats=2)
    assert results(await mixed.play()) == ["12", "12", "12", "99"]


async def test_ends_02_a_new_input_begins_anew() -> None:
    stage = await scene(*swapped(3), "one", *swapped(3), "two", tools=[read], max_repeats=3)
    recorder = EventRecorder().when("text_delta", lambda _: stage.nudge("again"))
    assert (await stage.play(recorder=recorder)).error is None
    steered = await scene(*swapped(6), "done", tools=[read], max_repeats=3)
    recorder = EventRecorder()
    for _ in range(2):
        recorder.when("tool_completed", lambda _: None)
    recorder.when("tool_completed", lambda _: steered.steer("once more"))
    assert (await steered.play(recorder=recorder)).error is None


async def test_ends_02_the_session_goes_on_and_a_final_turn_is_had() -> None:
    stage = await scene(*swapped(3), "I go in circles.", "done", tools=[read], max_repeats=1, final_turn=True)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentRepeatError) and outcome.error.text == "I go in circles."
    assert (await stage.resume()).story[-1] == "assistant done"


async def test_ends_02_arguments_that_no_wire_could_carry_are_one_broken_call_that_comes_back() -> None:
    odd: dict[Any, Any] = {"a": {1: 1, "b": 2}}
    stage = await scene(*[[ToolCall("", "odd", odd)]] * 3, "done", tools=[named("read", lambda: "x")], max_repeats=1)
    assert isinstance((await stage.play()).error, AgentRepeatError)


def test_ends_02_arguments_that_a_hook_has_made_unwritable_do_not_break_it() -> None:
    odd: dict[Any, Any] = {"a": {1: 1, "b": 2}}
    assert RepeatGuard(1).refused([ToolCall("c", "odd", odd)]) == frozenset()


def test_ends_02_the_tools_that_look_after_background_tasks_are_exempt() -> None:
    tools = {tool.name: tool.repeatable for tool in AsyncSubAgentExtension()._task_tools.rest}
    assert tools == {"task_list": True, "task_status": True, "task_output": True, "task_cancel": False}


@pytest.mark.parametrize("bad", [0, True, "3", 1.5])
def test_ends_02_a_bad_bound_is_named(bad: Any) -> None:
    with pytest.raises(ValueError, match="max_repeats must be an integer of at least 1"):
        Agent(ScriptedModel(), max_repeats=bad)


def test_ends_02_a_bad_declaration_is_named() -> None:
    with pytest.raises(ValueError, match="repeatable must be True or False"):
        named("look", lambda: None, repeatable="yes")


async def test_ends_02_calls_that_are_broken_in_different_ways_are_different_calls() -> None:
    broken = [[ToolCall("", "read", {}, f"wrong at character {n}")] for n in range(6)]
    stage = await scene(*broken, "done", tools=[read], max_repeats=1)
    assert (await stage.play()).error is None
