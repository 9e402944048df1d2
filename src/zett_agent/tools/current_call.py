"""The call that is running here, and what it can hand to the function it runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class CallScope(Protocol):
    """What a running call knows of its surroundings."""

    call_id: str

    def inject(self, wanted: type) -> object:
        """Return the object of type ``wanted`` that belongs to this call."""
        ...


CURRENT_CALL: ContextVar[CallScope | None] = ContextVar("zett_agent_current_call", default=None)


def current_tool_call_id() -> str | None:
    """The id of the call that is running here, also in the thread of a plain function; None outside of one."""
    scope = CURRENT_CALL.get()
    return None if scope is None else scope.call_id
