"""What a hook and a tool may know and do in the request that calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from zett_agent._checks import instance
from zett_agent._runtime.channel import Channel
from zett_agent._runtime.inbox import Inbox
from zett_agent._runtime.phase import PhaseMachine
from zett_agent._runtime.transcript import History, Transcript
from zett_agent._runtime.waitbook import Ticket, Waitbook
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase, ExtensionEvent
from zett_agent.exceptions import AgentProtocolError, InputRefusedError
from zett_agent.extensions.events import InternalMessageEvent, MessageTiming
from zett_agent.json_types import JsonValue, is_flat_json, json_object
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, SystemMessage, UserMessage, check_message
from zett_agent.model import AgentModel, ModelUsage, ServerToolDefinition
from zett_agent.tools.base import AgentTool
from zett_agent.tools.schema import Injected
from zett_agent.waits import ExternalEvent, Wait


class ExtensionPort(Protocol):
    """What the context needs to know of an extension."""

    @property
    def name(self) -> str:
        """Its registration name."""
        ...


class AgentPort(Protocol):
    """What an extension may ask of the agent that runs it, also when no request is active."""

    def is_conflict(self, session_id: str) -> bool:
        """True while the session has a request."""
        ...

    def emit_external_event(self, event: ExternalEvent, *, config: AgentRunConfig | None = None) -> list[str]:
        """Offer ``event`` to every extension; the names of those that took it."""
        ...

    def stream_internal(
        self, message: AgentMessage, *, config: AgentRunConfig | None = None
    ) -> AsyncIterator[AgentEvent]:
        """A request that starts from a machine's message."""
        ...


