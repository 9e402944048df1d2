"""Calls side by side: how many, in whose context, and who waits for whom."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from tests.engine.scenario import lines, named, scene
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call
from zett_agent.testing.function_model import Answer
from zett_agent.tools.base import tool

USER: ContextVar[str] = ContextVar("user", default="nobody")


async def most_at_once(calls: int, bound: int) -> int:
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    stage = await scene(
        [call("work") for _ in range(calls)], "done", tools=[named("work", work)], max_parallel_calls=bound
    )
    outcome = await stage.play()
    assert len(outcome.recorder.of("tool_completed")) == calls
    return most


@pytest.mark.parametrize(("calls", "bound", "most"), [(5, 2, 2), (5, 1, 1), (5, 5, 5), (3, 64, 3)])
async def test_core_42_calls_that_run_at_once_are_bounded(calls: int, bound: int, most: int) -> None:
    assert await most_at_once(calls, bound) == most


async def test_a_call_that_is_held_back_keeps_no_place_from_its_siblings() -> None:
    released = asyncio.Event()

    class Hold(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            if call.id == "held":
                await released.wait()

    async def work(n: int) -> int:
        if n == 2:
            released.set()
        return n

    stage = await scene(
        [call("work", id="held", n=0), call("work", id="b", n=1), call("work", id="c", n=2)],
        "done",
        tools=[named("work", work)],
        extensions=[Hold()],
        max_parallel_calls=1,
    )
    outcome = await stage.play()
    assert outcome.only("tool") == lines("""
        tool_started work(b)
        tool_completed work(b)
        tool_started work(c)
        tool_completed work(c)
        tool_started work(held)
        tool_completed work(held)
    """)
    assert [line.split(":")[0] for line in outcome.story[2:5]] == ["tool held ok", "tool b ok", "tool c ok"]


async def test_loop_02_tools_see_the_callers_context_and_leak_nothing_to_siblings() -> None:
    seen: list[str] = []

    def sync_tool() -> str:
        value = USER.get()
        USER.set("changed by sync")
        return value

    async def async_tool() -> str:
        value = USER.get()
        USER.set("changed by async")
        await asyncio.sleep(0)
        return value

    class Sees(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            seen.append(USER.get())

    stage = await scene(
        [call("sync_tool"), call("async_tool"), call("async_tool")],
        "done",
        tools=[named("sync_tool", sync_tool), named("async_tool", async_tool)],
        extensions=[Sees()],
    )
    token = USER.set("u1")
    outcome = await stage.play()
    assert [line.split(": ")[1] for line in outcome.story[2:5]] == ["u1", "u1", "u1"]
    assert seen == ["u1", "u1", "u1"]
    assert USER.get() == "u1"
    USER.reset(token)


async def test_loop_02_two_requests_at_once_never_mix_their_contexts() -> None:
    async def who() -> str:
        await asyncio.sleep(0)
        return USER.get()

    def answer(request: ModelRequest) -> Answer:
        last = request.messages[-1]
        return last.text if isinstance(last, ToolMessage) else [call("who")]

    stage = await scene(model=FunctionModel(answer), tools=[named("who", who)])

    async def ask(user: str) -> str:
        USER.set(user)
        return (await stage.agent.run("hi", config=AgentRunConfig(user))).content

    users = [f"u{n}" for n in range(10)]
    assert await asyncio.gather(*(ask(user) for user in users)) == users


async def test_loop_05_fifty_sessions_at_once_keep_apart() -> None:
    @tool
    async def echo(context: ToolContext, word: str) -> str:
        """Say where it runs."""
        for _ in range(len(word) % 7):
            await asyncio.sleep(0)
        return context.session_id

    def answer(request: ModelRequest) -> Answer:
        last = request.messages[-1]
        return last.text if isinstance(last, ToolMessage) else [call("echo", word=str(request.cache_key))]

    stage = await scene(model=FunctionModel(answer), tools=[echo])
    sessions = [f"session-{n * n}" for n in range(50)]
    answers = await asyncio.gather(*(stage.agent.run("hi", config=AgentRunConfig(name)) for name in sessions))
    assert [answer.content for answer in answers] == sessions


async def test_an_event_that_a_parallel_tool_emits_keeps_its_order() -> None:
    @tool
    async def steps(context: ToolContext, name: str) -> str:
        """Emit two events."""
        await context.emit(f"{name} 1")
        await asyncio.sleep(0)
        await context.emit(f"{name} 2")
        return name

    stage = await scene([call("steps", id="a", name="a"), call("steps", id="b", name="b")], "done", tools=[steps])
    outcome = await stage.play()
    assert outcome.only("custom") == ["custom a 1", "custom b 1", "custom a 2", "custom b 2"]


async def test_the_message_of_a_batch_keeps_the_order_of_the_model() -> None:
    stage = await scene([call("x", id="2"), call("x", id="1")], "done", tools=[named("x", _nothing)])
    outcome = await stage.play()
    said = outcome.messages[1]
    assert isinstance(said, AssistantMessage) and [entry.id for entry in said.tool_calls] == ["2", "1"]
    assert [line.split(":")[0] for line in outcome.story[2:4]] == ["tool 2 ok", "tool 1 ok"]


async def _nothing() -> None:
    """Do nothing."""
