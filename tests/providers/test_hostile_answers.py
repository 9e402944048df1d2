"""A service that answers anything at all: typed errors, bounded waits, and no secret in what is shown."""

from __future__ import annotations

import asyncio
import json
import random
import time
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.conftest import AT_ONCE, KEY, Connect
from tests.providers.replay import DONE, Reply, call, calls, delta, sse, text_reply
from zett_agent import create_agent
from zett_agent.exceptions import ProviderError, ProviderHTTPError, ProviderResponseError
from zett_agent.messages import UserMessage
from zett_agent.model import ModelEvent, ModelRequest, RetryOptions, TimeoutOptions
from zett_agent.providers.chat_response import ResponseReader
from zett_agent.providers.chat_wire import ChatSettings
from zett_agent.providers.openai import OpenAIProvider

REQUEST = ModelRequest([UserMessage(content="q")])
HTML, JSON = {"content-type": "text/html"}, {"content-type": "application/json"}
ONCE = RetryOptions(max_retries=0)
ODD: list[Any] = [5, "x", True, [], [5], {}, None, 1.5, "\ud800", [None], [{}], 10**400]
SHORT = TimeoutOptions(connect=2, first_byte=2, idle=2)


async def ask(provider: OpenAIProvider) -> list[ModelEvent]:
    async with aclosing(provider.stream(REQUEST)) as stream:
        return [event async for event in stream]


async def refused(connect: Connect, reply: Reply, **options: Any) -> ProviderError:
    peer = await connect(reply, **{"retry": ONCE, **options})
    with pytest.raises(ProviderError) as caught:
        await ask(peer.provider)
    return caught.value


def surroundings(value: object) -> list[bytes]:
    """Streams in which ``value`` stands where another type belongs."""
    fragment = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    chunks: list[object] = [
        *({"choices": [{**choice, field: value}]} for field in (*choice, "usage")),
        *({"choices": [{**choice, "delta": {field: value}}]} for field in ("tool_calls", "content", "refusal")),
        *(calls({**fragment, field: value}, finish="tool_calls") for field in (*fragment, "extra_content")),
        *(calls({**fragment, "function": {field: value}}, finish="tool_calls") for field in ("name", "arguments")),
        *({"choices": [choice], field: value} for field in ("choices", "usage", "error", "object")),
        *({"choices": [choice], "usage": {field: value}} for field in ("prompt_tokens", "prompt_tokens_details")),
        {"error": {"message": value, "code": value, "type": value}},
        value,
    ]
    return [sse(json.dumps(chunk)) for chunk in chunks]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
async def test_net_a_field_of_another_type_is_read_past_or_a_typed_error(connect: Connect, value: object) -> None:
    streams = surroundings(value)
    peer = await connect(*(Reply([stream]) for stream in streams), retry=ONCE)
    for _ in streams:
        try:
            await ask(peer.provider)
        except ProviderError as error:
            assert str(error)


@pytest.mark.parametrize("depth", [101, 400, 900, 20_000])
async def test_deeply_nested_json_is_a_typed_error(connect: Connect, depth: int) -> None:
    nest = '{"a":' * depth + "1" + "}" * depth
    for data in (
        nest,
        '{"usage":' + nest + "}",
        '{"error":' + nest + "}",
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"extra_content":' + nest + '}]},"finish_reason":"stop"}]}',
    ):
        assert isinstance(await refused(connect, Reply([sse(data)])), ProviderResponseError)


@pytest.mark.parametrize("code", ["\u00b2\u00b3", "9" * 5000, "\u0664\u0660\u0661", "500 ", ""])
async def test_an_error_code_that_only_looks_like_a_status_is_none(connect: Connect, code: str) -> None:
    error = await refused(connect, Reply([sse({"error": {"code": code, "message": "m"}})]))
    assert isinstance(error, ProviderHTTPError) and error.status_code == 500


@pytest.mark.parametrize("key", ["0", "1", "e", "null", '"', "{", ":"])
async def test_a_key_that_is_part_of_json_breaks_no_error(connect: Connect, key: str) -> None:
    # Local servers take any key, and people give them short ones.
    peer = await connect(Reply([sse({"error": {"code": 400, "message": "bad 10"}})]))
    async with OpenAIProvider("m", key, base_url=peer.server.url, retry=ONCE) as provider:
        with pytest.raises(ProviderHTTPError) as caught:
            await ask(provider)
    assert caught.value.status_code == 400


SPELLINGS = {
    "in JSON with escaped slashes": (JSON, '{"error":{"message":"' + "sk/live-77".replace("/", "\\/") + '"}}'),
    "in JSON as code points": (
        JSON,
        '{"error":{"message":"' + "".join(f"\\u{ord(c):04x}" for c in "sk/live-77") + '"}}',
    ),
    "in HTML as entities": (HTML, "<title>" + "".join(f"&#{ord(c)};" for c in "sk/live-77") + "</title>"),
    "with invisible characters": (HTML, "<p>" + "\u200b".join("sk/live-77") + "</p>"),
    "across the end of a preview": ({"content-type": "text/plain"}, "x" * 295 + "sk/live-77"),
}


@pytest.mark.parametrize("status", [200, 401, 500])
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_sec_05_a_secret_that_comes_back_in_another_spelling_is_hidden(
    connect: Connect, spelling: str, status: int
) -> None:
    headers, body = SPELLINGS[spelling]
    peer = await connect(Reply([body.encode()], status=status, headers=headers))
    async with OpenAIProvider("m", "sk/live-77", base_url=peer.server.url, retry=ONCE) as provider:
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
    shown = "".join(traceback.format_exception(caught.value)) + getattr(caught.value, "preview", "")
    assert "live-77" not in shown and "sk/" not in shown


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_sec_05_a_redirect_is_an_error_and_takes_no_key_elsewhere(connect: Connect, status: int) -> None:
    elsewhere = await connect(text_reply("stolen"))
    location = {"location": f"{elsewhere.server.url}/chat/completions"}
    error = await refused(connect, Reply(status=status, headers=location), extra_headers={"X-Api-Key": KEY})
    assert isinstance(error, ProviderHTTPError) and error.status_code == status
    assert f"it redirects to {elsewhere.server.url}/chat/completions, which is not followed" in str(error)
    assert not elsewhere.server.requests


