"""What a tool may do wrong, and what the model is told."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.conftest import Leap
from tests.engine.scenario import Outcome, add, lines, named, scene, spin
from tests.engine.virtual_time import in_virtual_time
from zett_agent._runtime.call import TIMEOUT_GRACE
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.exceptions import ToolRejectedError, ToolTimeoutError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ImageBytesSource, ImageContent, TextContent, ToolCall, ToolMessage
from zett_agent.testing import EventRecorder, HookRecorder, call
from zett_agent.tools.base import AgentTool, tool


async def raising(error: BaseException) -> None:
    raise error


def failing(error: BaseException) -> AgentTool:
    async def fail() -> None:
        await raising(error)

    return named("fail", fail)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("kaput"), "ValueError: kaput"),
        (ValueError(), "ValueError"),
        (ToolRejectedError("not allowed"), "not allowed"),
        (ToolRejectedError(), "ToolRejectedError"),
        (RuntimeError("bad \ud800 text"), "RuntimeError: bad \ufffd text"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("of its own"), "CancelledError: of its own"),
    ],
)
async def test_parallel_01_an_error_is_that_calls_failed_result(error: BaseException, says: str) -> None:
    stage = await scene(
        [call("add", id="a", left=1, right=0), call("fail", id="f"), call("add", id="b", left=2, right=0)],
        "done",
        tools=[add, failing(error)],
    )
    outcome = await stage.play()
    assert outcome.story[2:] == ["tool a ok: 1", f"tool f failed: {says}", "tool b ok: 2", "assistant done"]
    assert outcome.recorder.of("tool_failed")[0].error is error


async def test_core_16_parallel_02_a_cancelled_error_from_inside_a_tool_does_not_end_the_request() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene([call("fail")], "done", tools=[failing(asyncio.CancelledError())], extensions=[hooks])
    outcome = await stage.play()
    assert outcome.story[2:] == ["tool call_1 failed: CancelledError", "assistant done"]
    assert hooks.of("on_error") == []


async def test_a_tool_that_cancels_its_own_inner_task_fails_alone() -> None:
    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.sleep(30))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    stage = await scene([call("inner")], "done", tools=[named("inner", inner)])
    assert (await stage.play()).story[2] == "tool call_1 failed: CancelledError"


async def test_sys_exit_in_a_thread_ends_only_the_tool() -> None:
    def leave() -> None:
        sys.exit(1)

    stage = await scene([call("leave")], "done", tools=[named("leave", leave)])
    assert (await stage.play()).story[2] == "tool call_1 failed: SystemExit: 1"


async def test_a_result_that_cannot_be_written_is_a_failure() -> None:
    async def odd() -> object:
        return object()

    stage = await scene([call("odd")], "done", tools=[named("odd", odd)])
    assert (await stage.play()).story[2].startswith("tool call_1 failed: the returned object cannot be written as JSON")


async def test_content_parts_reach_the_model_as_they_are() -> None:
    picture = ImageContent(ImageBytesSource(b"x", "image/png"))

    async def look() -> list[Any]:
        return [TextContent("see"), picture]

    stage = await scene([call("look")], "done", tools=[named("look", look)])
    message = (await stage.play()).messages[2]
    assert isinstance(message, ToolMessage)
    assert message.content == [TextContent("see"), picture]


async def test_loop_03_a_timeout_is_a_failed_result_and_the_request_goes_on() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    stage = await scene([call("slow")], "done", tools=[named("slow", slow, timeout=0.001)])
    outcome = await stage.play()
    assert outcome.story[2:] == [
        "tool call_1 failed: The tool slow did not end within 0.001 seconds and was stopped.",
        "assistant done",
    ]
    assert isinstance(outcome.recorder.of("tool_failed")[0].error, ToolTimeoutError)
    assert ended == ["slow"]


def test_loop_03_a_sync_tool_that_sleeps_blocks_nobody_and_its_late_result_is_dropped() -> None:
    release, entered, beats = threading.Event(), threading.Event(), 0

    def sleep() -> str:
        entered.set()
        release.wait(20)
        return "late"

    async def beat() -> None:
        nonlocal beats
        while beats < 6 or not entered.is_set():  # the time stands while the loop has something to do
            beats += 1
            await asyncio.sleep(0)

    async def main() -> Outcome:
        heart = asyncio.create_task(beat())
        stage = await scene([call("sleep")], "done", tools=[named("sleep", sleep, timeout=30)])
        outcome = await stage.play()
        await heart
        return outcome

    try:
        outcome, seconds = in_virtual_time(main)
        assert beats > 5 and not release.is_set() and seconds == 30
        assert "did not end within 30 seconds" in outcome.story[2]
        assert "late" not in str(outcome.messages)
    finally:
        release.set()


async def test_loop_03_the_process_does_not_wait_for_an_abandoned_thread() -> None:
    program = """
