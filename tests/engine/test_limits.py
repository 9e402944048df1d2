"""The bounds of a request."""

from __future__ import annotations

import pytest

from tests.engine.scenario import add, lines, scene
from zett_agent.exceptions import AgentIterationLimitError
from zett_agent.model import ModelRequest
from zett_agent.testing import EventRecorder, FunctionModel, call
from zett_agent.testing.function_model import Answer

ADD = [call("add", left=1, right=1)]


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
