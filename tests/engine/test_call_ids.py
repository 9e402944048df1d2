"""Calls as models really send them: without ids, twice the same id, without names, with broken arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import add, named, scene
from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.testing import call, raw_call


def broken(call_id: Any, name: Any, arguments: Any = None) -> ToolCall:
    return ToolCall(call_id, name, arguments)


@pytest.mark.parametrize("missing", ["", "   ", None, 7])
async def test_parallel_03_a_missing_id_is_made(missing: Any) -> None:
    stage = await scene(
        [broken(missing, "add", {"left": 1, "right": 1}), broken(missing, "add", {"left": 2, "right": 2})],
        "done",
        tools=[add],
    )
    outcome = await stage.play()
    ids = [event.tool_calls[0].id for event in outcome.recorder.of("tool_completed")]
    assert len(set(ids)) == 2 and all(call_id.startswith("call_") for call_id in ids)
    assert [line.split(": ")[1] for line in outcome.story[2:4]] == ["2", "4"]


async def test_parallel_03_an_id_that_is_used_twice_is_replaced_once() -> None:
    stage = await scene(
        [call("add", id="x", left=1, right=1), call("add", id="x", left=2, right=2)],
        [call("add", id="x", left=3, right=3)],
        "done",
        tools=[add],
    )
    outcome = await stage.play()
    ids = [event.tool_calls[0].id for event in outcome.recorder.of("tool_completed")]
    assert ids[0] == "x" and len(set(ids)) == 3


async def test_parallel_03_ids_of_earlier_requests_are_not_used_again() -> None:
    stage = await scene(*[[call("add", id="x", left=1, right=1)], "done"] * 2, tools=[add])
    await stage.play()
    outcome = await stage.play()
    assert outcome.only("tool_started") != ["tool_started add(x)"]


@pytest.mark.parametrize("name", ["", " ", None])
async def test_args_09_a_call_without_a_name_is_an_error_result(name: Any) -> None:
    stage = await scene(
        [call("add", id="a", left=1, right=1), call("ad_d", id="b"), broken("c", name)], "done", tools=[add]
    )
    outcome = await stage.play()
    assert outcome.story[1] == "assistant -> add(a), ad_d(b), unnamed_tool(c)"
    assert outcome.story[2] == "tool a ok: 2"
    assert outcome.story[3].startswith("tool b failed:")
    assert outcome.story[4] == "tool c failed: The call names no tool; name one of the tools that are offered."


@pytest.mark.parametrize("arguments", ["", " \n", "null", None])
async def test_args_01_empty_arguments_are_an_empty_object(arguments: Any) -> None:
    async def now() -> str:
        return "noon"

    stage = await scene(
        [broken("n", "now", arguments), broken("a", "add", arguments)], "done", tools=[named("now", now), add]
    )
    outcome = await stage.play()
    assert outcome.story[2] == "tool n ok: noon"
    assert outcome.story[3].startswith("tool a failed:") and "left" in outcome.story[3]


@pytest.mark.parametrize("arguments", ['{"q":"x"}}', '{"q":1}{"q":2}', "{'q': 1", "[1]", '"text"', "3"])
async def test_args_03_broken_arguments_run_nothing_and_leave_valid_json(arguments: str) -> None:
    ran: list[str] = []

    async def ask(q: str = "invented") -> str:
        ran.append(q)
        return "x"

    stage = await scene([raw_call("ask", arguments)], "done", tools=[named("ask", ask)])
    outcome = await stage.play()
    assert ran == []
    assert outcome.story[2].startswith("tool call_1 failed: ")
    said = stage.model.requests[-1].messages[1]
    assert isinstance(said, AssistantMessage) and said.tool_calls[0].arguments == {}


async def test_args_03_arguments_that_are_no_object_are_refused() -> None:
    stage = await scene([broken("a", "add", [1, 2])], "done", tools=[add])
    outcome = await stage.play()
    assert outcome.story[2] == "tool a failed: The arguments of the call must be a JSON object."


async def test_args_02_hooks_see_the_arguments_that_the_tool_gets() -> None:
    seen: list[object] = []

    async def label(tags: list[str], note: str) -> str:
        seen.append((tags, note))
        return "ok"

    stage = await scene([call("label", id="a", tags='["a","b"]', note="[1,2]")], "done", tools=[named("label", label)])
    outcome = await stage.play()
    assert seen == [(["a", "b"], "[1,2]")]
    assert outcome.recorder.of("tool_started")[0].tool_calls[0].arguments == {"tags": ["a", "b"], "note": "[1,2]"}


async def test_args_06_null_for_an_optional_parameter_is_not_given() -> None:
    async def find(q: str, limit: int = 10, tag: str | None = "x") -> str:
        return f"{q} {limit} {tag}"

    stage = await scene([call("find", q="a", limit=None, tag=None)], "done", tools=[named("find", find)])
    assert (await stage.play()).story[2] == "tool call_1 ok: a 10 None"


async def test_args_05_results_are_strict_json() -> None:
    async def nan() -> dict[str, float]:
        return {"x": float("nan"), "y": float("inf")}

    stage = await scene([call("nan")], "done", tools=[named("nan", nan)])
    assert (await stage.play()).story[2] == 'tool call_1 ok: {"x":null,"y":null}'


async def test_the_messages_of_a_model_are_copied_not_shared() -> None:
    own = AssistantMessage(content="done", attributes={"k": 1})
    stage = await scene(own)
    outcome = await stage.play()
    own.attributes["k"] = 2
    own.content = "changed"
    assert outcome.messages[-1] == AssistantMessage(content="done", attributes={"k": 1})


async def test_a_final_answer_with_an_empty_list_of_calls_is_an_answer() -> None:
    assert (await (await scene(AssistantMessage(content="x", tool_calls=[]))).play()).story[-1] == "assistant x"
