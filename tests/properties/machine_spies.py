"""Extensions that write down what happens, in front of all others and behind them, and one that fails at the end."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from tests.properties.machine_ledger import Ledger, Record
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension, ToolCallNext
from zett_agent.extensions.events import (
    ExtensionEvent,
    InputReturnedEvent,
    MessageAppendedEvent,
    PhaseTransitionEvent,
    RunCancelledEvent,
)
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, content_text
from zett_agent.tools.base import ToolResult


class HookFailure(Exception):
    """A hook of the machine failed, as it was drawn to."""


class Spy(AgentExtension):
    """Counts the hooks that tell of an end. With ``pauses`` they let others run, as one that writes a file would."""

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (
        PhaseTransitionEvent,
        RunCancelledEvent,
        InputReturnedEvent,
        MessageAppendedEvent,
    )

    def __init__(self, ledger: Ledger, name: str, priority: int, *, pauses: bool) -> None:
        self.ledger = ledger
        self.name = name
        self.priority = priority
        self._pauses = pauses

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, PhaseTransitionEvent):
            self._count(context, f"->{event.current_phase.value}")
        elif isinstance(event, RunCancelledEvent):
            self._count(context, "cancelled")
        elif isinstance(event, InputReturnedEvent):
            self._count(context, "returned")
        if self._pauses:  # after the count: a hook may be cancelled, it has been called all the same
            await asyncio.sleep(0)

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self._count(context, "after_run")

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self._count(context, "on_success")

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        self._count(context, "on_error")
        if self._pauses:
            await asyncio.sleep(0)

    def request_finished(self, context: AgentRunContext) -> None:
        self._count(context, "request_finished")

    def _count(self, context: AgentRunContext, hook: str) -> Record:
        record = next(record for record in reversed(self.ledger.records) if record.context is context)
        record.hooks[self.name, hook] += 1
        return record


class FirstSpy(Spy):
    """In front of all others: it sees a request begin and a call come to the gates."""

    def request_started(self, context: AgentRunContext) -> None:
        self.ledger.begin(context)

    def request_finished(self, context: AgentRunContext) -> None:
        super().request_finished(context)
        self.ledger.end(context)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, InputReturnedEvent):
            record = self.ledger.active[context.session_id]
            record.returned += [content_text(message.content) for message in event.messages]
        await super().on_event(context, event)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        self.ledger.gated[context.session_id, call.id] = call.name
        if self._pauses:
            await asyncio.sleep(0)

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
        key = (context.session_id, call.id)
        try:
            self.ledger.enter_thread(key, call.name)
            return await call_next()
        finally:
            self.ledger.leave_thread(key)


class LastSpy(Spy):
    """Behind all others: it sees a call leave the gates, and breaks requests that are to be broken."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        del self.ledger.gated[context.session_id, call.id]
        if call.name == "hexed":
            raise HookFailure("before_tool")

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        if self._pauses:
            await asyncio.sleep(0)
        if call.name == "cursed":
            raise HookFailure("after_tool")

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await super().after_run(context, result)
        if "spoils_run" in result.content:
            raise HookFailure("after_run")

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await super().on_success(context, result)
        if "spoils_success" in result.content:
            raise HookFailure("on_success")


class Grump(AgentExtension):
    """Fails wherever an end is told of: the outcome stands, and the others hear of it all the same."""

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (RunCancelledEvent, InputReturnedEvent)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        raise HookFailure("on_event")

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        raise HookFailure("on_error")

    def request_finished(self, context: AgentRunContext) -> None:
        raise HookFailure("request_finished")
