"""What an extension may do: the hooks that the runtime awaits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol
from weakref import WeakSet

from typing_extensions import TypeAliasType

from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.events import ExtensionEvent
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse
from zett_agent.tools.base import ToolResult
from zett_agent.waits import ExternalEvent, Wait

ModelRequestNext = TypeAliasType("ModelRequestNext", Callable[[ModelRequest], AsyncIterator[ModelEvent]])
ToolCallNext = TypeAliasType("ToolCallNext", Callable[[], Awaitable[ToolResult]])


class ActivePort(Protocol):
    """What an extension needs to know of the agents that use it."""

    @property
    def pending(self) -> bool:
        """True while a request is active."""
        ...


class AgentExtension:
    """Base of all extensions; override the hooks you need, the others cost nothing.

    One instance may serve many agents and sessions at once: keep what belongs to a request in the request's context, or
    keyed by it. Hooks run one extension after another by ``priority`` (lower first), then in order of registration.
    Subclasses need not call ``super().__init__()``.
    """

    priority: int = 100

    #: The notifications that ``on_event`` of the same class wants; narrowing it makes the others free.
    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (ExtensionEvent,)

    #: Hooks that the class overrides and this instance does not need; they are not called.
    idle_hooks: frozenset[str] = frozenset()

    _name: str | None = None
    _agents: WeakSet[ActivePort] | None = None

    @property
    def name(self) -> str:
        """The registration identity; the class name unless it is set."""
        return self._name or type(self).__name__

    @name.setter
    def name(self, value: str) -> None:
        self._name = value

    @property
    def pending(self) -> bool:
        """True while a request of any agent uses this instance."""
        return any(agent.pending for agent in tuple(self._agents or ()))

    def attach(self, agent: ActivePort) -> None:
        """Remember, weakly, an agent that uses this instance; for the agent."""
        if self._agents is None:
            self._agents = WeakSet()
        self._agents.add(agent)

    def detach(self, agent: ActivePort) -> None:
        """Forget an agent that does not use this instance any more; for the agent."""
        (self._agents or WeakSet()).discard(agent)

    def request_started(self, context: AgentRunContext) -> None:
        """A request that uses this instance begins; for bookkeeping, must not fail."""

    def request_finished(self, context: AgentRunContext) -> None:
        """A request that used this instance is over, whatever its outcome; for bookkeeping, must not fail."""

    def for_child(self) -> AgentExtension | None:
        """What a subagent of this agent's requests inherits of this extension; nothing by default."""
        return None

    def open_waits(self, session_id: str | None = None) -> Sequence[Wait]:
        """Questions that this extension knows to be open on behalf of a session, in other sessions; None: of any."""
        return ()

    def forget(self, session_id: str) -> None:
        """Drop what is kept for an idle session; called by ``Agent.forget``."""

    async def close(self) -> None:
        """Free what the extension holds beyond requests; called by ``Agent.aclose``."""

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register tools for this request. An error fails the request."""

    async def on_state(self, context: AgentRunContext) -> None:
        """Restore history and prepare state, after every ``on_tool``. An error fails the request."""

    async def on_message(self, context: AgentRunContext) -> None:
        """Transform ``context.input_message``; not called for resumed requests. An error fails the request."""

    async def before_run(self, context: AgentRunContext) -> None:
        """The input is in the history. An error fails the request."""

    async def before_turn(self, context: AgentRunContext) -> None:
        """A turn begins. An error fails the request."""

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        """A model call is next; change it through the context. An error fails the request."""

    async def on_model_request(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        """Wrap one model call and its whole stream. An error fails the request."""
        stream = call_next(request)
        async with aclosing(stream):  # type: ignore[type-var]  # an async generator, as AgentModel says
            async for event in stream:
                yield event

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        """The assistant message is in the history. An error fails the request."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """A call is about to run, or to fail at once when ``call.error`` is set; set it to refuse the call.

        An error fails the request.
        """

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
        """Wrap the execution of a registered tool. An error is the call's failed result."""
        return await call_next()

    async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """The last word, behind every ``on_tool_call``: ``call`` is a copy of exactly what the handler would get.

        An error is the call's failed result.
        """

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        """Inspect or change a result before it is appended. An error fails the request, and the result is not kept."""

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """Every call of the turn is settled. An error fails the request."""

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """The final answer stands and no input is left. An error fails the request."""

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """The request is about to complete. An error fails the request."""

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        """The request failed with ``error``. An error here becomes a note on the original."""

    async def on_compact(self, context: AgentRunContext) -> None:
        """The application asked for compaction. An error fails that pass."""

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """A notification was published. An error fails the publisher until the outcome is committed."""

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Take an external event, or leave it to others (False). Called from any thread; must not block."""
        return False
