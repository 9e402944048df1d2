"""A request that is over is freed at once: nothing of it waits for the garbage collector (LOOP-07)."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.engine.scenario import add
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.testing import ScriptedModel, call

TWO_CALLS = [call("add", left=1, right=2), call("add", left=3, right=4)]


@pytest.mark.parametrize("steps", [["done"], [TWO_CALLS, "done"], [[call("nothing")], "done"]])
async def test_loop_07_a_completed_request_leaves_nothing_to_the_garbage_collector(steps: Any) -> None:
    async def unreachable(session_id: str) -> int:
        gc.collect()
        gc.disable()
        try:
            await agent.run("hi", config=AgentRunConfig(session_id=session_id))
            return gc.collect()
        finally:
            gc.enable()

    agent = await Agent.create(ScriptedModel(*steps * 4), tools=[add])
    await unreachable("first")  # what is made once is made now
    assert [await unreachable(session_id) for session_id in "abc"] == [0, 0, 0]
