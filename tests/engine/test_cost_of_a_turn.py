"""What a turn does must not grow with the history behind it: counted in calls, not in seconds."""

from __future__ import annotations

import sys
from types import FrameType

from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import ToolMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call, text
from zett_agent.testing.scripted import Piece
from zett_agent.tools.base import tool

SESSION = AgentRunConfig(session_id="long")


@tool
async def add(left: int, right: int) -> int:
    """Add."""
    return left + right


def answer(request: ModelRequest) -> list[Piece]:
    return [text("done")] if isinstance(request.messages[-1], ToolMessage) else [call("add", left=1, right=2)]


async def calls_of_one_more_request(messages: int) -> int:
    """Calls of Python and C functions that one more request with a tool makes in a session of that length."""
    agent = await Agent.create(FunctionModel(answer), tools=[add], extensions=[InMemoryMessageAccumulator()])
    for _ in range(messages // 4):
        await agent.run("hello", config=SESSION)
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        await agent.run("hello", config=SESSION)
    finally:
        sys.setprofile(None)
    state = agent.get_state("long")
    assert state is not None
    assert len(state.messages) == messages + 5  # the system prompt, and the four of the last request
    return counted


async def test_rule_11_core_53_a_turn_costs_the_same_at_two_thousand_messages_as_at_twenty() -> None:
    assert await calls_of_one_more_request(2_000) < 1.1 * await calls_of_one_more_request(20)
