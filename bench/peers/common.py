"""What every peer is measured with; runs in the peer's own environment, beside the bare loop.

A peer's file has ``PACKAGES`` (whose versions the table names), ``NOTE`` (which of its ways was taken) and a class
``Peer``. Models, tools and histories are made before anything is measured.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

#: One request from input to outcome. Who wants to see its events passes a function; else they are only read.
Request = Callable[[Callable[[Any], None] | None], Awaitable[None]]

#: Nothing may be sent anywhere; the audit hook below holds it, these keep the peers from trying.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OTEL_SDK_DISABLED": "true",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Script:
    """The model asks for ``calls`` calls of ``add`` at once, if any, and then answers in ``pieces``."""

    pieces: tuple[str, ...]
    calls: int = 0


@dataclass
class Seen:
    """What the reader of one request saw."""

    pieces: list[str] = field(default_factory=list)
    results: int = 0


class Runtime(ABC):
    """A runtime, ready to be measured."""

    #: How many requests a round measures at most when each makes the history longer.
    round_of: int | None = None

    async def prepare(self) -> None:
        """Before each round, not measured."""
        return

    @abstractmethod
    async def fresh(self, script: Script) -> Request:
        """Requests that begin without a history."""

    @abstractmethod
    async def after(self, messages: int, script: Script) -> Request:
        """Requests that each begin with the same ``messages`` earlier messages, users' and assistants' in turn."""

    @abstractmethod
    def see(self, event: Any, seen: Seen) -> None:  # Any: each runtime has events of its own
        """Add a piece of text or tool results that ``event`` shows."""


async def check(peer: Runtime, request: Request, script: Script) -> None:
    """Run the request once, looking: it must do all of the work, else AssertionError."""
    seen = Seen()
    await request(lambda event: peer.see(event, seen))
    assert tuple(seen.pieces) == script.pieces, f"{len(seen.pieces)} of {len(script.pieces)} pieces were shown"
    assert seen.results == script.calls, f"{seen.results} of {script.calls} results were shown"


def seal() -> None:
    """Let this process reach loopback only, and keep telemetry off; before a peer is imported."""
    os.environ.update(QUIET)

    def guard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto") and not _is_near(arguments[1]):
            raise RuntimeError(f"a benchmark sends nothing to {arguments[1]!r}")

    sys.addaudithook(guard)


def _is_near(address: object) -> bool:
    if not isinstance(address, tuple):
        return True  # the path of a unix socket
    try:
        return ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    except ValueError:
        return False
