"""What a consumer sees of ordinary requests, event by event (core.md section 11)."""

from __future__ import annotations

import asyncio

from tests.engine.scenario import add, alone, boom, lines, named, scene
from zett_agent.messages import ToolCall
from zett_agent.model import ModelEvent, ServerToolCall, ServerToolInputDelta, ServerToolResult
from zett_agent.testing import HookRecorder, call, deltas, raw_call, reasoning, text


async def test_a_plain_answer() -> None:
    stage = await scene("done", system_prompt="Be brief.")
    outcome = await stage.play("hi")
    assert outcome.phases == lines("""
        model_started [generating]
        content_started [generating]
        text_delta done [generating]
        content_completed [generating]
        model_completed [ready]
        run_completed [completed]
    """)
    assert outcome.story == ["system Be brief.", "user hi", "assistant done"]


async def test_reasoning_text_and_one_tool_call() -> None:
    first = [reasoning("hm"), text("Let me add."), call("add", left=1, right=2)]
    stage = await scene(first, "3", tools=[add])
    outcome = await stage.play()
    assert outcome.phases == lines("""
        model_started [generating]
        reasoning_started [generating]
        reasoning_delta hm [generating]
        reasoning_completed [generating]
        content_started [generating]
        text_delta Let me add. [generating]
        content_completed [generating]
        model_completed [ready]
        tool_started add(call_1) [running_tool]
        tool_completed add(call_1) [ready]
        model_started [generating]
        content_started [generating]
        text_delta 3 [generating]
        content_completed [generating]
        model_completed [ready]
        run_completed [completed]
    """)
    assert outcome.story == ["user hi", "assistant Let me add. -> add(call_1)", "tool call_1 ok: 3", "assistant 3"]


async def test_hooks_and_notifications_of_a_tool_run_come_in_the_documented_order() -> None:
    hooks = HookRecorder()
    stage = await scene(
        [reasoning("hm"), text("t"), call("add", left=1, right=2)], "3", tools=[add], extensions=[hooks]
    )
    await stage.play()
    assert [" ".join(entry).strip() for entry in hooks.entries] == lines("""
        on_event loading_context created->loading_context
        on_tool loading_context
        on_state loading_context
        on_message loading_context
        on_event ready loading_context->ready
        on_event ready MessageAppended(user)
        before_run ready
        before_turn ready
        before_model ready
        on_event generating ready->generating
        on_model_request generating
        on_event generating ReasoningStarted
        on_event generating ReasoningCompleted
        on_event generating ContentStarted
        on_event generating ContentCompleted
        on_model_request_end generating
        on_event ready generating->ready
        on_event ready MessageAppended(assistant)
        after_model ready tool_use
        before_tool ready add
        on_event running_tool ready->running_tool
        on_tool_call running_tool add
        authorize_tool running_tool add
        on_tool_call_end running_tool add
        on_event ready running_tool->ready
        after_tool ready add
        on_event ready MessageAppended(tool)
        after_turn ready
        before_turn ready
        before_model ready
        on_event generating ready->generating
        on_model_request generating
        on_event generating ContentStarted
        on_event generating ContentCompleted
        on_model_request_end generating
        on_event ready generating->ready
        on_event ready MessageAppended(assistant)
        after_model ready end_turn
        after_turn ready
        after_run ready
        on_success ready
        on_event completed ready->completed
    """)


async def test_reasoning_may_reopen_and_content_opens_once() -> None:
    stage = await scene([text("a"), reasoning("r"), text("b"), reasoning("s"), reasoning("")])
    outcome = await stage.play()
    assert outcome.lines == lines("""
        model_started
        content_started
        text_delta a
        reasoning_started
        reasoning_delta r
        reasoning_completed
        text_delta b
        reasoning_started
        reasoning_delta s
        reasoning_completed
        content_completed
        model_completed
        run_completed
    """)
    assert outcome.story[-1] == "assistant ab"


async def test_empty_deltas_open_nothing_and_are_relayed() -> None:
    stage = await scene([reasoning("", ""), text("", "x", "")])
    outcome = await stage.play()
    assert outcome.recorder.types == lines("""
        model_started
        reasoning_delta
        reasoning_delta
        text_delta
        content_started
        text_delta
        text_delta
        content_completed
        model_completed
        run_completed
    """)


