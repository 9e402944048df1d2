"""What a model puts out in one call: checked, bounded into segments, and shown as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from time import monotonic_ns
from typing import NamedTuple

from zett_agent._runtime.run import Run
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.events import (
    ContentCompletedEvent,
    ContentStartedEvent,
    MessageTiming,
    ModelOutputLifecycleEvent,
    ReasoningCompletedEvent,
    ReasoningStartedEvent,
)
from zett_agent.messages import AssistantMessage
from zett_agent.model import (
    ModelEvent,
    ModelEventType,
    ModelResponse,
    ServerToolCall,
    ServerToolInputDelta,
    ServerToolResult,
    ToolCallDelta,
)
from zett_agent.stop import StopInfo, StopReason

_TEXT = ModelEventType.TEXT_DELTA
_TEXT_OUT = AgentEventType.TEXT_DELTA
_GENERATING = AgentPhase.GENERATING
_SERVER_FAILED = AgentEventType.SERVER_TOOL_FAILED

#: What each model event carries, and where.
_CARRIED: dict[ModelEventType, tuple[str, type]] = {
    ModelEventType.TEXT_DELTA: ("delta", str),
    ModelEventType.REASONING_DELTA: ("delta", str),
    ModelEventType.TOOL_CALL_DELTA: ("tool_call_delta", ToolCallDelta),
    ModelEventType.SERVER_TOOL_STARTED: ("server_tool_call", ServerToolCall),
    ModelEventType.SERVER_TOOL_INPUT_DELTA: ("server_tool_input_delta", ServerToolInputDelta),
    ModelEventType.SERVER_TOOL_COMPLETED: ("server_tool_result", ServerToolResult),
    ModelEventType.SERVER_TOOL_FAILED: ("server_tool_result", ServerToolResult),
    ModelEventType.RESPONSE: ("response", ModelResponse),
}

_ENDS = {
    AgentEventType.REASONING_STARTED: AgentEventType.REASONING_COMPLETED,
    AgentEventType.CONTENT_STARTED: AgentEventType.CONTENT_COMPLETED,
}
_BOUNDARIES: dict[AgentEventType, type[ModelOutputLifecycleEvent]] = {
    AgentEventType.REASONING_STARTED: ReasoningStartedEvent,
    AgentEventType.REASONING_COMPLETED: ReasoningCompletedEvent,
    AgentEventType.CONTENT_STARTED: ContentStartedEvent,
    AgentEventType.CONTENT_COMPLETED: ContentCompletedEvent,
}


class Mark(NamedTuple):
    """A moment, for people and for durations."""

    at: datetime
    ns: int

    @classmethod
    def now(cls) -> Mark:
        """This moment."""
        return cls(datetime.now(UTC), monotonic_ns())

    def until_now(self) -> MessageTiming:
        """The timing of a message that was begun at this mark."""
        end = Mark.now()
        return MessageTiming(self.at, end.at, end.ns - self.ns)


class Output:
    """Follows one model stream. Reasoning may open again and again, content opens once and ends with the response."""

    __slots__ = (
        "_content_open",
        "_due",
        "_marks",
        "_reasoning_open",
        "_run",
        "_server_calls",
        "_started",
        "_text",
        "_timed",
        "response",
    )

    def __init__(self, run: Run) -> None:
        self._run = run
        self._text: list[str] = []
        self._content_open = False
        self._reasoning_open = False
        #: The ends of what was shown to start.
        self._due: list[AgentEventType] = []
        self._server_calls: dict[str, str] = {}
        self._marks: dict[AgentEventType, Mark] = {}
        self._timed = run.records_messages
        self._started = Mark.now() if self._timed else None
        self.response: ModelResponse | None = None

    async def consume(self, stream: AsyncIterator[ModelEvent]) -> ModelResponse:
        """Show every event of ``stream`` and return its response; AgentProtocolError when it breaks the rules."""
        channel, session_id, text = self._run.channel, self._run.session_id, self._text
        if not hasattr(stream, "__aiter__"):
            given = type(stream).__name__
            raise AgentProtocolError(f"stream() of a model must be an async generator, or return one, not {given}")
        event: ModelEvent | None = None
        try:
            async for event in stream:
                # The hot path: one more piece of an open text. Everything else is rare and goes the careful way.
                if event.type is _TEXT and self._content_open and not self._reasoning_open:
                    text.append(event.delta)
                    if channel.send(AgentEvent(_TEXT_OUT, session_id, _GENERATING, event.delta)):
                        await channel.drained()
                else:
                    await self._observe(event)
        except AttributeError:
            _check_event(event)  # what has no type is no event; the hot path does not look
            raise
        if self.response is None:
            raise AgentProtocolError("the model stream ended without a response")
        return self.response

    def timing(self) -> MessageTiming | None:
        """When the message was made; None when nobody wants to know."""
        if self._started is None:
            return None
        end = Mark.now()
        reasoning = self._span(AgentEventType.REASONING_STARTED, AgentEventType.REASONING_COMPLETED)
        content = self._span(AgentEventType.CONTENT_STARTED, AgentEventType.CONTENT_COMPLETED)
        return MessageTiming(self._started.at, end.at, end.ns - self._started.ns, *reasoning, *content)

    def cut_off(self) -> AssistantMessage | None:
        """Show the end of whatever is open, and return the text so far as an interrupted message if there is any."""
        for kind in self._due:
            self._run.channel.send(AgentEvent(kind, self._run.session_id, _GENERATING))
        for call_id, name in self._server_calls.items():
            result = ServerToolResult(call_id, name, error_code="interrupted")
            self._run.channel.send(
                AgentEvent(_SERVER_FAILED, self._run.session_id, _GENERATING, server_tool_result=result)
            )
        text = "".join(piece for piece in self._text if isinstance(piece, str))
        if not text.strip():
            return None
        stop = StopInfo(StopReason.INTERRUPTED, message="the answer was cut off")
        return AssistantMessage(content=text, stop=stop)

    def _span(
        self, first: AgentEventType, last: AgentEventType
    ) -> tuple[datetime, datetime, int] | tuple[None, None, None]:
        start, end = self._marks.get(first), self._marks.get(last)
        if start is None or end is None:
            return None, None, None
        return start.at, end.at, end.ns - start.ns

    async def _observe(self, event: ModelEvent) -> None:
        _check_event(event)
        if self.response is not None:
            raise AgentProtocolError(f"the model stream went on after its response, with {event.type.value}")
        match event.type:
            case ModelEventType.TEXT_DELTA:
                self._text.append(event.delta)
                if event.delta:
                    await self._pass(opens_content=True)
                await self._run.tell(AgentEventType.TEXT_DELTA, delta=event.delta)
            case ModelEventType.REASONING_DELTA:
                if event.delta and not self._reasoning_open:
                    self._reasoning_open = True
                    await self._bound(AgentEventType.REASONING_STARTED)
                await self._run.tell(AgentEventType.REASONING_DELTA, delta=event.delta)
            case ModelEventType.TOOL_CALL_DELTA:
                await self._pass()
                await self._run.tell(AgentEventType.TOOL_CALL_DELTA, tool_call_delta=event.tool_call_delta)
            case ModelEventType.RESPONSE:
                await self._respond(event)
            case _:
                await self._server_tool(event)

    async def _respond(self, event: ModelEvent) -> None:
        try:
            "".join(self._text)  # once for all pieces: the hot path looks at none
        except TypeError as error:
            raise AgentProtocolError(f"the model has sent a delta that is no text: {error}") from None
        if self._server_calls:
            raise AgentProtocolError(f"the model responded while server tools run: {', '.join(self._server_calls)}")
        await self._pass(closes_content=True)
        self.response = event.response

    async def _pass(self, *, opens_content: bool = False, closes_content: bool = False) -> None:
        """Close reasoning, and open or close the content, as far as that is due."""
        due = []
        if self._reasoning_open:
            self._reasoning_open = False
            due.append(AgentEventType.REASONING_COMPLETED)
        if opens_content and not self._content_open:
            self._content_open = True
            due.append(AgentEventType.CONTENT_STARTED)
        if closes_content and self._content_open:
            self._content_open = False
            due.append(AgentEventType.CONTENT_COMPLETED)
        if due:
            await self._bound(*due)

    async def _bound(self, *kinds: AgentEventType) -> None:
        for kind in kinds:
            listened = self._run.hooks.listeners(_BOUNDARIES[kind])
            if self._timed or listened:
                mark = Mark.now()
                self._keep(kind, mark)
                if listened:
                    await self._run.publish(_BOUNDARIES[kind](mark.at, mark.ns))
        for kind in kinds:
            if kind in _ENDS:
                self._due.append(_ENDS[kind])
            else:
                self._due.remove(kind)
            await self._run.tell(kind)

    def _keep(self, kind: AgentEventType, mark: Mark) -> None:
        """Reasoning lasts from its first start to its last end, content from its start to the response."""
        if kind is AgentEventType.REASONING_STARTED:
            self._marks.setdefault(kind, mark)
        else:
            self._marks[kind] = mark

    async def _server_tool(self, event: ModelEvent) -> None:
        call, delta, result = event.server_tool_call, event.server_tool_input_delta, event.server_tool_result
        if call is not None:
            if call.id in self._server_calls:
                raise AgentProtocolError(f"server tool call {call.id!r} started twice")
            self._server_calls[call.id] = call.name
        elif delta is not None:
            self._server_call(delta.call_id)
        else:
            assert result is not None, "every event carries what its type says"
            self._end_server_call(result)
        await self._run.tell(
            AgentEventType(event.type.value),
            server_tool_call=call,
            server_tool_input_delta=delta,
            server_tool_result=result,
        )

    def _server_call(self, call_id: str) -> str:
        if call_id not in self._server_calls:
            raise AgentProtocolError(f"server tool call {call_id!r} has not started")
        return self._server_calls[call_id]

    def _end_server_call(self, result: ServerToolResult) -> None:
        if self._server_call(result.call_id) != result.name:
            raise AgentProtocolError(f"server tool call {result.call_id!r} ended under another name: {result.name!r}")
        del self._server_calls[result.call_id]


def _check_event(event: object) -> None:
    """AgentProtocolError for what a model must not yield."""
    if not isinstance(event, ModelEvent):
        raise AgentProtocolError(f"a model must yield ModelEvent objects, not {type(event).__name__}")
    wanted = _CARRIED.get(event.type)
    if wanted is None:
        raise AgentProtocolError(f"the type of a model event must be a ModelEventType, not {event.type!r:.100}")
    field, kind = wanted
    carried = getattr(event, field)
    if carried is None:
        raise AgentProtocolError(f"the model event {event.type.value} carries nothing: it needs its {field}")
    if not isinstance(carried, kind):
        given = type(carried).__name__
        raise AgentProtocolError(f"{field} of the model event {event.type.value} must be {kind.__name__}, not {given}")
