"""What a parent's stream shows of a child: its questions, and everything else when that is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zett_agent._failures import failure_text
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions._subagents.tree import Child
from zett_agent.json_types import json_object
from zett_agent.messages import content_text
from zett_agent.waits import Wait

SUBAGENT_EVENT_NAME = "subagent_event"


async def forward(context: AgentRunContext, child: Child, event: AgentEvent, *, everything: bool) -> None:
    """Show ``event`` of ``child`` on the parent's stream, if it is to be shown and the stream has not ended."""
    if event.type is AgentEventType.CUSTOM and event.payload is not None and _passes(child, event.payload, everything):
        await emit(context, event.name or "", tagged(child, event.payload))
    elif everything:
        await emit(context, SUBAGENT_EVENT_NAME, described(child, event))


async def emit(context: AgentRunContext, name: str, payload: dict[str, Any]) -> None:
    """Show a CUSTOM event, unless the request has its outcome: nothing follows a terminal event."""
    if not context.state.phase.accepts_new_request:
        await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name=name, payload=payload))


def tagged(child: Child, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload that says whose it is; one that says so already, because it comes from further below, is kept."""
    return {"session_id": child.session_id, "subagent": list(child.place.path), **payload}


def question_of(child: Child, wait: Wait) -> tuple[str, dict[str, Any]] | None:
    """The event that asked for ``wait``, to be shown once more; None when the wait was never shown."""
    if wait.event_name is None or wait.question is None:
        return None
    return wait.event_name, tagged(child, wait.question)


def described(child: Child, event: AgentEvent) -> dict[str, Any]:
    """``event`` as strict JSON, with only what it has."""
    body: dict[str, Any] = {
        "session_id": child.session_id,
        "parent_session_id": child.parent_session_id,
        "subagent_type": child.name,
        "subagent": list(child.place.path),
        "type": event.type.value,
        "phase": event.phase.value if event.phase is not None else None,
        "delta": event.delta or None,
        "text": _text(event),
        "tools": [{"id": call.id, "name": call.name} for call in event.tool_calls] or None,
        "name": event.name,
        "payload": _json(event.payload),
        "stop": event.stop.describe() if event.stop is not None else None,
        "error": failure_text(event.error) if event.error is not None else None,
    }
    return {key: value for key, value in body.items() if value is not None}


def _passes(child: Child, payload: Mapping[str, Any], everything: bool) -> bool:
    """Whether an event goes up as it is: it asks something, or a level below has described it already."""
    return (everything and "subagent" in payload) or "response_event" in payload or _asks(child, payload)


def _asks(child: Child, payload: Mapping[str, Any]) -> bool:
    """Whether the payload belongs to an open wait: not every extension that asks says so in its event."""
    waits = child.agent.pending_waits(config=AgentRunConfig(session_id=child.session_id))
    return any(payload.get(wait.correlation_field) == wait.id for wait in waits)


def _text(event: AgentEvent) -> str | None:
    for message in (event.message, event.internal_message, event.steering_message):
        if message is not None:
            return content_text(message.content)
    return None


def _json(payload: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if payload is None:
        return None
    try:
        return dict(json_object(payload, field_name="payload"))
    except ValueError:
        return None  # an event of the child's own making that no wire could carry
