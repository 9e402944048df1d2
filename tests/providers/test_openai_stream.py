"""What comes back from OpenAIProvider for the bytes that a service sends."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.conftest import Connect
from tests.providers.replay import DONE, Reply, bytewise, call, calls, delta, sse, text_reply
from zett_agent.exceptions import (
    ProviderAuthError,
    ProviderError,
    ProviderHTTPError,
    ProviderResponseError,
    ProviderTimeoutError,
)
from zett_agent.messages import ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelEventType, ModelRequest, ModelResponse, RetryOptions, TimeoutOptions
from zett_agent.providers.openai import OpenAIProvider
from zett_agent.stop import StopReason

REQUEST = ModelRequest([UserMessage(content="q")])
JSON = {"content-type": "application/json"}
# Three texts, one call in three pieces, usage without choices: each event is in a piece of its own.
CHUNKS: list[Any] = [
    {"choices": [], "prompt_filter_results": []},
    delta("", role="assistant"),
    delta("naïve "),
    delta("🙂"),
    calls(call("", index=0, id="c1", name="add", type="function")),
    calls(call('{"left":', index=0)),
    calls(call("1}", index=0)),
    delta(finish="tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
]
ANSWER = sse(*CHUNKS)


async def events_of(provider: OpenAIProvider, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    async with aclosing(provider.stream(request)) as stream:
        return [event async for event in stream]


async def response_of(provider: OpenAIProvider, request: ModelRequest = REQUEST) -> ModelResponse:
    events = await events_of(provider, request)
    assert [event.type for event in events].count(ModelEventType.RESPONSE) == 1
    response = events[-1].response
    assert response is not None
    return response


async def failure_of(provider: OpenAIProvider) -> tuple[list[ModelEvent], ProviderError]:
    seen: list[ModelEvent] = []
    with pytest.raises(ProviderError) as caught:
        async with aclosing(provider.stream(REQUEST)) as stream:
            async for event in stream:
                seen.append(event)
    return seen, caught.value


def check_answer(response: ModelResponse) -> None:
    assert response.message.content == "naïve 🙂"
    assert response.message.tool_calls == [ToolCall("c1", "add", {"left": 1})]
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 5)
    assert response.stop is not None and response.stop.reason is StopReason.TOOL_USE


async def test_the_request_is_a_post_with_the_key_and_the_extras(connect: Connect) -> None:
    peer = await connect(
        Reply([ANSWER]),
        temperature=0,
        max_tokens=9,
        stop="###",
        extra_headers={"X-Team": "blue"},
        extra_query={"api-version": "1"},
        extra_body={"top_p": 0.5},
    )
    await response_of(peer.provider)
    (request,) = peer.server.requests
    assert request.target == "/v1/chat/completions?api-version=1"
    assert request.headers["authorization"] == "Bearer zz-SECRET-123"
    assert (request.headers["x-team"], request.headers["content-type"]) == ("blue", "application/json")
    assert request.json == {
        "model": "m-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": 9,
        "stop": ["###"],
        "top_p": 0.5,
        "messages": [{"role": "user", "content": "q"}],
    }


async def test_net_04_two_providers_send_the_same_bytes(connect: Connect) -> None:
    first, second = await connect(Reply([ANSWER])), await connect(Reply([ANSWER]))
    for peer in (first, second):
        await response_of(peer.provider)
    assert first.server.requests[0].body == second.server.requests[0].body


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([ANSWER], id="whole"),
        pytest.param(list(bytewise(ANSWER)), id="byte by byte"),
        pytest.param([ANSWER.replace(b"\n", b"\r\n")], id="CRLF"),
        pytest.param([b"\xef\xbb\xbf", ANSWER], id="BOM"),
        pytest.param([b": ping\n\ndata:\n\nevent: ping\ndata: \n\n", ANSWER], id="comments and pings"),
        pytest.param([ANSWER.removesuffix(b"\n\n")], id="no last empty line"),
        pytest.param([sse(*CHUNKS, done=False)], id="no [DONE]"),
        pytest.param([ANSWER, b"data: {not even json\n\n"], id="junk after [DONE]"),
        pytest.param([sse(*CHUNKS, done=False), b'data: {"usa'], id="cut after the usage"),
    ],
)
@pytest.mark.parametrize("chunked", [True, False])
async def test_stream_07_an_answer_reads_the_same_however_it_is_sent(
    connect: Connect, pieces: list[bytes], chunked: bool
) -> None:
    peer = await connect(Reply(pieces, chunked=chunked))
    check_answer(await response_of(peer.provider))


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "text/plain", ""])
async def test_the_content_type_of_a_stream_may_be_off(connect: Connect, kind: str) -> None:
    peer = await connect(Reply([ANSWER], headers={"content-type": kind}))
    check_answer(await response_of(peer.provider))


@pytest.mark.parametrize("size", range(len(CHUNKS)))
@pytest.mark.parametrize("ends", ["whole", "cut"])
async def test_stream_05_a_stream_cut_after_any_event_is_never_a_normal_end(
    connect: Connect, size: int, ends: str
) -> None:
    peer = await connect(Reply([sse(chunk, done=False) for chunk in CHUNKS[:size]], ends=ends))
    if size == len(CHUNKS) - 1:  # the finish reason came, only the usage is missing
        response = await response_of(peer.provider)
        assert response.usage.input_tokens == 0 and response.message.content == "naïve 🙂"
        return
    seen, error = await failure_of(peer.provider)
    assert type(error) is ProviderResponseError
    assert not any(event.type is ModelEventType.RESPONSE for event in seen)
    assert len(peer.server.requests) == (1 if seen else 3)


async def test_stream_05_a_stream_cut_before_visible_output_is_tried_again(connect: Connect) -> None:
    peer = await connect(
        Reply([sse(*CHUNKS[:2], done=False)]), Reply(ends="cut"), Reply(), Reply([ANSWER]), retry=RetryOptions(0, 0, 3)
    )
    check_answer(await response_of(peer.provider))
    assert len(peer.server.requests) == 4


async def test_a_last_event_without_an_empty_line_counts(connect: Connect) -> None:
    whole = sse(delta("all", finish="stop"), done=False)
    peer = await connect(Reply([whole.removesuffix(b"\n\n")]))
    events = await events_of(peer.provider)
    assert [event.delta for event in events] == ["all", ""]


async def test_stream_25_done_without_a_finish_reason_is_an_end(connect: Connect) -> None:
    peer = await connect(Reply([sse(delta("x"))]))
    response = await response_of(peer.provider)
    assert response.finish_reason is None and response.stop is not None and response.stop.reason is StopReason.END_TURN


async def test_stream_09_an_error_event_before_output_is_tried_again(connect: Connect) -> None:
    overloaded = b'event: error\ndata: {"type":"overloaded_error","message":"busy"}\n\n'
    peer = await connect(Reply([overloaded]), Reply([ANSWER]))
    check_answer(await response_of(peer.provider))


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"code": 503, "message": "busy"}},
        {"object": "error", "message": "busy", "code": 503},
        {"error": {"code": 503, "message": "busy"}, **delta("", finish="error")},
    ],
)
async def test_stream_09_an_error_event_after_output_is_a_typed_error(connect: Connect, event: dict[str, Any]) -> None:
    peer = await connect(Reply([sse(delta("half"), event)]), Reply([ANSWER]))
    seen, error = await failure_of(peer.provider)
    assert [item.delta for item in seen] == ["half"] and len(peer.server.requests) == 1
    assert isinstance(error, ProviderHTTPError) and (error.status_code, error.preview) == (503, "busy")
    check_answer(await response_of(peer.provider))


async def test_an_auth_error_event_is_an_auth_error(connect: Connect) -> None:
    peer = await connect(Reply([sse({"error": {"code": "invalid_api_key", "message": "who?"}})]))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderAuthError)


@pytest.mark.parametrize("data", ["{not json", "[1]", '"text"', "12"])
async def test_an_event_that_is_no_object_is_a_typed_error_and_tried_again(connect: Connect, data: str) -> None:
    peer = await connect(Reply([f"data: {data}\n\n".encode()]))
    _, error = await failure_of(peer.provider)
    assert type(error) is ProviderResponseError and data.strip('"') in str(error) and len(peer.server.requests) == 3


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_are_an_auth_error_and_not_tried_again(connect: Connect, status: int) -> None:
    peer = await connect(Reply([b'{"error":{"message":"bad key"}}'], status=status, headers=JSON))
    _, error = await failure_of(peer.provider)
    assert type(error) is ProviderAuthError and "bad key" in str(error) and len(peer.server.requests) == 1


@pytest.mark.parametrize(("status", "attempts"), [(400, 1), (404, 1), (408, 3), (409, 3), (429, 3), (500, 3), (529, 3)])
async def test_net_01_a_status_is_typed_and_tried_again_when_that_may_help(
    connect: Connect, status: int, attempts: int
) -> None:
    peer = await connect(Reply([b'{"error":{"message":"because"}}'], status=status, headers=JSON))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderHTTPError) and (error.status_code, error.preview) == (status, "because")
    assert type(error.__cause__).__module__ == "openai" and len(peer.server.requests) == attempts


async def test_net_01_an_exhausted_quota_is_not_tried_again(connect: Connect) -> None:
    peer = await connect(Reply([b'{"error":{"message":"pay","code":"insufficient_quota"}}'], status=429, headers=JSON))
    await failure_of(peer.provider)
    assert len(peer.server.requests) == 1


async def test_c03_retry_after_is_honoured(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    peer = await connect(Reply([b"{}"], status=429, headers={**JSON, "Retry-After": "0.3"}), Reply([ANSWER]))
    caplog.set_level("INFO", "zett_agent.providers")
    check_answer(await response_of(peer.provider))
    (said,) = [record.getMessage() for record in caplog.records if "retry 1" in record.getMessage()]
    assert float(said.rpartition(" in ")[2].split()[0]) >= 0.3


async def test_an_html_error_page_is_reduced_to_its_title(connect: Connect) -> None:
    page = b"<html><title>502 Bad Gateway</title><body>" + b"x" * 9000
    peer = await connect(Reply([page], status=502, headers={"content-type": "text/html"}))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderHTTPError) and error.is_html and error.preview == "502 Bad Gateway"


@pytest.mark.parametrize(
    ("kind", "page", "is_html", "preview"),
    [
        ("text/html", b"<html><title>Log in</title></html>", True, "Log in"),
        ("application/json", b'{"object":"chat.completion"}', False, '{"object": "chat.completion"}'),
        ("text/html", b"<p>" + b"words " * 9000, True, None),
        ("", b"<!DOCTYPE html><title>Log in</title>", True, "Log in"),
        ("text/plain", b"go away", False, "go away"),
    ],
)
async def test_something_else_instead_of_a_stream_is_an_http_error_with_a_bounded_preview(
    connect: Connect, kind: str, page: bytes, is_html: bool, preview: str | None
) -> None:
    peer = await connect(Reply([page], headers={"content-type": kind}))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderHTTPError) and error.status_code == 200 and error.is_html is is_html
    assert len(error.preview) < 400 and (preview is None or error.preview == preview)
    assert len(peer.server.requests) == 1


async def test_an_error_object_instead_of_a_stream_is_classified(connect: Connect) -> None:
    peer = await connect(Reply([b'{"error":{"message":"busy","code":503}}'], headers=JSON), Reply([ANSWER]))
    check_answer(await response_of(peer.provider))


async def test_an_empty_body_is_a_typed_error_and_tried_again(connect: Connect) -> None:
    peer = await connect(Reply())
    _, error = await failure_of(peer.provider)
    assert type(error) is ProviderResponseError and len(peer.server.requests) == 3


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (400, {"code": "content_filter", "message": "no"}, StopReason.REFUSAL),
        (403, {"message": "no", "metadata": {"reasons": ["x"]}}, StopReason.REFUSAL),
        (400, {"code": "context_length_exceeded", "message": "no"}, StopReason.CONTEXT_FULL),
    ],
)
async def test_c15_a_request_that_is_refused_for_what_it_says_ends_with_a_stop(
    connect: Connect, status: int, error: dict[str, Any], reason: StopReason
) -> None:
    peer = await connect(Reply([json.dumps({"error": error}).encode()], status=status, headers=JSON))
    response = await response_of(peer.provider)
    assert response.message.content == "" and response.stop is not None
    assert (response.stop.reason, response.stop.message) == (reason, "no")


async def test_c02_a_refused_connection_is_typed_and_tried_again(connect: Connect) -> None:
    peer = await connect(Reply([ANSWER]))
    provider = OpenAIProvider("m", "k", base_url="http://127.0.0.1:9/v1", retry=peer.provider.retry)
    async with provider:
        _, error = await failure_of(provider)
    assert type(error) is ProviderResponseError and "cannot reach http://127.0.0.1:9/v1" in str(error)
    assert type(error.__cause__).__name__ == "APIConnectionError"


async def test_c02_a_connection_broken_in_mid_stream_is_typed(connect: Connect) -> None:
    peer = await connect(Reply([sse(delta("half"), done=False)], ends="cut"))
    seen, error = await failure_of(peer.provider)
    assert [event.delta for event in seen] == ["half"]
    assert type(error) is ProviderResponseError and "connection broke" in str(error) and error.__cause__ is not None


async def test_a_silent_server_is_a_first_byte_timeout_and_not_tried_again(connect: Connect) -> None:
    peer = await connect(Reply(silent=True), timeout=TimeoutOptions(first_byte=0.1))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderTimeoutError) and (error.phase, error.seconds) == ("first_byte", 0.1)
    assert len(peer.server.requests) == 1


@pytest.mark.parametrize("pieces", [[], [sse(delta("half"), done=False)]])
async def test_a_server_that_falls_silent_is_an_idle_timeout(connect: Connect, pieces: list[bytes]) -> None:
    peer = await connect(Reply(pieces, ends="stalls"), timeout=TimeoutOptions(idle=0.1))
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderTimeoutError) and (error.phase, error.seconds) == ("idle", 0.1)
    await asyncio.wait_for(peer.server.dropped.wait(), 2)


async def test_a_page_that_falls_silent_is_an_idle_timeout(connect: Connect) -> None:
    peer = await connect(
        Reply([b"<html>"], headers={"content-type": "text/html"}, ends="stalls"), timeout=TimeoutOptions(idle=0.1)
    )
    _, error = await failure_of(peer.provider)
    assert isinstance(error, ProviderTimeoutError)


@pytest.mark.parametrize("tail", [[], [DONE]])
async def test_a_whole_answer_is_not_held_back_by_a_connection_that_stays_open(
    connect: Connect, tail: list[bytes]
) -> None:
    peer = await connect(Reply([sse(*CHUNKS, done=False), *tail], ends="stalls"), timeout=TimeoutOptions(idle=0.2))
    check_answer(await response_of(peer.provider))


async def test_pings_keep_a_slow_answer_alive(connect: Connect) -> None:
    peer = await connect(Reply([b": ping\n\n"] * 50 + [ANSWER]), timeout=TimeoutOptions(idle=1, first_byte=None))
    check_answer(await response_of(peer.provider))


async def test_cancel_04_closing_the_stream_drops_the_connection_and_leaves_the_provider_usable(
    connect: Connect,
) -> None:
    peer = await connect(Reply([sse(delta("half"), done=False)], ends="stalls"), Reply([ANSWER]))
    async with aclosing(peer.provider.stream(REQUEST)) as stream:
        assert (await anext(stream)).delta == "half"
    await asyncio.wait_for(peer.server.dropped.wait(), 2)
    check_answer(await response_of(peer.provider))


@pytest.mark.parametrize("reply", [Reply(silent=True), Reply([sse(delta("x"), done=False)], ends="stalls")])
async def test_cancelling_ends_the_request_at_once(connect: Connect, reply: Reply) -> None:
    peer = await connect(reply)
    task = asyncio.ensure_future(events_of(peer.provider))
    await peer.server.received.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(peer.server.dropped.wait(), 2)


async def test_answers_in_a_row_use_one_connection(connect: Connect) -> None:
    peer = await connect(text_reply("one two"))
    for _ in range(3):
        assert (await response_of(peer.provider)).message.content == "one two"
    assert peer.server.connections == 1


async def test_loop_05_concurrent_answers_do_not_mix(connect: Connect) -> None:
    peer = await connect(lambda request: text_reply(f"echo of {request.json['messages'][0]['content']}"))
    requests = [ModelRequest([UserMessage(content=f"number {number}")]) for number in range(20)]
    responses = await asyncio.gather(*(response_of(peer.provider, request) for request in requests))
    assert [response.message.content for response in responses] == [f"echo of number {number}" for number in range(20)]
