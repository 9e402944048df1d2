"""OpenAIProvider against a real model behind llama.cpp's HTTP server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from zett_agent.messages import AnyMessage, ToolMessage, UserMessage
from zett_agent.model import ModelEvent, ModelEventType, ModelRequest, ModelResponse, ToolDefinition
from zett_agent.providers.openai import OpenAIProvider
from zett_agent.stop import StopReason
from zett_agent.testing.local_model import ANSWER, MODEL, PROMPT, LocalModel
from zett_agent.testing.models import MODEL_CHECKS, ModelCheck, ModelSubject

ADD = ToolDefinition(
    "add",
    "Add two integers.",
    {
        "type": "object",
        "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}},
        "required": ["left", "right"],
    },
)
ASK = ModelRequest([UserMessage(content=PROMPT)], [ADD])
RAMBLE = ModelRequest([UserMessage(content="Tell me about the sea.")])


def connected(server: LocalModel, **changed: Any) -> OpenAIProvider:
    options: dict[str, Any] = {**server.options, **changed}
    return OpenAIProvider(MODEL, "no key", **options)


async def events_of(provider: OpenAIProvider, request: ModelRequest) -> list[ModelEvent]:
    async with aclosing(provider.stream(request)) as stream:
        return [event async for event in stream]


def response_of(events: list[ModelEvent]) -> ModelResponse:
    response = events[-1].response
    assert response is not None
    return response


def answered(response: ModelResponse, total: str) -> ModelRequest:
    """The request that carries the result of the one call in ``response``."""
    (call,) = response.message.tool_calls
    result = ToolMessage(tool_call_id=call.id, name=call.name, content=total)
    history: list[AnyMessage] = [*ASK.messages, response.message, result]
    return replace(ASK, messages=history)


async def round_trip(provider: OpenAIProvider) -> str:
    """Ask, add, and return the final text."""
    called = response_of(await events_of(provider, ASK))
    (call,) = called.message.tool_calls
    final = response_of(
        await events_of(provider, answered(called, str(call.arguments["left"] + call.arguments["right"])))
    )
    return final.message.content.strip()


async def test_the_model_calls_the_tool_and_reads_its_result(provider: OpenAIProvider) -> None:
    events = await events_of(provider, ASK)
    called = response_of(events)
    (call,) = called.message.tool_calls
    assert (call.name, call.arguments, call.error) == ("add", {"left": 20, "right": 22}, None)
    assert call.id and called.stop is not None and called.stop.reason is StopReason.TOOL_USE
    assert len([event for event in events if event.type is ModelEventType.TOOL_CALL_DELTA]) > 3

    events = await events_of(provider, answered(called, "42"))
    final = response_of(events)
    texts = [event.delta for event in events if event.type is ModelEventType.TEXT_DELTA]
    assert "".join(texts).strip() == final.message.content.strip() == ANSWER and len(texts) > 3
    assert final.stop is not None and final.stop.reason is StopReason.END_TURN


async def test_usage_is_reported(provider: OpenAIProvider) -> None:
    first = response_of(await events_of(provider, ASK)).usage
    second = response_of(await events_of(provider, ASK)).usage
    assert first.input_tokens > 100 and 10 < first.output_tokens <= 60
    assert first.cache_reported and second.cache_read_tokens > 100


async def test_args_08_a_call_cut_by_the_limit_is_a_truncated_step_with_an_error(model_server: LocalModel) -> None:
    async with connected(model_server, max_tokens=25) as provider:
        response = response_of(await events_of(provider, ASK))
    assert response.stop is not None and response.stop.reason is StopReason.MAX_OUTPUT
    assert response.usage.output_tokens == 25
    assert all(call.error and not call.arguments for call in response.message.tool_calls)


async def test_closing_in_mid_stream_leaves_the_server_usable(provider: OpenAIProvider) -> None:
    for _ in range(6):  # more often than the server has slots
        async with aclosing(provider.stream(RAMBLE)) as stream:
            assert (await anext(stream)).delta
    assert await round_trip(provider) == ANSWER


async def test_four_at_once_each_get_their_answer(provider: OpenAIProvider) -> None:
    assert await asyncio.gather(*(round_trip(provider) for _ in range(4))) == [ANSWER] * 4


async def test_a_request_that_does_not_fit_the_context_ends_with_that_stop(provider: OpenAIProvider) -> None:
    response = response_of(await events_of(provider, ModelRequest([UserMessage(content="sea " * 20_000)])))
    assert response.stop is not None and response.stop.reason is StopReason.CONTEXT_FULL


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
async def test_the_provider_passes_the_model_checks(model_server: LocalModel, check: ModelCheck) -> None:
    other = ModelRequest([UserMessage(content="Use add to compute 3 plus 4.")])
    await check(ModelSubject(lambda: connected(model_server, max_tokens=40), RAMBLE, other, ASK))
