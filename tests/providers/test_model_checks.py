"""The exported conformance checks: OpenAIProvider passes them, and each finds the fault that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.providers.replay import ReplayServer, Reply, Request, call, calls, delta, in_a_thread, sse, text_reply
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    AgentModel,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    RetryOptions,
    ToolCallDelta,
    ToolDefinition,
)
from zett_agent.providers.openai import OpenAIProvider
from zett_agent.testing import models as checks
from zett_agent.testing.models import MODEL_CHECKS, ModelCheck, ModelSubject, check_model

ADD = ToolDefinition("add", "Add.", {"type": "object"})
TEXT = ModelRequest([UserMessage(content="say one two")])
OTHER = ModelRequest([UserMessage(content="say three four five")])
CALL = ModelRequest([UserMessage(content="add")], [ADD])


def serve(request: Request) -> Reply:
    asked = request.json["messages"][-1]["content"]
    if asked != "add":
        return text_reply(asked.removeprefix("say "), usage={"prompt_tokens": 3, "completion_tokens": 2})
    chunks = [calls(call('{"left":', index=0, id="c1", name="add")), calls(call("1}", index=0))]
    return Reply([sse(*chunks, delta(finish="tool_calls"))])


@asynccontextmanager
async def openai_provider() -> AsyncIterator[AgentModel]:
    # The server has a loop of its own: the checks count the asyncio tasks of theirs.
    with in_a_thread(ReplayServer(serve)) as server:
        async with OpenAIProvider("m", "k", base_url=server.url) as provider:
            yield provider


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
async def test_the_openai_provider_passes(check: ModelCheck) -> None:
    await check(ModelSubject(openai_provider, TEXT, OTHER, CALL))


async def test_all_checks_can_be_run_at_once() -> None:
    await check_model(ModelSubject(openai_provider, TEXT, OTHER, CALL))


def answer(content: str = "", *tool_calls: ToolCall) -> ModelEvent:
    return ModelEvent.completed(ModelResponse(AssistantMessage(content=content, tool_calls=tool_calls)))


class Model:
    """A correct model, but for what a subclass breaks."""

    retry: RetryOptions = DEFAULT_RETRY_OPTIONS

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        asked = request.messages[-1]
        assert isinstance(asked, UserMessage)
        if request.tools:
            yield ModelEvent.tool_call(ToolCallDelta(0, "c1", "add"))
            yield answer("", ToolCall("c1", "add", {"left": 1}))
            return
        words = asked.text.split()
        for word in words:
            await asyncio.sleep(0.001)
            yield ModelEvent.text(word)
        yield answer("".join(words))


class TwoResponses(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield answer()
        yield answer()


class TextAfterTheResponse(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield answer()
        yield ModelEvent.text("late")


class NoResponse(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelEvent.text("a")


class LostDelta(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelEvent.text("a")
        yield answer("ab")


class AllAtOnce(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelEvent.text("ab")
        yield answer("ab")


class WrongName(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelEvent.tool_call(ToolCallDelta(0, "c1", "ad"))
        yield answer("", ToolCall("c1", "add"))


class NoCall(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield answer("I would rather not")


class SameAnswer(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelEvent.text("same")
        yield answer("same")


class InventedArguments(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield answer("", ToolCall("c1", "add", {"left": 1}, error="broken"))


class LeavesATask(Model):
    def __init__(self) -> None:
        self.left: list[asyncio.Task[None]] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.left.append(asyncio.create_task(asyncio.sleep(60)))
        async for event in super().stream(request):
            yield event


class SharesItsState(Model):
    def __init__(self) -> None:
        self.words: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.words = []
        async for event in super().stream(request):
            self.words.append(event.delta)
            yield event if event.response is None else answer("".join(self.words))
            if self.words and event.response is None:
                self.words[-1] = self.words[-1].upper()


class SwallowsCancellation(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        try:
            async for event in super().stream(request):
                yield event
        except asyncio.CancelledError:
            raise RuntimeError("the connection broke") from None


class NeverEnds(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        try:
            async for event in super().stream(request):
                yield event
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)


class ChangesTheRequest(Model):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        async for event in super().stream(request):
            yield event
        request.messages[-1].attributes["seen"] = True


class NoGenerator(Model):
    def stream(self, request: ModelRequest) -> Any:
        return iter(())


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


@pytest.mark.parametrize(
    ("make", "check", "says"),
    [
        (TwoResponses, checks.check_one_response_comes_last, "exactly one"),
        (NoResponse, checks.check_one_response_comes_last, "exactly one"),
        (TextAfterTheResponse, checks.check_one_response_comes_last, "last"),
        (NoGenerator, checks.check_one_response_comes_last, "aclose"),
        (NoResponse, checks.check_deltas_add_up_to_the_response, "carry the response"),
        (LostDelta, checks.check_deltas_add_up_to_the_response, "text"),
        (WrongName, checks.check_deltas_add_up_to_the_response, "names"),
        (AllAtOnce, checks.check_text_is_streamed, "two text deltas"),
        (NoCall, checks.check_calls_have_parsed_arguments, "a call was due"),
        (InventedArguments, checks.check_calls_have_parsed_arguments, "no arguments"),
        (LeavesATask, checks.check_closing_early_is_clean, "tasks were left"),
        (SharesItsState, checks.check_concurrent_streams_do_not_mix, "at once"),
        (SameAnswer, checks.check_concurrent_streams_do_not_mix, "differently"),
        (NeverEnds, checks.check_cancellation_propagates, "must end"),
        (ChangesTheRequest, checks.check_requests_are_not_changed, "messages after"),
    ],
)
async def test_each_check_finds_its_fault(
    make: Callable[[], Model], check: ModelCheck, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_SETTLE", 0.1)
    before, model = asyncio.all_tasks(), make()

    @asynccontextmanager
    async def made() -> AsyncIterator[AgentModel]:
        yield model

    with pytest.raises(AssertionError, match=says):
        await check(ModelSubject(made, TEXT, OTHER, ModelRequest([UserMessage(content="add")], [ADD])))
    await _ended(asyncio.all_tasks() - before)


async def test_an_error_instead_of_a_cancellation_is_shown() -> None:
    @asynccontextmanager
    async def made() -> AsyncIterator[AgentModel]:
        yield SwallowsCancellation()

    with pytest.raises(RuntimeError, match="the connection broke"):
        await checks.check_cancellation_propagates(ModelSubject(made, TEXT, OTHER, CALL))


async def test_a_correct_model_passes_them_all() -> None:
    @asynccontextmanager
    async def made() -> AsyncIterator[AgentModel]:
        yield Model()

    await check_model(ModelSubject(made, TEXT, OTHER, CALL))
