"""Server-sent events from bytes, however the network cut them."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_EVENT = 32 * 1024 * 1024
"""How many bytes of one event are kept; a service that sends more is not waited for."""

_BOM = b"\xef\xbb\xbf"
_END = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; several ``data`` lines are joined with newlines."""

    event: str
    data: str


class EventStreamDecoder:
    """Feed it bytes, get the events that they complete.

    Lines end with LF, CRLF or CR. Comments, unknown fields, events without data and a byte order mark are skipped.
    """

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._size = 0
        self._rest = bytearray()
        self._first = True
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes of the stream; ValueError for an event of more than ``longest`` bytes."""
        ends = self._rest.endswith(b"\r") or _END.search(chunk)
        self._rest += chunk
        events = self._events() if ends else []
        if self._size + len(self._rest) > self._longest:
            raise ValueError(f"an event of more than {self._longest:,} bytes")
        return events

    def close(self) -> list[ServerSentEvent]:
        """Take the end of the stream: a last event need not be followed by an empty line."""
        return self.feed(b"\n\n")

    def _events(self) -> list[ServerSentEvent]:
        lines = bytes(self._rest).splitlines(keepends=True)
        # An unfinished line waits for its end, and so does a final CR, which may be half of a CRLF.
        self._rest = bytearray(lines.pop() if lines and not lines[-1].endswith(b"\n") else b"")
        return [event for line in lines if (event := self._line(line.rstrip(b"\r\n"))) is not None]

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
        elif field == b"event":
            self._event = value.removeprefix(b" ").decode(errors="replace")
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data = b"\n".join(self._data).decode(errors="replace")
        event, self._event, self._data, self._size = self._event, "", [], 0
        return ServerSentEvent(event, data) if data.strip() else None
