"""Input that arrives while a request runs."""

from __future__ import annotations

import threading

from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.events import InternalMessageEvent
from zett_agent.messages import AgentMessage, TextContent, UserMessage

#: Messages that one queue of a request holds before it refuses more.
CAPACITY = 256


class Inbox:
    """Two FIFO queues of one request: steering (urgent, from the user) and internal (from machines).

    Bounded; safe from any thread. ``take_next`` closes the inbox when it finds nothing, in one step, so that a
    message is either taken by the request or refused, never swallowed.
    """

    __slots__ = ("_closed", "_internal", "_internal_allowed", "_lock", "_steering")

    def __init__(self, *, internal_allowed: bool = True) -> None:
        self._lock = threading.Lock()
        # Lists of at most CAPACITY entries, mostly none: empty deques would be a tenth of a waiting session.
        self._steering: list[UserMessage] = []
        self._internal: list[InternalMessageEvent] = []
        self._internal_allowed = internal_allowed
        self._closed = True

    def open(self) -> None:
        """Begin to take messages."""
        self._closed = False

    @property
    def closed(self) -> bool:
        """True when nothing is taken."""
        return self._closed

    @property
    def takes_internal(self) -> bool:
        """False when internal messages are disabled."""
        return self._internal_allowed

    @property
    def has_steering(self) -> bool:
        """True when a steering message waits."""
        return bool(self._steering)

    def put_steering(self, message: UserMessage) -> None:
        """Queue a steering message; InputRefusedError when it is blank, or the inbox is closed or full."""
        if is_blank(message):
            raise InputRefusedError("a steering message must have text or an image")
        with self._lock:
            self._check("steering messages", len(self._steering))
            self._steering.append(message)

    def put_internal(self, event: InternalMessageEvent) -> None:
        """Queue an internal message; InputRefusedError when the inbox is closed or full, or takes none."""
        if not self._internal_allowed:
            raise InputRefusedError("internal messages are disabled: max_internal_messages is 0")
        with self._lock:
            self._check("internal messages", len(self._internal))
            self._internal.append(event)

    def take_steering(self) -> UserMessage | None:
        """The oldest steering message, if there is one."""
        with self._lock:
            return self._steering.pop(0) if self._steering else None

    def take_next(self) -> UserMessage | InternalMessageEvent | None:
        """Steering first, else one internal message, else close the inbox and return None."""
        with self._lock:
            if self._steering:
                return self._steering.pop(0)
            if self._internal:
                return self._internal.pop(0)
            self._closed = True
            return None

    def put_back(self, event: InternalMessageEvent) -> None:
        """Take back an internal message that was taken, and that the request must leave to others."""
        with self._lock:
            self._internal.insert(0, event)

    def close(self) -> tuple[UserMessage | AgentMessage, ...]:
        """Refuse everything from now on and return what was never taken."""
        with self._lock:
            self._closed = True
            left: tuple[UserMessage | AgentMessage, ...] = (*self._steering, *(e.message for e in self._internal))
            self._steering.clear()
            self._internal.clear()
            return left

    def _check(self, kind: str, waiting: int) -> None:
        if self._closed:
            raise InputRefusedError(f"no request of this session takes {kind} now")
        if waiting >= CAPACITY:
            raise InputRefusedError(f"{waiting} messages wait already; the request takes no further {kind}")


def is_blank(message: UserMessage) -> bool:
    """True when there is neither text nor an image in the message."""
    return all(isinstance(part, TextContent) and not part.text.strip() for part in message.parts)
