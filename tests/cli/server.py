"""A server on loopback that speaks Chat Completions, for tests of the command line.

``reply(body)`` says what to stream: a list of deltas (text, or a list of tool calls), or an HTTP status to refuse with.
An ``Event`` among the deltas is waited for, until the client is gone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Delta = str | list[dict[str, Any]] | threading.Event
Reply = Callable[[dict[str, Any]], Sequence[Delta] | int]


@dataclass
class ChatServer:
    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


def tool_call(name: str, arguments: str, *, call_id: str = "call_1") -> list[dict[str, Any]]:
    return [{"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}]


def last_text(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


@contextmanager
def chat_server(reply: Reply, *, finish: str = "stop") -> Iterator[ChatServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known.bodies.append(body)
            known.keys.append(self.headers.get("Authorization", ""))
            answer = reply(body)
            if isinstance(answer, int):
                self._refuse(answer)
            else:
                self._stream(answer)

        def _refuse(self, status: int) -> None:
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            content = json.dumps(
                {"error": {"message": f"Incorrect API key provided: {key}", "type": "refused"}}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, deltas: Sequence[Delta]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            called = False
            try:
                for delta in deltas:
                    if isinstance(delta, threading.Event):
                        delta.wait(15)
                        continue
                    called = called or isinstance(delta, list)
                    self._chunk({"content": delta} if isinstance(delta, str) else {"tool_calls": delta})
                self._chunk({}, "tool_calls" if called else finish)
                usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
                self._data({"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage})
                self.wfile.write(b"data: [DONE]\n\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.close_connection = True

        def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            self._data({"id": "x", "object": "chat.completion.chunk", "choices": [choice]})

        def _data(self, value: object) -> None:
            self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
            self.wfile.flush()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    known = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