class RunPort(Protocol):
    """What the context needs of the request that owns it."""

    @property
    def usage(self) -> ModelUsage:
        """What the model calls of the request have used so far."""
        ...

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the request, once it runs."""
        ...

    def show_soon(self, event: AgentEvent) -> None:
        """Show an event, from any thread and without waiting for anything."""
        ...

    async def publish(self, event: ExtensionEvent, target: str | None = None) -> None:
        """Deliver a notification."""
        ...

    async def emit(self, event: AgentEvent) -> None:
        """Show an event to the consumer."""
        ...

    async def record_message(
        self, message: AnyMessage, timing: MessageTiming | None = None, usage: ModelUsage | None = None
    ) -> None:
        """Log and announce a message that stands in the transcript."""
        ...

    async def record_wait(self, ticket: Ticket) -> None:
        """Log what happened to a wait."""
        ...


class _Over:
    """In the place of a request that is over: there is nobody left to be told, and no log to write to."""

    home: asyncio.AbstractEventLoop | None = None

    def __init__(self, usages: Sequence[ModelUsage]) -> None:
        self._usages = usages

    @property
    def usage(self) -> ModelUsage:
        return ModelUsage.total(self._usages)

    def show_soon(self, event: AgentEvent) -> None:
        pass

    async def publish(self, event: ExtensionEvent, target: str | None = None) -> None:
        if isinstance(event, InternalMessageEvent):  # input is never swallowed
            raise InputRefusedError("the request is over and takes no internal message any more")

    async def emit(self, event: AgentEvent) -> None:
        pass

    async def record_message(
        self, message: AnyMessage, timing: MessageTiming | None = None, usage: ModelUsage | None = None
    ) -> None:
        pass

    async def record_wait(self, ticket: Ticket) -> None:
        pass


class AgentState:
    """A request as seen from outside: its phase and its messages."""

    __slots__ = ("__weakref__", "_phase", "_transcript", "parent_session_id", "undelivered")

    def __init__(self, transcript: Transcript, phase: PhaseMachine, parent_session_id: str | None = None) -> None:
        self._transcript = transcript
        self._phase = phase
        self.parent_session_id = parent_session_id
        #: Input that was accepted and never taken, because the request failed or was cancelled.
        self.undelivered: tuple[UserMessage | AgentMessage, ...] = ()

    @property
    def messages(self) -> History:
        """The history as it is now, an immutable sequence."""
        return self._transcript.view()

    @property
    def phase(self) -> AgentPhase:
        """Where the request is."""
        return self._phase.current


@dataclass(eq=False, slots=True, weakref_slot=True)
class AgentRunContext(Injected):
    """One request, as its hooks and tools see it; one object per request, gone with it."""

    config: AgentRunConfig
    state: AgentState
    tools: dict[str, AgentTool]
    extensions: tuple[ExtensionPort, ...]
    model: AgentModel
    metadata: dict[str, JsonValue]
    tags: dict[str, JsonValue]
    input_message: UserMessage | None
    server_tools: dict[str, ServerToolDefinition]
    event_queue: Channel
    agent: AgentPort
    transcript: Transcript
    inbox: Inbox
    waitbook: Waitbook
    #: What the request starts from: ``user``, ``internal`` or ``resume``; or its pass: ``compact``, ``inspect``.
    kind: str
    _port: RunPort = field(repr=False)
    _unannounced: list[tuple[AnyMessage, ModelUsage | None]] = field(default_factory=list, repr=False)
    _rewritten: bool = False

    @property
    def session_id(self) -> str:
        """The session of the request."""
        if self.config.session_id is None:
            raise AgentProtocolError("the request has no session")
        return self.config.session_id

    @property
    def request_id(self) -> str:
        """The id of the request."""
        if self.config.request_id is None:
            raise AgentProtocolError("the request has no id")
        return self.config.request_id

    @property
    def lost(self) -> bool:
        """True when the request can never end, because its event loop is closed."""
        home = self._port.home
        return home is not None and home.is_closed()

    @property
    def usage(self) -> ModelUsage:
        """What the model calls of the request have used so far; those of its subagents are their own."""
        return self._port.usage

    async def emit(self, event: AgentEvent) -> None:
        """Show a CUSTOM or COMPACTION event to the stream's consumer; other types raise AgentProtocolError.

        From any event loop. Parks only when the consumer is far behind; without a consumer the event is dropped.
        """
        instance("event", event, AgentEvent)
        if event.session_id != self.session_id:
            raise AgentProtocolError(f"the event is for session {event.session_id!r}, not {self.session_id!r}")
        home = self._port.home
        if home is not None and home is not asyncio.get_running_loop():
            # A plain function's thread may run a loop of its own, and what a request has is touched on its loop only.
            if home.is_closed():
                raise AgentProtocolError("the event loop of the request is closed")
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.emit(event), home))
            return
        if event.type is AgentEventType.CUSTOM and event.payload is not None:
            ticket = self.waitbook.note_question(event.name or "", event.payload)
            if ticket is not None:
                await self.record_wait(ticket)
        await self._port.emit(event)

    def emit_nowait(self, event: AgentEvent) -> None:
        """Show a CUSTOM event soon, from any thread; it cannot ask a question. For code that cannot await ``emit``."""
        instance("event", event, AgentEvent)
        if event.type is not AgentEventType.CUSTOM or event.session_id != self.session_id:
            raise AgentProtocolError("emit_nowait takes CUSTOM events of the request's own session")
        self._port.show_soon(event)

    async def publish(self, event: ExtensionEvent, *, target: str | None = None) -> None:
        """Deliver a notification to every extension in order, or to the one named ``target`` (else ValueError)."""
        await self._port.publish(instance("event", event, ExtensionEvent), target)

    def register_tool(self, tool: AgentTool) -> None:
        """Offer ``tool`` to the model in this request; ValueError when its name is taken."""
        instance("tool", tool, AgentTool)
        if tool.name in self.tools:
            raise ValueError(f"a tool named {tool.name!r} is already registered")
        self.tools[tool.name] = tool

    def register_server_tool(self, definition: ServerToolDefinition) -> None:
        """Offer a provider-run tool in this request; ValueError when its type is taken."""
        instance("definition", definition, ServerToolDefinition)
        if definition.type in self.server_tools:
            raise ValueError(f"a server tool of type {definition.type!r} is already registered")
        self.server_tools[definition.type] = replace(definition, configuration=dict(definition.configuration))

    async def append_message(
        self, message: AnyMessage, timing: MessageTiming | None = None, usage: ModelUsage | None = None
    ) -> None:
        """Append ``message`` to the history, log it and announce it; TypeError for what no provider could send."""
        _check_given(message)
        self.transcript.append(message)
        await self._port.record_message(message, timing, usage)

    def add_message(self, message: AnyMessage, *, index: int | None = None, usage: ModelUsage | None = None) -> None:
        """Put ``message`` into the history; it is announced at the next flush."""
        _check_given(message)
        if index is None:
            self.transcript.append(message)
        else:
            self.transcript.insert(index, message)
        self._unannounced.append((message, usage))

    def replace_messages(self, messages: Sequence[AnyMessage], *, emit_new: bool = True) -> None:
        """Take ``messages`` as the history; objects that were not in it are announced unless ``emit_new`` is False."""
        for message in messages:
            _check_given(message)
        before = {id(message) for message in self.transcript.view()} if emit_new else set()
        self.transcript.replace(messages)
        self._rewritten = True
        if emit_new:
            self._unannounced += [(message, None) for message in messages if id(message) not in before]

    def restore_messages(self, earlier: Sequence[AnyMessage]) -> None:
        """Put earlier messages of the session behind the system messages, without announcing them."""
        self.transcript.restore(earlier)

    def add_message_event(self, message: AnyMessage, usage: ModelUsage | None = None) -> None:
        """Announce a message that is in the history at the next flush."""
        self._unannounced.append((message, usage))

    async def flush_message_events(self) -> None:
        """Announce what was added since the last flush, once each, in the order of the history."""
        if not self._unannounced:
            return
        waiting, self._unannounced = self._unannounced, []
        if self._rewritten:
            self._rewritten = False
            present = {id(message) for message in self.transcript.view()}
            waiting = [entry for entry in waiting if id(entry[0]) in present]
        told: set[int] = set()
        for message, usage in _head_first(waiting, self.transcript.view()):
            if id(message) not in told:
                told.add(id(message))
                await self._port.record_message(message, None, usage)

    async def record_wait(self, ticket: Ticket) -> None:
        """Log what happened to a wait; for extensions that hold calls."""
        await self._port.record_wait(ticket)

    def pending_waits(self) -> tuple[Wait, ...]:
        """The questions of this request that are open."""
        return self.waitbook.pending()


def _check_given(message: AnyMessage) -> None:
    """TypeError or ValueError for a message that no provider could send."""
    check_message(message)
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        if not is_flat_json(call.arguments):
            json_object(call.arguments, field_name=f"arguments of call {call.id!r}")


def end_context(context: AgentRunContext, usages: Sequence[ModelUsage]) -> None:
    """For the runtime: the request is over, and what is said in it from now on reaches nobody."""
    context._port = _Over(usages)


def _head_first(
    waiting: list[tuple[AnyMessage, ModelUsage | None]], history: History
) -> list[tuple[AnyMessage, ModelUsage | None]]:
    """System messages by their place at the head, then the rest as they were added."""
    if len(waiting) < 2:
        return waiting
    places: dict[int, int] = {}
    for place, message in enumerate(history):
        if not isinstance(message, SystemMessage):
            break
        places[id(message)] = place
    return sorted(waiting, key=lambda entry: places.get(id(entry[0]), len(places)))


class ToolContext(Injected):
    """What a tool may know of its call. Name it as a parameter's type: ``def f(x: int, context: ToolContext)``."""

    __slots__ = ("_stopped", "call_id", "run", "tool_name")

    def __init__(self, run: AgentRunContext, call_id: str, tool_name: str) -> None:
        self.run = run
        self.call_id = call_id
        self.tool_name = tool_name
        self._stopped = False

    @property
    def session_id(self) -> str:
        """The session of the request."""
        return self.run.session_id

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.run.request_id

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this call, and different for every other call."""
        return f"{self.session_id}:{self.call_id}"

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result; a long sync tool should look at it and return."""
        return self._stopped

    def cancel(self) -> None:
        """Tell the tool that nobody waits for it; for the runtime."""
        self._stopped = True

    async def emit(self, name: str, payload: Mapping[str, Any] | None = None) -> None:
        """Show a CUSTOM event of this call to the stream's consumer; ``tool_call_id`` is added to the payload."""
        body = {**(payload or {}), "tool_call_id": self.call_id}
        await self.run.emit(AgentEvent(AgentEventType.CUSTOM, self.session_id, name=name, payload=body))

    def emit_nowait(self, name: str, payload: Mapping[str, Any] | None = None) -> None:
        """The same for plain functions, from any thread: nothing waits for a slow consumer, so emit with measure."""
        body = {**(payload or {}), "tool_call_id": self.call_id}
        self.run.emit_nowait(AgentEvent(AgentEventType.CUSTOM, self.session_id, name=name, payload=body))

    def inject(self, wanted: type) -> object:
        """The object for a parameter of type ``wanted``."""
        for candidate in (self, self.run):
            if isinstance(candidate, wanted):
                return candidate
        raise TypeError(f"a tool cannot ask for {wanted.__name__}; ToolContext and AgentRunContext can be injected")
