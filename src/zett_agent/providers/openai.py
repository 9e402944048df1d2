"""OpenAI and every service that speaks its Chat Completions, over the official ``openai`` client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import urlsplit

from zett_agent.json_types import JsonValue
from zett_agent.messages import AssistantMessage
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    DEFAULT_TIMEOUT_OPTIONS,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    RetryOptions,
    TimeoutOptions,
    validate_retry,
    validate_timeout,
)
from zett_agent.providers.base import (
    check_base_url,
    check_count,
    check_number,
    check_secret,
    check_text,
    check_texts,
    hide_secrets,
    secret_values,
    validate_extra_body,
    validate_extra_headers,
    validate_extra_query,
)
from zett_agent.providers.chat_response import ResponseReader, timed_out
from zett_agent.providers.chat_wire import RESERVED_FIELDS, ChatSettings, request_body
from zett_agent.providers.http_errors import (
    error_chain,
    http_failure,
    read_error_body,
    stop_of_failure,
    transport_failure,
)
from zett_agent.providers.retry import AttemptFailed, Failure, with_retries
from zett_agent.stop import StopInfo

if TYPE_CHECKING:
    import httpx2
    from openai import APIStatusError, AsyncOpenAI

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_OPENAI_HOST = "api.openai.com"
_STREAM_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream"}


class OpenAIProvider:
    """A model behind ``{base_url}/chat/completions``.

    One object serves any number of concurrent requests, event loops and threads; each loop gets its own connections,
    which close with it or by ``aclose()``. ``http_client`` is an ``httpx2.AsyncClient`` of one loop that stays yours,
    or a function that makes one per loop. ``send_prompt_cache_key`` defaults to True at api.openai.com only; a
    request's reasoning effort is sent with ``send_reasoning_effort``, earlier reasoning with ``replay_reasoning``.
    ``extra_body`` is merged last, shallowly. An argument that cannot be used raises ValueError with its name, a missing
    client library ImportError with the command that installs it.
    """

    provider_name: ClassVar[str] = "openai"

    def __init__(
        self,
        model: str,
        api_key: str,
        *,
        base_url: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = None,
        send_reasoning_effort: bool = False,
        replay_reasoning: bool = False,
        send_prompt_cache_key: bool | None = None,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        timeout: TimeoutOptions = DEFAULT_TIMEOUT_OPTIONS,
        extra_headers: Mapping[str, str] | None = None,
        extra_query: Mapping[str, str] | None = None,
        extra_body: Mapping[str, JsonValue] | None = None,
        http_client: httpx2.AsyncClient | Callable[[], httpx2.AsyncClient] | None = None,
    ) -> None:
        self._api_key = check_secret("api_key", api_key)
        self.base_url = check_base_url(DEFAULT_BASE_URL if base_url is None else base_url)
        self.retry = validate_retry(retry)
        self.timeout = validate_timeout(timeout)
        self._headers = validate_extra_headers(extra_headers)
        self._query = validate_extra_query(extra_query)
        self._secrets = secret_values(self._api_key, self._headers, self._query)
        self._at_openai = at_openai = urlsplit(self.base_url).hostname == _OPENAI_HOST
        self._settings = ChatSettings(
            provider=self.provider_name,
            model=check_text("model", model),
            endpoint=self.base_url,
            temperature=check_number("temperature", temperature),
            max_tokens=check_count("max_tokens", max_tokens),
            max_tokens_field="max_completion_tokens" if at_openai else "max_tokens",
            stop=check_texts("stop", stop),
            send_reasoning_effort=send_reasoning_effort,
            send_prompt_cache_key=at_openai if send_prompt_cache_key is None else send_prompt_cache_key,
            reasoning_field="reasoning_content" if replay_reasoning else None,
            extra_body=validate_extra_body(extra_body, reserved=RESERVED_FIELDS),
        )
        self._reader = ResponseReader(self._settings, self.timeout, self._secrets)
        self._http_client = http_client
        self._clients: dict[asyncio.AbstractEventLoop, tuple[AsyncOpenAI, AsyncGenerator[AsyncOpenAI]]] = {}
        self._sdk = _load_sdk()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._settings.model

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later request opens new ones."""
        held = self._clients.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer ``request``; see AgentModel. Failures are ProviderError; closing the stream drops the connection."""
        body = request_body(request, self._settings)
        async with aclosing(with_retries(lambda: self._attempt(body), self.retry)) as events:
            async for event in events:
                yield event

    async def _attempt(self, body: bytes) -> AsyncGenerator[ModelEvent]:
        """One HTTP request; AttemptFailed says whether another may follow."""
        response = await self._send(body)
        if isinstance(response, StopInfo):
            message = AssistantMessage(provider=self.provider_name, model=self.model)
            yield ModelEvent.completed(ModelResponse(message, response.raw, stop=response))
            return
        try:
            async with aclosing(self._reader.events(response)) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _send(self, body: bytes) -> httpx2.Response | StopInfo:
        """The open response, or the stop that a refused request amounts to."""
        limit = self.timeout.first_byte
        timer = asyncio.timeout(limit)
        try:
            client = await self._client()
            async with timer:
                # The SDK's own stream hides the [DONE] marker, so it is opened for its response only.
                stream = await client.post(
                    "/chat/completions",
                    content=body,
                    # A redirect would take the conversation, and keys in other headers than the usual one, elsewhere.
                    options={"headers": _STREAM_HEADERS, "follow_redirects": False},
                    cast_to=object,
                    stream=True,
                    stream_cls=self._sdk.AsyncStream[object],
                )
                response: httpx2.Response = stream.response
                return response
        except self._sdk.APIStatusError as error:
            outcome = self._status(error)
        except self._sdk.APITimeoutError as error:
            outcome = self._caused(timed_out(self.provider_name, "connect", self.timeout.connect), error)
        except Exception as error:  # of whichever HTTP library the client uses: nothing of it may leak
            if timer.expired():
                failure = timed_out(self.provider_name, "first_byte", limit)
            else:
                failure = transport_failure(self.provider_name, f"cannot reach {self.base_url}", error, self._secrets)
            outcome = self._caused(failure, error)
        if isinstance(outcome, StopInfo):
            return outcome
        raise AttemptFailed(outcome)

    def _status(self, error: APIStatusError) -> Failure | StopInfo:
        headers, text = error.response.headers, error.response.text
        if error.response.has_redirect_location:
            text = f"it redirects to {headers['location']}, which is not followed; see base_url"
        body = read_error_body(headers.get("content-type", ""), text, self._secrets)
        failure = http_failure(self.provider_name, error.status_code, body, headers)
        return stop_of_failure(error.status_code, body) or self._caused(failure, error)

    def _caused(self, failure: Failure, error: Exception) -> Failure:
        """Chain the SDK's error, unless it would show a secret that the service sent back."""
        shown = " ".join(f"{link} {getattr(link, 'body', '')}" for link in error_chain(error))
        if hide_secrets(shown, self._secrets) == shown:
            failure.error.__cause__ = error
        return failure

    async def _client(self) -> AsyncOpenAI:
        """The client of the running loop; clients of loops that are closed are let go."""
        loop = asyncio.get_running_loop()
        held = self._clients.get(loop)
        if held is None:
            for other in list(self._clients):
                if other.is_closed():
                    self._clients.pop(other, None)
            owner = self._new_client()
            held = self._clients[loop] = (await anext(owner), owner)
        return held[0]

    def _new_client(self) -> AsyncGenerator[AsyncOpenAI]:
        timeout = self._sdk.Timeout(None, connect=self.timeout.connect)
        given = self._http_client
        http_client = given() if callable(given) else given or self._sdk.DefaultAsyncHttpxClient(timeout=timeout)
        client: AsyncOpenAI = self._sdk.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self.base_url,
            timeout=timeout,
            max_retries=0,
            default_headers=self._headers,
            default_query=self._query,
            http_client=http_client,
        )
        if not self._at_openai:  # whose names the SDK takes from the environment, for whatever service
            client.organization = client.project = None
        return _held_open(client, owned=http_client is not given)


async def _held_open(client: AsyncOpenAI, *, owned: bool) -> AsyncGenerator[AsyncOpenAI]:
    """Hold a client until closed; an event loop closes its generators before itself, and with this one its connections.

    No method, so that it does not refer to the provider: a provider that is dropped drops it, and the loop closes it.
    """
    try:
        yield client
    finally:
        if owned:
            await client.close()


def _load_sdk() -> ModuleType:
    try:
        import openai  # noqa: PLC0415  # half a second to import, so only for who makes a provider
    except ImportError as error:
        raise ImportError(
            "OpenAIProvider needs the openai client: pip install 'zett-runtime[openai]'", name="openai"
        ) from error
    return openai
