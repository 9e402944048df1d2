"""The model that plays a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from zett_agent import testing
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, ModelUsage, RetryOptions, ToolCallDelta
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import (
    FunctionModel,
    ScriptedModel,
    ScriptError,
    call,
    deltas,
    end,
    error,
    raw_call,
    reasoning,
    stall,
    stop,
    text,
    usage,
)

REQUEST = ModelRequest((UserMessage(content="hi"),))


async def played(model: Any, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    """What one call of the model yields."""
    events: list[ModelEvent] = []
    async with aclosing(model.stream(request)) as stream:
        async for event in stream:
            events.append(event)
    return events


async def response(*pieces: Any) -> ModelResponse:
    """The response that the pieces add up to."""
    events = await played(ScriptedModel(list(pieces)))
    assert events[-1].response is not None
    return events[-1].response


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (["hello world"], ["hello", " world"]),
        (["  hello  world \n"], ["  hello", "  world", " \n"]),
        (["ab", "c d"], ["ab", "c d"]),
        ([""], [""]),
        (["   "], ["   "]),
        ([], []),
    ],
)
async def test_text_is_streamed_by_words_or_as_it_is_given(given: list[str], parts: list[str]) -> None:
    events = await played(ScriptedModel([text(*given), reasoning(*given)]))
    assert [event.delta for event in events[:-1]] == parts * 2
    made = events[-1].response
    assert made is not None
    assert made.message.content == "".join(given)
    assert made.message.reasoning == ("".join(given) or None)


async def test_calls_get_ids_in_the_order_they_are_made() -> None:
    model = ScriptedModel([call("a", x=1), call("b", id="own"), call("c")], [call("d")])
    first, second = (await played(model))[-1].response, (await played(model))[-1].response
    assert first is not None and second is not None
    assert first.message.tool_calls == (
        ToolCall("call_1", "a", {"x": 1}),
        ToolCall("own", "b"),
        ToolCall("call_2", "c"),
    )
    assert second.message.tool_calls == (ToolCall("call_3", "d"),)
    assert first.stop == StopInfo(StopReason.TOOL_USE)


async def test_a_raw_call_is_streamed_in_fragments() -> None:
    events = await played(ScriptedModel([call("a"), raw_call("add", '{"le', 'ft": 1}', id="x")]))
    assert [event.tool_call_delta for event in events[:-1]] == [
        ToolCallDelta(1, "x", "add", '{"le'),
        ToolCallDelta(1, arguments_delta='ft": 1}'),
    ]
    made = events[-1].response
    assert made is not None and made.message.tool_calls[1] == ToolCall("x", "add", '{"left": 1}')  # type: ignore[arg-type]


async def test_empty_fragments_are_not_streamed() -> None:
    events = await played(ScriptedModel([raw_call("now", ""), raw_call("now", "", "{}", "")]))
    assert [event.tool_call_delta for event in events[:-1]] == [
        ToolCallDelta(0, "call_1", "now"),
        ToolCallDelta(1, "call_2", "now"),
        ToolCallDelta(1, arguments_delta="{}"),
    ]


async def test_a_tool_call_is_taken_as_it_is() -> None:
    odd = ToolCall(None, "", None, "broken")  # type: ignore[arg-type]
    assert (await response(odd)).message.tool_calls == (odd,)


@pytest.mark.parametrize(
    ("reason", "raw", "classified"),
    [
        ("length", "length", "max_output"),
        (StopReason.REFUSAL, None, "refusal"),
        (StopInfo(StopReason.OTHER, "odd"), "odd", "other"),
    ],
)
async def test_the_stop_is_a_word_a_reason_or_a_whole_stop(reason: Any, raw: str | None, classified: str) -> None:
    made = await response(text("x"), stop(reason))
    assert made.finish_reason == raw and made.stop is not None and made.stop.reason == classified


async def test_usage_is_that_of_the_response() -> None:
    made = await response(text("x"), usage(10, 5, cached=3, reasoning=2))
    assert made.usage == ModelUsage(10, 5, cache_read_tokens=3, reasoning_tokens=2)
    assert usage() == ModelUsage()


async def test_a_response_among_the_deltas_stands_for_the_made_one() -> None:
    own = ModelEvent.completed(ModelResponse(AssistantMessage(content="own")))
    events = await played(ScriptedModel([deltas(ModelEvent.text("x"), own)]))
    assert events == [ModelEvent.text("x"), own]


async def test_the_stream_may_end_without_a_response_or_with_an_error() -> None:
    assert await played(ScriptedModel([text("x"), end(), text("never")])) == [ModelEvent.text("x")]
    with pytest.raises(ConnectionError, match="lost"):
        await played(ScriptedModel([text("x"), error(ConnectionError("lost"))]))


async def test_a_step_may_be_text_a_message_or_one_piece() -> None:
    message = AssistantMessage(content="a b", reasoning="hm", stop=StopInfo(StopReason.MAX_OUTPUT))
    model = ScriptedModel("just text", message, call("a"), (text("x"), call("b")), AssistantMessage())
    first = await played(model)
    assert [event.delta for event in first[:-1]] == ["just", " text"]
    second = await played(model)
    assert [event.delta for event in second[:-1]] == ["hm", "a", " b"]
    assert second[-1].response == ModelResponse(message, stop=message.stop)
    for _ in range(3):
        await played(model)
    model.assert_done()


async def test_a_step_refuses_what_is_no_piece() -> None:
    with pytest.raises(TypeError, match="not of int"):
        await played(ScriptedModel([3]))  # type: ignore[list-item]


async def test_a_stall_waits_until_it_is_released() -> None:
    own = asyncio.Event()
    for held in (stall(), stall(own)):
        model = ScriptedModel([text("a"), held, text("b")])
        playing = asyncio.ensure_future(played(model))
        await held.reached.wait()
        assert not playing.done()
        if held.released is own:
            own.set()
        else:
            held.release()
        assert [event.delta for event in (await playing)[:-1]] == ["a", "b"]


async def test_the_requests_are_kept_and_may_be_seen_before_the_step_is_played() -> None:
    seen: list[str] = []

    async def later(request: ModelRequest) -> None:
        seen.append("async")

    plain = ScriptedModel("x", retry=RetryOptions(max_retries=0), on_request=lambda request: seen.append("plain"))
    await played(plain)
    await played(ScriptedModel("x", on_request=later))
    assert plain.requests == [REQUEST] and plain.retry.max_retries == 0
    assert seen == ["plain", "async"]


async def test_a_call_without_a_step_fails_and_says_which() -> None:
    model = ScriptedModel("one")
    await played(model)
    with pytest.raises(
        ScriptError, match=r"model call 2 has no step: the script has 1; the last message is UserMessage"
    ):
        await played(model)
    with pytest.raises(ScriptError, match="the model was called 2 times; the script has 1 steps"):
        model.assert_done()
    with pytest.raises(AssertionError, match="the last message is None"):
        await played(ScriptedModel(), ModelRequest(()))


async def test_steps_that_are_left_fail_the_test() -> None:
    model = ScriptedModel("one", "two")
    await played(model)
    assert model.remaining == 1
    with pytest.raises(AssertionError, match=r"1 of 2 steps were not played; next: \(Text\(deltas=\('two',\)\),\)"):
        model.assert_done()
    with pytest.raises(AssertionError, match="were not played"), ScriptedModel("one"):
        pass
    with ScriptedModel() as empty:
        empty.assert_done()


def test_leaving_with_an_error_does_not_hide_it_behind_the_steps_that_are_left() -> None:
    with pytest.raises(RuntimeError, match="mine"), ScriptedModel("one"):
        raise RuntimeError("mine")


def test_a_script_may_be_shared_by_threads() -> None:
    model = ScriptedModel(*[[call("a")]] * 80)
    ids: list[str] = []

    async def many() -> None:
        for _ in range(10):
            made = (await played(model))[-1].response
            assert made is not None
            ids.extend(entry.id for entry in made.message.tool_calls)

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 80
    model.assert_done()


async def test_closing_the_stream_closes_what_feeds_it() -> None:
    closed: list[str] = []

    async def pieces() -> AsyncIterator[Any]:
        try:
            yield text("a")
            yield text("b")
        finally:
            closed.append("pieces")

    model = FunctionModel(lambda request: pieces())
    stream = model.stream(REQUEST)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert closed == ["pieces"]


def _generated() -> Iterator[Any]:
    yield text("one")
    yield text("two")


async def _awaited() -> str:
    return "awaited"


class _Pieces:
    """An async iterable that is no generator."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[Any]:
        yield text("x")


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (lambda: "hello", "hello"),
        (lambda: AssistantMessage(content="whole"), "whole"),
        (lambda: [text("a"), text("b")], "ab"),
        (_generated, "onetwo"),
        (_awaited, "awaited"),
        (_Pieces, "x"),
    ],
)
async def test_a_function_model_takes_every_kind_of_answer(answer: Any, content: str) -> None:
    model = FunctionModel(lambda request: answer(), retry=RetryOptions(max_retries=1))
    made = (await played(model))[-1].response
    assert made is not None and made.message.content == content
    assert model.requests == [REQUEST] and model.retry.max_retries == 1


def test_the_package_names_everything_it_offers() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    for name in testing.__all__:
        assert getattr(testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(testing, "nothing")  # noqa: B009
