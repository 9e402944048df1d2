"""The behaviour that every model must have, as checks that run under any test framework.

With pytest::

    @pytest.mark.parametrize("check", MODEL_CHECKS)
    async def test_my_model(check):
        await check(ModelSubject(make, text=..., other_text=..., call=...))

The peer behind the model may be a fake or the real service, as long as it gives the same answer to the same request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from zett_agent.json_types import json_object
from zett_agent.model import AgentModel, ModelEvent, ModelEventType, ModelRequest, ModelResponse, ToolCallDelta
from zett_agent.stop import StopReason

_BOUND = 30.0  # seconds that an answer may take
_SETTLE = 2.0  # seconds until what was cancelled must be gone


@dataclass(frozen=True)
class ModelSubject:
    """What is checked.

    ``make`` gives the model, ready within ``async with``. It must answer ``text`` with text in two deltas or more,
    ``other_text`` with another text, and ``call`` with at least one tool call.
    """

    make: Callable[[], AbstractAsyncContextManager[AgentModel]]
    text: ModelRequest
    other_text: ModelRequest
    call: ModelRequest


ModelCheck = Callable[[ModelSubject], Awaitable[None]]


async def check_model(subject: ModelSubject) -> None:
    """Run every check, one after another; AssertionError says what does not hold."""
    for check in MODEL_CHECKS:
        await check(subject)


async def check_one_response_comes_last(subject: ModelSubject) -> None:
    """A stream has exactly one RESPONSE, and nothing after it."""
    async with subject.make() as model:
        _require(isinstance(model, AgentModel), "the model has no retry or no stream")
        for request in (subject.text, subject.call):
            kinds = [event.type for event in await _events(model, request)]
            _require(kinds.count(ModelEventType.RESPONSE) == 1, f"exactly one RESPONSE was due, there was {kinds}")
            _require(kinds[-1] is ModelEventType.RESPONSE, f"the RESPONSE must come last, there was {kinds}")


async def check_deltas_add_up_to_the_response(subject: ModelSubject) -> None:
    """What was streamed is what the response says, text, reasoning and calls."""
    async with subject.make() as model:
        for request in (subject.text, subject.call):
            events = await _events(model, request)
            message = _response(events).message
            _equal(_joined(events, ModelEventType.TEXT_DELTA), message.content, "text")
            _equal(_joined(events, ModelEventType.REASONING_DELTA), message.reasoning or "", "reasoning")
            names: dict[int, str] = {}
            for delta in _call_deltas(events):
                names[delta.index] = names.get(delta.index, "") + delta.name_delta
            if names:
                calls = dict(enumerate(call.name for call in message.tool_calls))
                _equal(names, calls, "names of the calls")


async def check_text_is_streamed(subject: ModelSubject) -> None:
    """An answer comes in pieces, none of them empty."""
    async with subject.make() as model:
        deltas = [event.delta for event in await _events(model, subject.text) if _is_text(event)]
        _require(len(deltas) >= 2, f"two text deltas or more were due, there was {deltas}")
        _require(all(deltas), f"no delta may be empty, there was {deltas}")


async def check_calls_have_parsed_arguments(subject: ModelSubject) -> None:
    """Each call has a name and a JSON object of arguments, or an error and none; the step asks for tools."""
    async with subject.make() as model:
        response = _response(await _events(model, subject.call))
        _require(bool(response.message.tool_calls), "a call was due")
        _require(
            response.stop is not None and response.stop.reason is StopReason.TOOL_USE, f"{response.stop} is no call"
        )
        for call in response.message.tool_calls:
            _require(bool(call.name), "a call has no name")
            json_object(call.arguments, field_name="arguments")
            _require(call.error is None or not call.arguments, "a call with an error must have no arguments")


async def check_closing_early_is_clean(subject: ModelSubject) -> None:
    """A stream that is closed after its first event leaves no asyncio task, and the model answers the next request."""
    async with subject.make() as model:
        whole = _response(await _events(model, subject.text)).message.content
        before = asyncio.all_tasks()
        async with aclosing(_stream(model, subject.text)) as stream:
            await asyncio.wait_for(anext(stream), _BOUND)
        await _settled(before)
        _equal(_response(await _events(model, subject.text)).message.content, whole, "answer after an early close")


async def check_concurrent_streams_do_not_mix(subject: ModelSubject) -> None:
    """Answers that are streamed at once are the same as when each is streamed alone."""
    async with subject.make() as model:
        requests = [subject.text, subject.other_text] * 2
        alone = [_response(await _events(model, request)).message.content for request in requests[:2]] * 2
        _require(alone[0] != alone[1], "text and other_text must be answered differently")
        together = await asyncio.gather(*(_events(model, request) for request in requests))
        _equal([_joined(events, ModelEventType.TEXT_DELTA) for events in together], alone, "answers streamed at once")


async def check_cancellation_propagates(subject: ModelSubject) -> None:
    """Cancelling ends a stream with CancelledError, wherever it waits, and leaves no asyncio task."""
    async with subject.make() as model:
        await _events(model, subject.text)
        before = asyncio.all_tasks()
        for delay in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016):
            task = asyncio.create_task(_events(model, subject.text))
            await asyncio.sleep(delay)
            task.cancel()
            _, pending = await asyncio.wait([task], timeout=_SETTLE)
            _require(not pending, "a cancelled stream must end")
            if not task.cancelled():
                _response(task.result())  # it had ended before; what it raised instead of CancelledError is raised here
        await _settled(before)
        _response(await _events(model, subject.text))


async def check_requests_are_not_changed(subject: ModelSubject) -> None:
    """A model treats the messages and tools of a request as shared, and gives the same answer again."""
    async with subject.make() as model:
        messages, tools = deepcopy(list(subject.call.messages)), deepcopy(list(subject.call.tools))
        first = _response(await _events(model, subject.call)).message.tool_calls
        second = _response(await _events(model, subject.call)).message.tool_calls
        _equal([call.arguments for call in second], [call.arguments for call in first], "calls of the second answer")
        _equal(list(subject.call.messages), messages, "messages after the answer")
        _equal(list(subject.call.tools), tools, "tools after the answer")


MODEL_CHECKS: tuple[ModelCheck, ...] = (
    check_one_response_comes_last,
    check_deltas_add_up_to_the_response,
    check_text_is_streamed,
    check_calls_have_parsed_arguments,
    check_closing_early_is_clean,
    check_concurrent_streams_do_not_mix,
    check_cancellation_propagates,
    check_requests_are_not_changed,
)
"""Every check, one per behaviour."""


def _stream(model: AgentModel, request: ModelRequest) -> Any:
    stream = model.stream(request)
    _require(hasattr(stream, "aclose"), "what stream() returns must have aclose(), as an async generator has")
    return stream


async def _events(model: AgentModel, request: ModelRequest) -> list[ModelEvent]:
    async with asyncio.timeout(_BOUND), aclosing(_stream(model, request)) as stream:
        return [event async for event in stream]


def _response(events: list[ModelEvent]) -> ModelResponse:
    response = events[-1].response if events else None
    if response is None:
        raise AssertionError("the last event must carry the response")
    return response


def _is_text(event: ModelEvent) -> bool:
    return event.type is ModelEventType.TEXT_DELTA


def _joined(events: list[ModelEvent], kind: ModelEventType) -> str:
    return "".join(event.delta for event in events if event.type is kind)


def _call_deltas(events: list[ModelEvent]) -> list[ToolCallDelta]:
    return [event.tool_call_delta for event in events if event.tool_call_delta is not None]


async def _settled(before: set[asyncio.Task[Any]]) -> None:
    """Wait until no asyncio task is left that was not there before."""
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=_SETTLE)
    left = asyncio.all_tasks() - before
    _require(not left, f"asyncio tasks were left: {left}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _equal(actual: object, expected: object, what: str) -> None:
    _require(actual == expected, f"{what}: expected {expected!r}, got {actual!r}")
