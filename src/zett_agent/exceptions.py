"""The one tree of errors.

AgentError
├── AgentProtocolError          a rule of the interface was broken (bad stream, illegal phase, closed queue)
│   ├── SessionBusyError        the session already has a request
│   └── InputRefusedError       steering or internal input that no request can take
├── AgentLimitError             a request reached a limit; the session can go on
│   ├── AgentIterationLimitError  its limit on model calls, internal messages or fruitless turns
│   ├── AgentRepeatError          the model made the same call again and again
│   └── AgentDeadlineError        its time
├── AgentStopError              from ``AssistantMessage.raise_for_stop()``
├── AgentResumeError            there is nothing that can be resumed
├── AgentCancelledError         ``run()`` was stopped by ``stop()``
├── ToolError                   a call that did not run, or ran out of time
│   ├── ToolArgumentsError      the arguments are not what the tool takes
│   ├── ToolUnknownError        the model named a tool that does not exist
│   ├── ToolTimeoutError        the tool's own timeout passed
│   └── ToolRejectedError       a policy or a person declined the call
├── StorageError                a session store cannot do what was asked
│   └── StoredFormatError       a stored record is broken or newer than this version
└── ProviderError               a model provider failed
    ├── ProviderAuthError
    ├── ProviderTimeoutError
    ├── ProviderRefusalError
    └── ProviderResponseError
        └── ProviderHTTPError
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from zett_agent.stop import StopInfo


class AgentError(Exception):
    """Root of every error that this package raises on purpose, but for bad arguments (ValueError, TypeError).

    Each can be copied and pickled, with its attributes and notes.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _revived, (type(self), self.args), dict(vars(self))


class AgentProtocolError(AgentError):
    """A rule of the interface was broken: a bad model stream, an illegal phase, a closed queue."""


class SessionBusyError(AgentProtocolError):
    """The session already has a request; ``holder`` is that request's id."""

    def __init__(self, session_id: str, holder: str) -> None:
        super().__init__(
            f"session {session_id!r} is busy with request {holder!r}; wait for it, stop it, or use another session"
        )
        self.session_id = session_id
        self.holder = holder


class InputRefusedError(AgentProtocolError):
    """Steering or internal input was refused: no request is active, or its inbox is full or closed."""


class AgentLimitError(AgentError):
    """A request reached a limit. The session stays valid: ``resume()`` goes on, with a higher limit or as before.

    ``limit`` names the option and ``value`` is what it was; of a limit that no option sets, what was counted. The rest
    is there once the request has failed: ``messages``, its history with every call settled; ``usage``, the ModelUsage
    of its model calls together; ``text``, what the model said last, also when it was cut off.
    """

    # Any: messages and usage are defined on top of this file.
    messages: Sequence[Any] = ()
    usage: Any = None
    text: str = ""

    def __init__(self, message: str = "", *, limit: str = "", value: float | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value

    def fill(self, messages: Sequence[Any], usage: Any, text: str) -> Self:
        """Add what there is by now; for the runtime. The request that reached the limit does it first, and once."""
        if self.usage is None:
            self.messages, self.usage, self.text = messages, usage, text
        return self


class AgentIterationLimitError(AgentLimitError):
    """A bound on model calls, internal messages or fruitless turns was reached."""


class AgentRepeatError(AgentLimitError):
    """The model made the same call again and again, and a warning did not help; ``limit`` is ``max_repeats``."""


class AgentDeadlineError(AgentLimitError, TimeoutError):
    """The time of the request is up; ``limit`` is ``deadline`` and ``value`` its seconds."""


class AgentStopError(AgentError):
    """A model step ended abnormally; raised only by ``AssistantMessage.raise_for_stop()``."""

    def __init__(self, stop: StopInfo, message: object | None = None) -> None:
        super().__init__(f"the model stopped: {stop.describe()}")
        self.stop = stop
        self.message = message


class AgentResumeError(AgentError):
    """There is nothing to resume; ``reason`` is empty, completed, refused, context_full, unknown_stop or malformed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AgentCancelledError(AgentError):
    """``run()`` ended because ``stop()`` was called for its session."""


class ToolError(AgentError):
    """A call that did not run or was cut short; its text is the call's failed result."""


class ToolArgumentsError(ToolError, ValueError):
    """The arguments of a call are not JSON, or not what the tool's schema takes."""


class ToolUnknownError(ToolError):
    """The model named a tool that does not exist."""


class ToolTimeoutError(ToolError, TimeoutError):
    """A call or a question did not end in its time."""


class ToolRejectedError(ToolError):
    """A policy or a person declined the call."""


class StorageError(AgentError):
    """A session store cannot do what was asked."""


class StoredFormatError(StorageError):
    """A stored record is broken, or was written by a newer version."""


class ProviderError(AgentError):
    """A model provider failed."""


class ProviderAuthError(ProviderError):
    """The provider refused the credentials."""


class ProviderResponseError(ProviderError):
    """The provider's answer breaks its own protocol, or ended before it was complete."""


class ProviderHTTPError(ProviderResponseError):
    """An HTTP failure; ``preview`` is a bounded, plain-text extract of the body."""

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        reason: str | None = None,
        preview: str = "",
        is_html: bool = False,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.reason = reason
        self.preview = preview
        self.is_html = is_html


class ProviderTimeoutError(ProviderError):
    """The provider was silent too long; ``phase`` is connect, first_byte or idle, ``seconds`` the limit."""

    def __init__(self, message: str, *, phase: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.phase = phase
        self.seconds = seconds


class ProviderRefusalError(ProviderError):
    """The provider refused the request as a whole."""

    def __init__(self, stop: StopInfo) -> None:
        super().__init__(f"the provider refused: {stop.describe()}")
        self.stop = stop


def _revived(kind: type[AgentError], args: tuple[object, ...]) -> AgentError:
    """An error as it was, its constructor not called again: what that takes is no longer known, but its text is."""
    error = kind.__new__(kind)
    error.args = args
    return error
