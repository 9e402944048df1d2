"""The client: an initialized agent with an optional event dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Literal, Self

from typing_extensions import Unpack

from zett_agent._checks import has_method, instance
from zett_agent._runtime.bridge import SyncObject, SyncRuntime
from zett_agent._runtime.resumption import ResumePoint
from zett_agent.agent import Agent, AgentOptions, RunOptions, drain
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentState
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, CompactionEvent
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage
from zett_agent.model import AgentModel
from zett_agent.waits import ExternalEvent, Wait


class AgentClient:
    """The door for applications: the agent's methods, with every event dispatched before it is yielded.

    ``async with`` closes the agent at the end.
    """

    def __init__(self, agent: Agent, *, event_dispatcher: AgentEventDispatcher | None = None) -> None:
        self.agent = instance("agent", agent, Agent)
        if event_dispatcher is not None:
            has_method("event_dispatcher", event_dispatcher, "dispatch", "AgentEventDispatcher")
        self.event_dispatcher = event_dispatcher

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the agent: stop its requests and background work."""
        await self.agent.aclose()

    def stream(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """As ``Agent.stream``; an error of a dispatcher callback stops the request."""
        return self._dispatched(self.agent.stream(message, **options))

    async def run(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``Agent.run``."""
        return await drain(self.stream(message, **options))

    def stream_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """As ``Agent.stream_internal``."""
        return self._dispatched(self.agent.stream_internal(message, **options))

    async def run_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``Agent.run_internal``."""
        return await drain(self.stream_internal(message, **options))

    def stream_resume(self, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """As ``Agent.stream_resume``."""
        return self._dispatched(self.agent.stream_resume(**options))

    async def resume(self, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``Agent.resume``."""
        return await drain(self.stream_resume(**options))

    async def resume_point(self, **options: Unpack[RunOptions]) -> ResumePoint | None:
        """As ``Agent.resume_point``; nothing is dispatched."""
        return await self.agent.resume_point(**options)

    async def compact(self, **options: Unpack[RunOptions]) -> CompactionEvent | None:
        """Compact the session now; the last summary that was applied, or None."""
        applied: CompactionEvent | None = None
        async with aclosing(self._dispatched(self.agent.compact(**options))) as events:  # type: ignore[type-var]
            async for event in events:
                applied = event.compaction or applied
        return applied

    def emit_external_event(self, event: ExternalEvent, *, config: AgentRunConfig | None = None) -> list[str]:
        """As ``Agent.emit_external_event``."""
        return self.agent.emit_external_event(event, config=config)

    def pending_waits(self, *, config: AgentRunConfig | None = None) -> tuple[Wait, ...]:
        """As ``Agent.pending_waits``."""
        return self.agent.pending_waits(config=config)

    def get_state(self, session_id: str) -> AgentState | None:
        """As ``Agent.get_state``."""
        return self.agent.get_state(session_id)

    def is_conflict(self, session_id: str) -> bool:
        """As ``Agent.is_conflict``."""
        return self.agent.is_conflict(session_id)

    def forget(self, session_id: str) -> None:
        """As ``Agent.forget``."""
        self.agent.forget(session_id)

    def sync(self, *, runtime: SyncRuntime | None = None) -> SyncObject:
        """The same object with methods that block, for code without ``async``; see ``zett_agent.sync``."""
        return SyncObject(self, runtime=runtime)

    def stop(self, config: AgentRunConfig | None = None, *, mode: Literal["now", "after_turn"] = "now") -> bool:
        """As ``Agent.stop``."""
        return self.agent.stop(config, mode=mode)

    def _dispatched(self, stream: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        dispatcher = self.event_dispatcher
        return stream if dispatcher is None else _dispatch(stream, dispatcher)


async def _dispatch(stream: AsyncIterator[AgentEvent], dispatcher: AgentEventDispatcher) -> AsyncIterator[AgentEvent]:
    async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see ``Agent.stream``
        async for event in events:
            await dispatcher.dispatch(event)
            yield event


async def create_agent(
    model: AgentModel | None,
    *,
    config: AgentRunConfig | None = None,
    event_dispatcher: AgentEventDispatcher | None = None,
    **options: Unpack[AgentOptions],
) -> AgentClient:
    """Make and initialize an agent and return its client; ``options`` are the keyword options of ``Agent``.

    ``config`` names the default session; without one a new session is made.
    """
    agent = await Agent.create(model, config=config, **options)
    return AgentClient(agent, event_dispatcher=event_dispatcher)
