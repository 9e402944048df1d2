"""A wait: a call that is held until an outside answer arrives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class ExternalEvent:
    """Something an application tells the extensions of an agent, such as the answer to a wait.

    An answer's ``payload`` must be strict JSON: what is none (NaN, a tuple, an object, itself) is refused where it
    arrives, and the question stays open. Other events may carry objects, such as the message of a steering event.
    """

    name: str
    payload: dict[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError("name must not be blank")
        if not isinstance(self.payload, dict) or not all(isinstance(key, str) for key in self.payload):
            raise TypeError("payload must be a dict with string keys")


class WaitState(StrEnum):
    """How far a wait is."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Wait:
    """An open question: what is asked, by whom, and which answer ends it.

    ``id`` is the call id (or another correlation value) and is unique in the session. ``question`` is the payload of
    the event that asked, ``response_events`` are the names an answer may have, and ``correlation_field`` is the key
    of an answer's payload that must equal ``id``. Times are aware UTC.
    """

    id: str
    session_id: str
    request_id: str
    extension: str
    response_events: frozenset[str]
    correlation_field: str
    created_at: datetime
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    event_name: str | None = None
    question: Mapping[str, Any] | None = None
    expires_at: datetime | None = None
