"""Checks of what a request leaves behind: its messages and its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zett_agent.events import TERMINAL_EVENTS, AgentEvent, AgentEventType
from zett_agent.messages import AnyMessage, AssistantMessage, ToolMessage

_Type = AgentEventType

#: What ends each kind of event that begins something.
_PAIRS: dict[AgentEventType, frozenset[AgentEventType]] = {
    _Type.REASONING_STARTED: frozenset({_Type.REASONING_COMPLETED}),
    _Type.CONTENT_STARTED: frozenset({_Type.CONTENT_COMPLETED}),
    _Type.TOOL_STARTED: frozenset({_Type.TOOL_COMPLETED, _Type.TOOL_FAILED}),
    _Type.SERVER_TOOL_STARTED: frozenset({_Type.SERVER_TOOL_COMPLETED, _Type.SERVER_TOOL_FAILED}),
    _Type.MODEL_STARTED: frozenset({_Type.MODEL_COMPLETED}),
    _Type.COMPACTION_STARTED: frozenset({_Type.COMPACTION_COMPLETED}),
    _Type.STEERING_STARTED: frozenset({_Type.STEERING_COMPLETED, _Type.STEERING_INTERRUPTED}),
    _Type.INTERNAL_MESSAGE_STARTED: frozenset({_Type.INTERNAL_MESSAGE_COMPLETED, _Type.INTERNAL_MESSAGE_INTERRUPTED}),
}
_STARTS = {end: start for start, ends in _PAIRS.items() for end in ends}

#: What a request that fails or is cancelled may leave without its end: nothing tells more than the terminal event.
_CUT_SHORT = frozenset(
    {_Type.MODEL_STARTED, _Type.COMPACTION_STARTED, _Type.STEERING_STARTED, _Type.INTERNAL_MESSAGE_STARTED}
)


def check_transcript(messages: Sequence[AnyMessage]) -> None:
    """Raise AssertionError naming the first break of the pairing.

    Each call has exactly one result, directly after its assistant message and in call order; no result is stray; the
    ids of one batch differ.
    """
    expected: list[str] = []
    for place, message in enumerate(messages):
        where = f"message {place}"
        if isinstance(message, ToolMessage):
            if not expected:
                raise AssertionError(f"{where} is a result of {message.tool_call_id!r}, which no call waits for")
            if message.tool_call_id != expected[0]:
                raise AssertionError(f"{where} is a result of {message.tool_call_id!r}; {expected[0]!r} comes first")
            del expected[0]
            continue
        if expected:
            raise AssertionError(f"{where} ({message.role.value}) comes before the results of {expected}")
        if isinstance(message, AssistantMessage):
            expected = [call.id for call in message.tool_calls]
            if len(set(expected)) != len(expected):
                raise AssertionError(f"{where} has calls with the same id: {expected}")
    if expected:
        raise AssertionError(f"the messages end before the results of {expected}")


def check_event_order(events: Iterable[AgentEvent]) -> None:
    """Raise AssertionError naming the first break of the order of a whole stream.

    Exactly one terminal event, the last; whatever starts (reasoning, content, a call) ends before it, once.
    """
    opened: dict[tuple[AgentEventType, str], int] = {}
    terminal: AgentEvent | None = None
    for place, event in enumerate(events):
        where = f"event {place} ({event.type.value})"
        if terminal is not None:
            raise AssertionError(f"{where} follows the terminal event {terminal.type.value}")
        if event.type in TERMINAL_EVENTS:
            terminal = event
        elif event.type in _PAIRS:
            if _key(event.type, event) in opened:
                raise AssertionError(f"{where} starts what was started at event {opened[_key(event.type, event)]}")
            opened[_key(event.type, event)] = place
        elif event.type in _STARTS and opened.pop(_key(_STARTS[event.type], event), None) is None:
            raise AssertionError(f"{where} ends what was not started")
    if terminal is None:
        raise AssertionError("the stream has no terminal event")
    cut_short = _CUT_SHORT if terminal.type is not _Type.RUN_COMPLETED else frozenset()
    for (kind, _), place in opened.items():
        if kind not in cut_short:
            raise AssertionError(f"event {place} ({kind.value}) has no end before {terminal.type.value}")


def _key(start: AgentEventType, event: AgentEvent) -> tuple[AgentEventType, str]:
    """What pairs two events: their kind, and for calls the id."""
    if event.tool_calls:
        return start, event.tool_calls[0].id
    if event.server_tool_call is not None:
        return start, event.server_tool_call.id
    return start, event.server_tool_result.call_id if event.server_tool_result is not None else ""
