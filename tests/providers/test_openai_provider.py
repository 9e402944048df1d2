"""The OpenAIProvider object: its arguments, its secrets, its clients, its imports."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import subprocess
import sys
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.providers.conftest import AT_ONCE, KEY, Connect
from tests.providers.replay import ReplayServer, Reply, in_a_thread, text_reply
from zett_agent.exceptions import ProviderAuthError, ProviderHTTPError, ProviderResponseError, ProviderTimeoutError
from zett_agent.messages import UserMessage
from zett_agent.model import AgentModel, ModelRequest, TimeoutOptions
from zett_agent.providers.openai import OpenAIProvider

REQUEST = ModelRequest([UserMessage(content="q")], cache_key="session-1")
CERTIFICATE = Path(__file__).with_name("loopback.pem")


async def ask(provider: OpenAIProvider, request: ModelRequest = REQUEST) -> str:
    async with aclosing(provider.stream(request)) as stream:
        return "".join([event.delta async for event in stream])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""),
        ("model", None),
        ("api_key", " "),
        ("api_key", "k\u00e9y"),
        ("api_key", "a\nb"),
        ("base_url", ""),
        ("base_url", "api.example.com"),
        ("base_url", "ftp://example.com"),
        ("base_url", "http://"),
        ("base_url", "http://[::1"),
        ("base_url", "http://h:0"),
        ("base_url", "http://h/v1?x=1"),
        ("base_url", "http://user:pass@h/v1"),
        ("temperature", -1),
        ("temperature", float("nan")),
        ("temperature", True),
        ("temperature", "hot"),
        ("stop", 3),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", [1]),
        ("retry", 3),
        ("timeout", 3),
        ("extra_headers", {"a": 1}),
        ("extra_headers", ["a"]),
        ("extra_headers", {"a": "\u00e9"}),
        ("extra_query", {1: "a"}),
        ("extra_body", {"messages": []}),
        ("extra_body", {"stream": False}),
        ("extra_body", {"a": object()}),
        ("extra_body", 3),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(field: str, value: Any) -> None:
    arguments: dict[str, Any] = {"model": "m", "api_key": "k", field: value}
    with pytest.raises(ValueError, match=field) as caught:
        OpenAIProvider(**arguments)
    assert "pass" not in str(caught.value) and "k\u00e9y" not in str(caught.value)


def test_it_is_an_agent_model_and_says_what_it_is() -> None:
    provider = OpenAIProvider(" m ", f" {KEY}\n", base_url="http://here/v1/")
    assert isinstance(provider, AgentModel)
    assert repr(provider) == "OpenAIProvider(model='m', base_url='http://here/v1')"
    assert (provider.model, provider.provider_name) == ("m", "openai")
    assert OpenAIProvider("m", "k").base_url == "https://api.openai.com/v1"


async def test_net_03_a_base_url_may_have_a_path_and_a_trailing_slash(connect: Connect) -> None:
    peer = await connect(text_reply("a"))
    async with OpenAIProvider("m", "k", base_url=f"{peer.server.url}/deep/er//") as provider:
        await ask(provider)
    assert peer.server.requests[0].target == "/v1/deep/er/chat/completions"


async def test_what_the_environment_says_about_openai_goes_to_no_other_service(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "for-openai-only")
    peer = await connect(text_reply("a"))
    await ask(peer.provider)
    (request,) = peer.server.requests
    assert "for-openai-only" not in [request.target, *request.headers.values()]


async def test_the_cache_key_is_sent_to_others_only_on_demand(connect: Connect) -> None:
    for switch, sent in ((None, None), (False, None), (True, "session-1")):
        peer = await connect(text_reply("a"), send_prompt_cache_key=switch)
        await ask(peer.provider)
        assert peer.server.bodies[0].get("prompt_cache_key") == sent


async def test_at_openai_the_cache_key_is_sent_and_the_limit_has_its_new_name(connect: Connect) -> None:
    peer = await connect(text_reply("a"))

    def redirected() -> httpx2.AsyncClient:
        async def divert(request: httpx2.Request) -> None:
            request.url = httpx2.URL(f"{peer.server.url}/chat/completions")

        return httpx2.AsyncClient(event_hooks={"request": [divert]})

    for switch, sent in ((None, "session-1"), (False, None)):
        async with OpenAIProvider(
            "m", "k", max_tokens=7, send_prompt_cache_key=switch, http_client=redirected
        ) as provider:
            await ask(provider)
        body = peer.server.bodies[-1]
        assert (body.get("prompt_cache_key"), body.get("max_completion_tokens")) == (sent, 7)
        assert "max_tokens" not in body


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_sec_05_rule_13_a_key_that_the_service_sends_back_is_shown_nowhere(
    connect: Connect, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f'{{"error":{{"message":"Authorization: Bearer {KEY}, hush-hush"}}}}'.encode()
    peer = await connect(
        Reply([echo], status=status, headers={"content-type": "application/json"}),
        extra_headers={"X-Auth-Token": "hush-hush"},
    )
    with pytest.raises((ProviderAuthError, ProviderHTTPError)) as caught:
        await ask(peer.provider)
    shown = "".join(traceback.format_exception(caught.value)) + repr(peer.provider) + caplog.text
    assert "***" in str(caught.value) and caplog.text
    assert KEY not in shown and "hush-hush" not in shown


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream"])
async def test_sec_05_a_key_in_a_page_or_in_a_stream_is_shown_nowhere(connect: Connect, kind: str) -> None:
    for data in (f"<p>{KEY}</p>", f"data: {KEY}\n\n", f'data: {{"error":"{KEY}"}}\n\n'):
        peer = await connect(Reply([data.encode()], headers={"content-type": kind}))
        with pytest.raises(ProviderResponseError) as caught:
            await ask(peer.provider)
        assert KEY not in "".join(traceback.format_exception(caught.value))


def test_loop_01_one_provider_serves_several_loops_one_after_another() -> None:
    with in_a_thread(ReplayServer(text_reply("hello"))) as server:
        provider = OpenAIProvider("m", "k", base_url=server.url)
        assert [asyncio.run(ask(provider)) for _ in range(3)] == ["hello"] * 3
        assert server.connections == 3
        gc.collect()


def test_loop_01_one_provider_serves_several_threads() -> None:
    with in_a_thread(ReplayServer(text_reply("hello"))) as server, ThreadPoolExecutor(4) as threads:
        provider = OpenAIProvider("m", "k", base_url=server.url)
        assert list(threads.map(lambda _: asyncio.run(ask(provider)), range(8))) == ["hello"] * 8


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of asyncio: the loop was closed with its connections open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loop_01_a_loop_that_was_closed_with_its_connections_is_let_go() -> None:
    with in_a_thread(ReplayServer(text_reply("hello"))) as server:
        provider = OpenAIProvider("m", "k", base_url=server.url)
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask(provider)) == "hello"
        loop.close()
        closed = weakref.ref(loop)
        del loop
        assert asyncio.run(ask(provider)) == "hello"
        gc.collect()
        assert closed() is None


async def test_loop_07_a_provider_that_is_dropped_closes_its_connections(connect: Connect) -> None:
    peer = await connect(text_reply("hello"))
    provider = OpenAIProvider("m", "k", base_url=peer.server.url)
    await ask(provider)
    dropped = weakref.ref(provider)
    del provider
    gc.collect()
    assert dropped() is None
    for _ in range(50):  # the loop closes the generator that held the client
        await asyncio.sleep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        gc.collect()


async def test_a_closed_provider_opens_new_connections(connect: Connect) -> None:
    peer = await connect(text_reply("hello"))
    for connections in (1, 2):
        assert await ask(peer.provider) == "hello"
        await peer.provider.aclose()
        await peer.provider.aclose()
        assert peer.server.connections == connections


async def test_net_03_a_client_that_is_given_is_used_and_stays_open(connect: Connect) -> None:
    async with httpx2.AsyncClient(headers={"X-Mine": "yes"}) as mine:
        peer = await connect(text_reply("hello"), http_client=mine)
        assert await ask(peer.provider) == "hello"
        await peer.provider.aclose()
        assert not mine.is_closed and peer.server.requests[0].headers["x-mine"] == "yes"


async def test_net_03_a_function_that_makes_clients_is_used_per_loop_and_they_are_closed(connect: Connect) -> None:
    made: list[httpx2.AsyncClient] = []

    def make() -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient(headers={"X-Mine": "yes"}))
        return made[-1]

    peer = await connect(text_reply("hello"), http_client=make)
    await ask(peer.provider)
    await ask(peer.provider)
    await peer.provider.aclose()
    assert [client.is_closed for client in made] == [True]


async def test_net_03_a_proxy_of_the_environment_is_used(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await connect(text_reply("hello"))
    monkeypatch.setenv("HTTP_PROXY", peer.server.url.removesuffix("/v1"))
    async with OpenAIProvider("m", "k", base_url="http://model.invalid/v1") as provider:
        assert await ask(provider) == "hello"
    assert peer.server.requests[0].target == "http://model.invalid/v1/chat/completions"


async def test_net_03_an_untrusted_certificate_is_said_once_and_a_trusted_one_works() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    async with ReplayServer(text_reply("hello")).running(tls) as server:
        async with OpenAIProvider("m", "k", base_url=server.url, retry=AT_ONCE) as provider:
            with pytest.raises(ProviderResponseError, match="(?i)certificate"):
                await ask(provider)
        connections = server.connections
        trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
        async with OpenAIProvider(
            "m", "k", base_url=server.url, http_client=lambda: httpx2.AsyncClient(verify=trusting)
        ) as provider:
            assert await ask(provider) == "hello"
    assert connections <= 1 and len(server.requests) == 1


async def test_a_connection_that_is_never_made_is_a_connect_timeout_and_tried_again() -> None:
    attempts: list[httpx2.Request] = []

    class Unreachable(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            attempts.append(request)
            raise httpx2.ConnectTimeout("nobody there", request=request)

    async with OpenAIProvider(
        "m", "k", retry=AT_ONCE, timeout=TimeoutOptions(connect=0.5),
        http_client=lambda: httpx2.AsyncClient(transport=Unreachable()),
    ) as provider:  # fmt: skip
        with pytest.raises(ProviderTimeoutError) as caught:
            await ask(provider)
    assert (caught.value.phase, caught.value.seconds, len(attempts)) == ("connect", 0.5, 3)
    assert attempts[0].extensions["timeout"]["connect"] == 0.5


def test_a_missing_client_library_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install 'zett-runtime\[openai\]'"):
        OpenAIProvider("m", "k")


def test_importing_the_provider_loads_no_sdk() -> None:
    code = (
        "import sys, zett_agent.providers, zett_agent.providers.openai\n"
        "from zett_agent.providers import OpenAIProvider\n"
        "assert not {'openai', 'httpx', 'httpx2', 'anyio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=15)


def test_the_package_names_what_it_has() -> None:
    import zett_agent.providers as providers  # noqa: PLC0415  # the test is about the import

    assert set(providers.__all__) <= set(dir(providers))
    assert all(getattr(providers, name) for name in providers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        providers.Nobody  # type: ignore[attr-defined]  # noqa: B018
