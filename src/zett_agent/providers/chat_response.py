"""Chat Completions: the body of one HTTP response, read with guards against silence, pages and cuts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from zett_agent.exceptions import ProviderHTTPError, ProviderResponseError, ProviderTimeoutError
from zett_agent.model import ModelEvent, TimeoutOptions
from zett_agent.providers.base import load_json
from zett_agent.providers.chat_stream import ChatStream
from zett_agent.providers.chat_wire import ChatSettings
from zett_agent.providers.http_errors import (
    read_error_body,
    read_error_object,
    stream_failure,
    transport_failure,
)
from zett_agent.providers.retry import AttemptFailed, Failure
from zett_agent.providers.sse import EventStreamDecoder, ServerSentEvent

_TAIL_SECONDS = 5.0  # of silence after the finish reason: usage and [DONE] follow soon or not at all
_DRAIN_SECONDS = 0.1  # after [DONE]: a body read to its end leaves a connection that can be used again
_PAGE_BYTES = 16_384
_PIECE_BYTES = 65_536


class HttpResponse(Protocol):
    """The part of an httpx response that is used here."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by name, whatever the case."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decoded body as it arrives."""
        ...


@dataclass(frozen=True, slots=True)
class ResponseReader:
    """Turns response bodies into model events; failures are AttemptFailed."""

    settings: ChatSettings
    timeout: TimeoutOptions
    secrets: tuple[str, ...]

    async def events(self, response: HttpResponse) -> AsyncGenerator[ModelEvent]:
        """The events of one answer, the response last."""
        kind = response.headers.get("content-type", "").lower()
        answer, decoder, head = ChatStream(self.settings), EventStreamDecoder(), b""
        async with aclosing(_generator(response.aiter_bytes())) as chunks:
            if "html" in kind or "json" in kind:
                raise AttemptFailed(await self._page(response.status_code, kind, chunks))
            while (chunk := await self._next(chunks, answer)) is not None:
                head = head or chunk[:_PAGE_BYTES]
                for start in range(0, len(chunk), _PIECE_BYTES):
                    if start:  # a chunk that was megabytes once unpacked: others have their turn
                        await asyncio.sleep(0)
                    for event in self._decode(decoder, chunk[start : start + _PIECE_BYTES]):
                        for model_event in self._read(event, answer):
                            yield model_event
        for event in decoder.close():
            for model_event in self._read(event, answer):
                yield model_event
        if not answer.finished:
            raise AttemptFailed(self._cut(response.status_code, kind, head if answer.is_empty else b""))
        yield ModelEvent.completed(answer.finish())

    async def _next(self, chunks: AsyncGenerator[bytes], answer: ChatStream) -> bytes | None:
        """The next bytes, None at the end; when the answer is whole, silence or a broken connection is an end, too."""
        limit = self.timeout.idle
        if answer.finished:
            limit = _DRAIN_SECONDS if answer.done else min(limit or _TAIL_SECONDS, _TAIL_SECONDS)
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                return await anext(chunks, None)
        except Exception as error:  # of whichever HTTP library the client uses: nothing of it may leak
            if answer.finished:
                return None
            if timer.expired():
                failure = timed_out(self.settings.provider, "idle", limit)
            else:
                failure = transport_failure(self.settings.provider, "the connection broke", error, self.secrets)
            failure.error.__cause__ = error
        raise AttemptFailed(failure)

    def _decode(self, decoder: EventStreamDecoder, chunk: bytes) -> list[ServerSentEvent]:
        try:
            return decoder.feed(chunk)
        except ValueError as error:
            raise AttemptFailed(Failure(ProviderResponseError(f"{self.settings.provider} sent {error}"))) from None

    def _read(self, event: ServerSentEvent, answer: ChatStream) -> list[ModelEvent]:
        data = event.data.strip()
        if answer.done:
            return []
        if data == "[DONE]":
            answer.done = answer.finished = True
            return []
        try:
            chunk = load_json(data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            if answer.finished:
                return []
            text = f"{self.settings.provider} sent an event that is no JSON object: {self._preview(data)}"
            raise AttemptFailed(Failure(ProviderResponseError(text), retryable=True))
        if chunk.get("error") or event.event == "error" or chunk.get("object") == "error":
            raise AttemptFailed(stream_failure(self.settings.provider, read_error_object(chunk, self.secrets)))
        return answer.feed(chunk)

    async def _page(self, status: int, kind: str, chunks: AsyncGenerator[bytes]) -> Failure:
        """A page or an object came where a stream was asked for."""
        page, answer = b"", ChatStream(self.settings)
        until = asyncio.get_running_loop().time() + _TAIL_SECONDS
        while len(page) < _PAGE_BYTES and (chunk := await self._next(chunks, answer)) is not None:
            page += chunk
            if asyncio.get_running_loop().time() > until:  # drop by drop: what is here says enough
                break
        body = read_error_body(kind, page.decode(errors="replace"), self.secrets)
        if body.words:
            return stream_failure(self.settings.provider, body)
        what = "an HTML page" if body.is_html else "JSON"
        text = f"{self.settings.provider} answered {status} with {what} instead of an event stream: {body.preview}"
        return Failure(ProviderHTTPError(text, status_code=status, preview=body.preview, is_html=body.is_html))

    def _cut(self, status: int, kind: str, head: bytes) -> Failure:
        """The body ended without a terminal marker; ``head`` is what came, if no event was in it."""
        if not head.strip():
            text = f"{self.settings.provider} ended the stream before the answer was complete"
            return Failure(ProviderResponseError(text), retryable=True)
        body = read_error_body(kind, head.decode(errors="replace"), self.secrets)
        text = f"{self.settings.provider} answered {status} with something that is no event stream: {body.preview}"
        return Failure(ProviderHTTPError(text, status_code=status, preview=body.preview, is_html=body.is_html))

    def _preview(self, data: str) -> str:
        return read_error_body("", data, self.secrets).preview


def timed_out(provider: str, phase: str, seconds: float | None) -> Failure:
    """The silence limit of ``phase`` passed; only a failed connect is worth another try."""
    text = f"{provider} was silent for {seconds} s ({phase} timeout)"
    return Failure(ProviderTimeoutError(text, phase=phase, seconds=seconds), retryable=phase == "connect")


def _generator(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """What httpx returns from ``aiter_bytes`` is a generator, whatever its annotation says."""
    assert isinstance(chunks, AsyncGenerator)
    return chunks