import asyncio, time
from zett_agent.agent import Agent
from zett_agent.testing import ScriptedModel, call
from zett_agent.tools.base import tool

@tool(timeout=0.05)
def sleep() -> None:
    'Sleep long.'
    time.sleep(60)

async def main():
    agent = await Agent.create(ScriptedModel([call("sleep")], "done"), tools=[sleep])
    print((await agent.run("hi")).content)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(15):
        out, _ = await process.communicate()
    assert (out, process.returncode) == (b"done\n", 0)


async def test_loop_03_an_async_tool_that_ignores_its_timeout_is_left_behind(leap: Leap) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    stage = await scene([call("stubborn")], "done", tools=[named("stubborn", stubborn, timeout=5)])
    recorder = EventRecorder()
    request = asyncio.create_task(stage.play(recorder=recorder))
    await spin()
    leap(5)
    await spin()
    leap(TIMEOUT_GRACE)
    outcome = await request
    assert "did not end within 5 seconds" in outcome.story[2]
    assert outcome.story[3] == "assistant done"
    release.set()
    await spin()


async def test_a_tool_within_its_timeout_is_not_disturbed() -> None:
    async def quick() -> str:
        return "ok"

    stage = await scene([call("quick")], "done", tools=[named("quick", quick, timeout=60)])
    assert (await stage.play()).story[2] == "tool call_1 ok: ok"


async def test_an_error_within_the_timeout_is_the_tools_own() -> None:
    async def fail() -> None:
        raise TimeoutError("of its own")

    stage = await scene([call("fail")], "done", tools=[named("fail", fail, timeout=60)])
    assert (await stage.play()).story[2] == "tool call_1 failed: TimeoutError: of its own"


async def test_cancelling_the_request_stops_a_tool_with_a_timeout() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    stage = await scene([call("slow")], tools=[named("slow", slow, timeout=60)])
    request = asyncio.create_task(stage.agent.run("hi"))
    await spin()
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    assert ended == ["slow"]


async def test_the_timeout_of_a_tool_counts_also_behind_a_hook() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    stage = await scene([call("slow")], "done", tools=[named("slow", slow, timeout=0.001)], extensions=[HookRecorder()])
    assert "did not end within" in (await stage.play()).story[2]


async def test_core_39_a_tool_may_know_its_call() -> None:
    @tool
    async def who(context: ToolContext, run: AgentRunContext) -> str:
        """Say who calls."""
        await context.emit("progress", {"percent": 50})
        return f"{context.call_id} {context.tool_name} {context.session_id} {run is context.run} {context.cancelled}"

    stage = await scene([call("who", id="w")], "done", tools=[who])
    outcome = await stage.play()
    assert outcome.story[2] == "tool w ok: w who s True False"
    assert outcome.recorder.custom("progress")[0].payload == {"percent": 50, "tool_call_id": "w"}
    assert outcome.only("tool", "custom") == ["tool_started who(w)", "custom progress", "tool_completed who(w)"]


async def test_the_idempotency_key_is_the_same_for_the_same_call_only() -> None:
    keys: list[str] = []

    @tool
    async def key(context: ToolContext) -> str:
        """Note the key."""
        keys.append(context.idempotency_key)
        return context.request_id

    stage = await scene([call("key", id="a"), call("key", id="b")], "done", tools=[key])
    await stage.play()
    assert keys == ["s:a", "s:b"]


async def test_an_extension_may_replace_a_tool_for_one_request() -> None:
    async def better() -> str:
        return "better"

    class Replace(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            context.tools["fail"] = named("fail", better)

        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            return await call_next()

    stage = await scene([call("fail")], "done", tools=[failing(ValueError())], extensions=[Replace()])
    assert (await stage.play()).story[2] == "tool call_1 ok: better"
    assert stage.agent.tools["fail"].handler is not better


async def test_before_tool_may_refuse_a_call_by_setting_its_error() -> None:
    class Refuse(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.error = "The policy forbids this."

    stage = await scene([call("add", left=1, right=1)], "done", tools=[add], extensions=[Refuse()])
    outcome = await stage.play()
    assert outcome.only("tool") == lines("""
        tool_started add(call_1)
        tool_failed add(call_1)
    """)
    assert outcome.story[2] == "tool call_1 failed: The policy forbids this."
    assert isinstance(outcome.recorder.of("tool_failed")[0].error, ToolRejectedError)
