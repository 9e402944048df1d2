"""A whole agent with a real model: what `create_agent` gives, streamed, stopped, and four sessions at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest_asyncio

from zett_agent.client import AgentClient, create_agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.messages import ToolCall
from zett_agent.providers.openai import OpenAIProvider
from zett_agent.testing.local_model import ANSWER, PROMPT
from zett_agent.tools.base import tool


@tool(guidelines=["Use it for every sum."])
def add(left: int, right: int) -> int:
    """Add two integers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


@pytest_asyncio.fixture
async def client(provider: OpenAIProvider) -> AsyncIterator[AgentClient]:
    async with await create_agent(provider, tools=[add], extensions=[]) as client:
        yield client


async def events_of(client: AgentClient, message: str, session_id: str) -> list[AgentEvent]:
    stream = client.stream(message, config=AgentRunConfig(session_id=session_id))
    async with aclosing(stream) as events:  # type: ignore[type-var]
        return [event async for event in events]


def of(events: list[AgentEvent], *kinds: AgentEventType) -> list[AgentEvent]:
    return [event for event in events if event.type in kinds]


async def test_a_round_trip_streams_runs_the_tool_and_answers(client: AgentClient) -> None:
    events = await events_of(client, PROMPT, "one")
    steps = of(
        events,
        AgentEventType.MODEL_STARTED,
        AgentEventType.MODEL_COMPLETED,
        AgentEventType.TOOL_STARTED,
        AgentEventType.TOOL_COMPLETED,
        AgentEventType.RUN_COMPLETED,
    )
    assert [event.type.value for event in steps] == [
        "model_started",
        "model_completed",
        "tool_started",
        "tool_completed",
        "model_started",
        "model_completed",
        "run_completed",
    ]
    (started,) = of(events, AgentEventType.TOOL_STARTED)
    assert [(call.name, call.arguments) for call in started.tool_calls] == [("add", {"left": 20, "right": 22})]
    assert isinstance(started.tool_calls[0], ToolCall) and started.tool_calls[0].id
    (completed,) = of(events, AgentEventType.TOOL_COMPLETED)
    assert completed.message is not None and completed.message.content == "42"
    texts = [event.delta for event in of(events, AgentEventType.TEXT_DELTA)]
    assert len(texts) > 3 and "".join(texts).strip() == ANSWER
    assert events[-1].message is not None and str(events[-1].message.content).strip() == ANSWER
    for event in of(events, AgentEventType.MODEL_COMPLETED):
        assert event.response is not None
        assert event.response.usage.input_tokens > 100 and event.response.usage.output_tokens > 5


async def test_stopping_in_mid_stream_ends_the_request_and_frees_the_session(client: AgentClient) -> None:
    config = AgentRunConfig(session_id="stopped")
    events: list[AgentEvent] = []
    async with aclosing(client.stream("Tell me about the sea.", config=config)) as stream:  # type: ignore[type-var]
        async for event in stream:
            events.append(event)
            if event.type in (AgentEventType.TEXT_DELTA, AgentEventType.TOOL_CALL_DELTA):
                client.agent.stop(config)
    assert events[-1].type is AgentEventType.RUN_CANCELLED
    assert not client.agent.is_conflict("stopped")
    assert not of(events, AgentEventType.RUN_COMPLETED, AgentEventType.RUN_FAILED)
    again = await events_of(client, PROMPT, "another")
    assert again[-1].type is AgentEventType.RUN_COMPLETED


async def test_closing_in_mid_stream_leaves_agent_and_server_usable(client: AgentClient) -> None:
    async with aclosing(client.stream(PROMPT, config=AgentRunConfig(session_id="closed"))) as stream:  # type: ignore[type-var]
        async for event in stream:
            if event.type is AgentEventType.TOOL_CALL_DELTA:
                break
    assert not client.agent.pending
    assert (await events_of(client, PROMPT, "closed"))[-1].type is AgentEventType.RUN_COMPLETED


async def test_four_sessions_at_once_each_get_their_answer(client: AgentClient) -> None:
    sums = [(20, 22), (31, 11), (7, 5), (50, 8)]
    outcomes = await asyncio.gather(
        *(events_of(client, f"Use add to compute {left} plus {right}.", f"s{left}") for left, right in sums)
    )
    for (left, right), events in zip(sums, outcomes, strict=True):
        (started,) = of(events, AgentEventType.TOOL_STARTED)
        assert started.session_id == f"s{left}" and started.tool_calls[0].arguments == {"left": left, "right": right}
        assert events[-1].message is not None
        assert str(events[-1].message.content).strip() == f"The result is {left + right}."