async def test_tool_call_deltas_close_reasoning() -> None:
    stage = await scene([reasoning("hm"), raw_call("add", '{"left": 1,', ' "right": 2}')], "3", tools=[add])
    outcome = await stage.play()
    assert outcome.lines[:8] == lines("""
        model_started
        reasoning_started
        reasoning_delta hm
        reasoning_completed
        tool_call_delta
        tool_call_delta
        model_completed
        tool_started add(call_1)
    """)
    first = outcome.recorder.of("tool_call_delta")[0].tool_call_delta
    assert first is not None
    assert (first.index, first.id_delta, first.name_delta, first.arguments_delta) == (0, "call_1", "add", '{"left": 1,')


async def test_server_tools_are_shown_as_they_run() -> None:
    step = deltas(
        ModelEvent.server_tool_started(ServerToolCall("w1", "web_search")),
        ModelEvent.server_tool_input(ServerToolInputDelta("w1", '{"q"')),
        ModelEvent.server_tool_started(ServerToolCall("w2", "web_search")),
        ModelEvent.server_tool_failed(ServerToolResult("w2", "web_search", error_code="quota")),
        ModelEvent.server_tool_completed(ServerToolResult("w1", "web_search", ["hit"])),
    )
    outcome = await (await scene([step, text("done")])).play()
    assert outcome.lines[:6] == lines("""
        model_started
        server_tool_started
        server_tool_input_delta
        server_tool_started
        server_tool_failed
        server_tool_completed
    """)
    result = outcome.recorder.of("server_tool_completed")[0].server_tool_result
    assert result is not None and result.output == ["hit"]


async def test_core_43_parallel_calls_run_together_and_serial_ones_after_them_in_call_order() -> None:
    fast_is_done = asyncio.Event()

    async def slow() -> str:
        await fast_is_done.wait()
        return "slow"

    async def fast() -> str:
        fast_is_done.set()
        return "fast"

    stage = await scene(
        [call("alone", id="s1", n=1), call("slow", id="p1"), call("fast", id="p2"), call("alone", id="s2", n=2)],
        "done",
        tools=[alone, named("slow", slow), named("fast", fast)],
    )
    outcome = await stage.play()
    assert [line for line in outcome.phases if line.startswith("tool")] == lines("""
        tool_started slow(p1) [running_tool]
        tool_started fast(p2) [running_tool]
        tool_completed fast(p2) [running_tool]
        tool_completed slow(p1) [ready]
        tool_started alone(s1) [running_tool]
        tool_completed alone(s1) [ready]
        tool_started alone(s2) [running_tool]
        tool_completed alone(s2) [ready]
    """)
    assert outcome.story[1:] == lines("""
        assistant -> alone(s1), slow(p1), fast(p2), alone(s2)
        tool s1 ok: alone 1
        tool p1 ok: slow
        tool p2 ok: fast
        tool s2 ok: alone 2
        assistant done
    """)


async def test_every_call_is_serial_when_parallel_calls_are_off() -> None:
    stage = await scene(
        [call("add", id="a", left=1, right=1), call("add", id="b", left=2, right=2)],
        "done",
        tools=[add],
        parallel_tool_call=False,
    )
    outcome = await stage.play()
    assert outcome.only("tool") == lines("""
        tool_started add(a)
        tool_completed add(a)
        tool_started add(b)
        tool_completed add(b)
    """)
    assert stage.model.requests[0].parallel_tool_call is False


async def test_failing_calls_fail_alone() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene(
        [
            call("boom", id="b"),
            call("add", id="x", left="one"),
            call("nope", id="u"),
            call("add", id="a", left=1, right=1),
        ],
        "done",
        tools=[add, boom],
        extensions=[hooks],
    )
    outcome = await stage.play()
    assert outcome.only("tool_failed", "tool_completed") == lines("""
        tool_failed boom(b)
        tool_failed add(x)
        tool_completed add(a)
        tool_failed nope(u)
    """)
    results = outcome.story[2:6]
    assert results[0] == "tool b failed: ValueError: kaput"
    assert results[1].startswith("tool x failed:") and "right" in results[1]
    assert results[2].startswith("tool u failed: There is no tool named 'nope'.")
    assert results[3] == "tool a ok: 2"
    assert isinstance(outcome.recorder.of("tool_failed")[0].error, ValueError)
    assert [entry.detail for entry in hooks.of("on_tool_call")] == ["boom", "add"]
    assert [entry.detail for entry in hooks.of("before_tool")].count("nope") == 1


async def test_a_call_with_an_error_of_its_own_is_never_executed() -> None:
    broken = ToolCall("c1", "add", {}, "the provider could not parse the arguments")
    outcome = await (await scene([broken], "done", tools=[add])).play()
    assert outcome.story[2] == "tool c1 failed: the provider could not parse the arguments"
    assert outcome.only("tool") == ["tool_started add(c1)", "tool_failed add(c1)"]
