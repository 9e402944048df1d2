"""Plain functions that never return hold every thread; what waits behind them and is stopped was not run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import CONFIG, history, made, ticks
from zett_agent.testing import ScriptedModel, call, text
from zett_agent.tools.base import AgentTool, tool

FILL = [call("blocks")] * 140


@pytest.fixture
def blocks() -> Iterator[AgentTool]:
    release = threading.Event()

    @tool(timeout=0.01)
    def blocks() -> None:
        """Block."""
        release.wait(15)

    yield blocks
    release.set()


def late() -> None:
    """Never begin."""


async def around() -> None:
    """Work, and then let a plain tool work."""
    await tool(late).invoke({})


async def stopped(blocks: AgentTool, queued: AgentTool) -> str:
    """What the history says of a call that is stopped while it waits behind calls that hold all threads."""
    agent = await made(ScriptedModel(FILL, [call(queued.name)]), tools=[blocks, queued])

    async def stop_in_the_queue() -> None:
        await ticks()
        agent.stop(CONFIG)

    stops: list[asyncio.Task[None]] = []
    async for event in agent.stream("go", config=CONFIG):
        if event.type == "tool_started" and event.tool_calls[0].name == queued.name:
            stops.append(asyncio.create_task(stop_in_the_queue()))
    await stops[0]
    said: str = history(agent)[-1].text
    return said


@pytest.mark.parametrize("options", [{}, {"timeout": 60.0}], ids=["plain", "timeout"])
async def test_loop_03_a_call_that_is_stopped_while_it_waits_for_a_thread_was_not_run(
    blocks: AgentTool, options: Any
) -> None:
    assert (await stopped(blocks, tool(**options)(late))).startswith("Not run")


@pytest.mark.parametrize(
    "queued", [tool(around), AgentTool("around", "Work.", {"type": "object"}, around)], ids=["function", "handler"]
)
async def test_loop_03_an_async_tool_that_waits_for_a_plain_one_has_run(blocks: AgentTool, queued: AgentTool) -> None:
    assert (await stopped(blocks, queued)).startswith("Stopped while it ran")


async def test_loop_03_a_timeout_says_whether_the_function_had_begun(blocks: AgentTool) -> None:
    queued = tool(timeout=0.02)(late)
    agent = await made(ScriptedModel(FILL, [call("late")], [text("x")]), tools=[blocks, queued])
    await agent.run("go", config=CONFIG)
    results = [message.text for message in history(agent) if message.role == "tool"]
    assert results[0] == "The tool blocks did not end within 0.01 seconds and was stopped."
    assert results[-1] == "Not run: no thread was free for late within 0.02 seconds."
