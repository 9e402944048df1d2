"""A loopback HTTP server that answers with recorded bytes, exactly as they are given."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

EVENT_STREAM = "text/event-stream"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Reply:
    """One answer. ``pieces`` are written one by one; ``ends`` says how the body ends.

    ``"whole"``: properly; ``"cut"``: the connection is reset in the body; ``"stalls"``: nothing more comes, and the
    server waits for the client to go. A length is never sent: the body is chunked, or ends with the connection.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": EVENT_STREAM})
    ends: str = "whole"
    chunked: bool = True
    silent: bool = False


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not strict JSON")


Answer = Reply | Callable[[Request], Reply]


class ReplayServer:
    """Gives ``answers`` in turn, the last one again and again, and keeps the ``requests``."""

    def __init__(self, *answers: Answer) -> None:
        self.answers: list[Answer] = list(answers)
        self.requests: list[Request] = []
        self.connections = 0
        self.received = asyncio.Event()
        self.dropped = asyncio.Event()
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[ReplayServer]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self.received.set()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if not await self._answer(answer if isinstance(answer, Reply) else answer(request), reader, writer):
                    return
        except (OSError, asyncio.CancelledError):
            self.dropped.set()
        finally:
            writer.transport.abort()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Write one reply; True if the connection can go on."""
        if not reply.silent:
            writer.write(_head(reply))
            for piece in reply.pieces:
                writer.write(_framed(piece) if reply.chunked else piece)
                await writer.drain()
                if len(reply.pieces) > 1:
                    await asyncio.sleep(0)
        if reply.silent or reply.ends == "stalls":
            await reader.read()
            self.dropped.set()
            return False
        if reply.ends == "cut":
            return False
        if reply.chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        writer.close()
        await writer.wait_closed()
        return False


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError:
        return None
    return Request(line.split()[1], headers, body)


def _head(reply: Reply) -> bytes:
    framing = {"transfer-encoding": "chunked"} if reply.chunked else {"connection": "close"}
    headers = {**reply.headers, **framing}
    lines = [f"HTTP/1.1 {reply.status} Anything", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def _framed(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""


@contextmanager
def in_a_thread(server: ReplayServer) -> Iterator[ReplayServer]:
    """Run ``server`` on a loop of its own, for tests that run several."""
    started, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with server.running():
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(5)
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(5)


def sse(*chunks: object, done: bool = True) -> bytes:
    """The bytes of a stream of ``chunks``; a string is the data as it stands."""
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk, ensure_ascii=False) for chunk in chunks]
    return b"".join(f"data: {line}\n\n".encode() for line in lines) + (DONE if done else b"")


def delta(content: str | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    parts = {"content": content, **fields} if content is not None or fields else {}
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def call(arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """An element of ``delta.tool_calls``; ``name`` goes into its function."""
    function = {"name": fields.pop("name", None), "arguments": arguments}
    return {**fields, "function": {key: value for key, value in function.items() if value is not None}}


def calls(*elements: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk with fragments of calls."""
    return delta(finish=finish, tool_calls=list(elements))


def text_reply(text: str, *, usage: Mapping[str, Any] | None = None) -> Reply:
    """A whole answer, a word per chunk, each chunk a write of its own."""
    words = text.split(" ")
    chunks: list[object] = [delta(word if at == 0 else f" {word}") for at, word in enumerate(words)]
    chunks.append(delta(finish="stop"))
    if usage is not None:
        chunks.append({"choices": [], "usage": dict(usage)})
    return Reply([sse(chunk, done=False) for chunk in chunks] + [DONE])


def bytewise(data: bytes) -> Iterable[bytes]:
    """Each byte alone."""
    return [data[at : at + 1] for at in range(len(data))]
