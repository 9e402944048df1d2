"""Callbacks instead of a loop over events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from zett_agent._runtime.bridge import SyncObject, SyncRuntime
from zett_agent.events import AgentEvent, AgentEventType


class AgentEventDispatcher:
    """One async callback per type of event; override those you need, the others do nothing.

    ``dispatch`` awaits ``on_<type>_event(event)``. An AgentClient does so before it yields the event; an error of a
    callback ends the stream and stops the request.
    """

    def sync(self, *, runtime: SyncRuntime | None = None) -> SyncObject:
        """The same object with methods that block; see ``zett_agent.sync``."""
        return SyncObject(self, runtime=runtime)

    async def dispatch(self, event: AgentEvent) -> None:
        """Await the callback for ``event``."""
        callback: Callable[[AgentEvent], Awaitable[None]] = getattr(self, _CALLBACKS[event.type])
        await callback(event)

    async def on_compaction_started_event(self, event: AgentEvent) -> None:
        """A compaction began."""

    async def on_compaction_text_delta_event(self, event: AgentEvent) -> None:
        """A piece of the summary."""

    async def on_compaction_reasoning_delta_event(self, event: AgentEvent) -> None:
        """A piece of the summarizer's thinking."""

    async def on_compaction_completed_event(self, event: AgentEvent) -> None:
        """A compaction ended; ``event.applied`` says whether it changed anything."""

    async def on_model_started_event(self, event: AgentEvent) -> None:
        """A model call began."""

    async def on_reasoning_started_event(self, event: AgentEvent) -> None:
        """A stretch of reasoning began."""

    async def on_reasoning_delta_event(self, event: AgentEvent) -> None:
        """A piece of reasoning."""

    async def on_reasoning_completed_event(self, event: AgentEvent) -> None:
        """A stretch of reasoning ended."""

    async def on_content_started_event(self, event: AgentEvent) -> None:
        """The answer's text began."""

    async def on_text_delta_event(self, event: AgentEvent) -> None:
        """A piece of the answer."""

    async def on_content_completed_event(self, event: AgentEvent) -> None:
        """The answer's text ended."""

    async def on_tool_call_delta_event(self, event: AgentEvent) -> None:
        """A piece of a call."""

    async def on_server_tool_started_event(self, event: AgentEvent) -> None:
        """A provider-run call began."""

    async def on_server_tool_input_delta_event(self, event: AgentEvent) -> None:
        """A piece of a provider-run call's input."""

    async def on_server_tool_completed_event(self, event: AgentEvent) -> None:
        """A provider-run call succeeded."""

    async def on_server_tool_failed_event(self, event: AgentEvent) -> None:
        """A provider-run call failed."""

    async def on_model_completed_event(self, event: AgentEvent) -> None:
        """A model call ended."""

    async def on_model_stopped_event(self, event: AgentEvent) -> None:
        """The model ended abnormally; see ``event.stop``."""

    async def on_tool_started_event(self, event: AgentEvent) -> None:
        """A call began to run."""

    async def on_tool_completed_event(self, event: AgentEvent) -> None:
        """A call succeeded."""

    async def on_tool_failed_event(self, event: AgentEvent) -> None:
        """A call failed."""

    async def on_tool_skipped_event(self, event: AgentEvent) -> None:
        """A call was not run."""

    async def on_steering_started_event(self, event: AgentEvent) -> None:
        """A steering message is being answered."""

    async def on_steering_completed_event(self, event: AgentEvent) -> None:
        """A steering message was answered."""

    async def on_steering_interrupted_event(self, event: AgentEvent) -> None:
        """A steering message was given up for a newer one."""

    async def on_internal_message_started_event(self, event: AgentEvent) -> None:
        """An internal message is being answered."""

    async def on_internal_message_completed_event(self, event: AgentEvent) -> None:
        """An internal message was answered."""

    async def on_internal_message_interrupted_event(self, event: AgentEvent) -> None:
        """An internal message was given up for steering."""

    async def on_run_completed_event(self, event: AgentEvent) -> None:
        """The request completed."""

    async def on_run_failed_event(self, event: AgentEvent) -> None:
        """The request failed; see ``event.error``."""

    async def on_run_cancelled_event(self, event: AgentEvent) -> None:
        """The request was stopped."""

    async def on_custom_event(self, event: AgentEvent) -> None:
        """An extension's event; see ``event.name`` and ``event.payload``."""


_CALLBACKS = {kind: f"on_{kind.value}_event" for kind in AgentEventType}
