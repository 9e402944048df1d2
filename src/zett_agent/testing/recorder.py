"""Recorders: what a consumer of a stream saw, and which hooks were called."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, Self

from zett_agent.context import AgentRunContext
from zett_agent.events import TERMINAL_EVENTS, AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension, ModelRequestNext, ToolCallNext
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent, PhaseTransitionEvent
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse
from zett_agent.tools.base import ToolResult

Action = Callable[[AgentEvent], Awaitable[object] | object]


class EventRecorder:
    """Collects the events of a stream: ``events = await EventRecorder().record(agent.stream("hi"))``.

    ``when`` acts at an event, before the consumer asks for the next one: steer, answer, stop.
    """

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []
        self._actions: dict[AgentEventType, deque[Action]] = {}

    def when(self, kind: AgentEventType | str, action: Action) -> Self:
        """Call ``action``, plain or async, at the next event of this type; a second one is for the event after that."""
        self._actions.setdefault(AgentEventType(kind), deque()).append(action)
        return self

    async def record(self, stream: AsyncIterator[AgentEvent], *, until: AgentEventType | str | None = None) -> Self:
        """Take every event, or close the stream after the first of type ``until``; the stream's errors propagate."""
        last = None if until is None else AgentEventType(until)
        async with aclosing(stream) as events:  # type: ignore[type-var]  # the streams of an agent are async generators
            async for event in events:
                self.events.append(event)
                await self._act(event)
                if event.type is last:
                    break
        return self

    @property
    def types(self) -> list[str]:
        """The type of each event, in order."""
        return [event.type.value for event in self.events]

    @property
    def text(self) -> str:
        """All text deltas together."""
        return "".join(event.delta for event in self.of(AgentEventType.TEXT_DELTA))

    @property
    def answer(self) -> AssistantMessage | None:
        """The answer of a request that completed."""
        for event in self.of(AgentEventType.RUN_COMPLETED):
            if isinstance(event.message, AssistantMessage):
                return event.message
        return None

    @property
    def terminal(self) -> AgentEvent | None:
        """The event that ended the request."""
        return next((event for event in self.events if event.type in TERMINAL_EVENTS), None)

    def of(self, kind: AgentEventType | str) -> list[AgentEvent]:
        """The events of one type."""
        return [event for event in self.events if event.type.value == kind]

    def custom(self, name: str) -> list[AgentEvent]:
        """The CUSTOM events of one name."""
        return [event for event in self.of(AgentEventType.CUSTOM) if event.name == name]

    async def _act(self, event: AgentEvent) -> None:
        actions = self._actions.get(event.type)
        if actions:
            done = actions.popleft()(event)
            if inspect.isawaitable(done):
                await done


class HookEntry(NamedTuple):
    """One call of a hook: its name, the phase it was called in, and what it was about."""

    hook: str
    phase: str
    detail: str = ""


class HookRecorder(AgentExtension):
    """Overrides every hook and notes each call in ``entries``, as ``(hook, phase, detail)``.

    The wrapping hooks note their two ends as ``on_tool_call`` and ``on_tool_call_end``. Give several recorders the same
    ``entries`` to see their order, and distinct names. ``notifications=False`` leaves ``on_event`` out.
    """

    def __init__(
        self, *, entries: list[HookEntry] | None = None, name: str | None = None, notifications: bool = True
    ) -> None:
        self.entries: list[HookEntry] = [] if entries is None else entries
        self._name = name
        self._notifications = notifications

    @property
    def hooks(self) -> list[str]:
        """The names of the hooks, in the order of the calls."""
        return [entry.hook for entry in self.entries]

    def of(self, hook: str) -> list[HookEntry]:
        """The calls of one hook."""
        return [entry for entry in self.entries if entry.hook == hook]

    def _note(self, hook: str, context: AgentRunContext, detail: str = "") -> None:
        self.entries.append(HookEntry(hook, context.state.phase.value, detail))

    async def on_tool(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("on_tool", context)

    async def on_state(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("on_state", context)

    async def on_message(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("on_message", context)

    async def before_run(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("before_run", context)

    async def before_turn(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("before_turn", context)

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        """Note the call."""
        self._note("before_model", context)

    async def on_model_request(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        """Note both ends of the model call."""
        self._note("on_model_request", context)
        try:
            async with aclosing(call_next(request)) as stream:  # type: ignore[type-var]  # as AgentModel says
                async for event in stream:
                    yield event
        finally:
            self._note("on_model_request_end", context)

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        """Note the call and how the model stopped."""
        self._note("after_model", context, response.stop.reason.value if response.stop is not None else "")

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Note the call and its tool."""
        self._note("before_tool", context, call.name)

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
        """Note both ends of the execution."""
        self._note("on_tool_call", context, call.name)
        try:
            return await call_next()
        finally:
            self._note("on_tool_call_end", context, call.name)

    async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Note the call and its tool."""
        self._note("authorize_tool", context, call.name)

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        """Note the call and its tool."""
        self._note("after_tool", context, call.name)

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """Note the call."""
        self._note("after_turn", context)

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """Note the call."""
        self._note("after_run", context)

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """Note the call."""
        self._note("on_success", context)

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        """Note the error's type."""
        self._note("on_error", context, type(error).__name__)

    async def on_compact(self, context: AgentRunContext) -> None:
        """Note the call."""
        self._note("on_compact", context)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Note the notification: a passage of phases as ``ready->generating``, a message by its role."""
        if self._notifications:
            self._note("on_event", context, _describe(event))


def _describe(event: ExtensionEvent) -> str:
    if isinstance(event, PhaseTransitionEvent):
        return f"{event.previous_phase.value}->{event.current_phase.value}"
    name: Any = type(event).__name__.removesuffix("Event")
    return f"{name}({event.message.role.value})" if isinstance(event, MessageAppendedEvent) else str(name)