async def test_sec_05_a_header_with_blanks_around_it_is_sent_without_them(connect: Connect) -> None:
    peer = await connect(text_reply("fine"), extra_headers={"X-Api-Key": f" {KEY} "})
    await ask(peer.provider)
    assert peer.server.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n"])
def test_a_header_name_that_cannot_be_sent_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="extra_headers"):
        OpenAIProvider("m", "k", extra_headers={name: "v"})


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/\x01", "http://127.0.0.1:1/\x7f", "http://[::1]x/v1"])
async def test_a_base_url_that_the_client_library_refuses_is_a_typed_error(url: str) -> None:
    async with OpenAIProvider("m", "k", base_url=url, retry=ONCE, timeout=SHORT) as provider:
        with pytest.raises(ProviderResponseError, match="cannot reach"):
            await ask(provider)


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_an_event_without_an_end_is_given_up(connect: Connect, end: bytes) -> None:
    endless = [b"data: " + b"y" * 1_000_000 + end] * 40
    error = await refused(connect, Reply(endless))
    assert "sent an event of more than 33,554,432 bytes" in str(error)


async def test_a_page_that_comes_drop_by_drop_is_not_waited_for(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zett_agent.providers.chat_response._TAIL_SECONDS", 0.0)
    error = await refused(connect, Reply([b"{", b"never read"], headers=JSON, ends="stalls"))
    assert "with JSON instead of an event stream" in str(error)


@pytest.mark.parametrize("opening", ["<", "<h1 ", "<h1>", "<!--", "<script>", "<title>"])
async def test_markup_that_is_never_closed_costs_little(connect: Connect, opening: str) -> None:
    page = "<html>" + opening * 20_000
    before = time.thread_time()
    await refused(connect, Reply([page.encode()], status=500, headers=HTML))
    assert time.thread_time() - before < 0.5


class Unpacked:
    """A response whose body is one chunk."""

    status_code = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self._body


async def test_megabytes_that_arrive_at_once_leave_the_loop_to_others() -> None:
    reader = ResponseReader(ChatSettings(provider="p", model="m"), SHORT, ())
    turns = 0

    async def read() -> list[ModelEvent]:
        body = b"\n" * 2_000_000 + sse(delta("fine", finish="stop"))
        return [event async for event in reader.events(Unpacked(body))]

    reading = asyncio.create_task(read())
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 30 and (await reading)[0].delta == "fine"


async def test_halves_of_a_character_are_joined_and_lone_ones_replaced(connect: Connect) -> None:
    chunks = [
        delta("\ud83d"),
        delta("\ude00\ud800"),
        delta(" end\ud83d"),
        delta(reasoning="\ud83d"),
        delta(reasoning="\ude00"),
        calls(call('{"x": "\ud83d', index=0, id="a\ud800", name="f\ud800")),
        calls(call('\ude00"}', index=0)),
        delta(finish="stop"),
    ]
    events = await ask((await connect(Reply([sse(*map(json.dumps, chunks))]))).provider)
    assert "".join(event.delta for event in events if event.type.value == "text_delta") == "\U0001f600\ufffd end"
    response = events[-1].response
    assert response is not None
    message = response.message
    assert (message.content, message.reasoning) == ("\U0001f600\ufffd end", "\U0001f600")
    (found,) = message.tool_calls
    assert (found.id, found.name, found.arguments) == ("a\ufffd", "f\ufffd", {"x": "\U0001f600"})
    for event in events:
        fragment = event.tool_call_delta
        (event.delta + ("" if fragment is None else fragment.arguments_delta)).encode()


async def test_a_name_repeated_with_each_of_many_fragments_costs_little(connect: Connect) -> None:
    pieces = ["{", *(f'"k{number}": "{"y" * 20}", ' for number in range(8000)), '"z": 1}']
    stream = sse(*(calls(call(piece, name="f")) for piece in pieces), delta(finish="tool_calls"))
    before = time.thread_time()
    events = await ask((await connect(Reply([stream]))).provider)
    response = events[-1].response
    assert response is not None and len(response.message.tool_calls) == 1
    assert time.thread_time() - before < 5


def damaged(good: bytes, dice: random.Random) -> bytes:
    data = bytearray(good)
    for _ in range(dice.randrange(1, 10)):
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(4)] = dice.randbytes(dice.randrange(4))
    return bytes(data)


async def test_damaged_streams_give_an_answer_or_a_typed_error_and_the_session_goes_on(connect: Connect) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    good = sse(delta("The answer"), delta(" is 42.", finish="stop"), {"choices": [], "usage": {"prompt_tokens": 3}})
    peer = await connect(text_reply("first"), timeout=SHORT, retry=AT_ONCE)
    for number in range(60):
        status = dice.choice([200, 200, 200, 400, 500])
        chunked = dice.random() < 0.5
        peer.server.answers[:] = [Reply([damaged(good, dice)], status=status, chunked=chunked)]
        agent = await create_agent(peer.provider)
        try:
            await agent.run("q")
        except ProviderError as error:
            assert KEY not in "".join(traceback.format_exception(error)), number
        peer.server.answers[:] = [Reply([sse(delta("fine", finish="stop"), done=False), DONE])]
        assert (await agent.run("again")).content == "fine"
