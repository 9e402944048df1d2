"""The yardstick: the loop that one would write by hand for the same job, with nothing that is not needed.

It remembers sessions, sends a system prompt and the tools, streams what a UI shows, closes the model's stream, runs the
calls of a response side by side, and turns a failing tool into a failed result. No hooks, no waits, no stop, no limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from zett_agent.messages import AnyMessage, AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import AgentModel, ModelEventType, ModelRequest, ToolDefinition

Handler = Callable[..., Awaitable[object]]


class BareLoop:
    """Sessions over one model and its tools."""

    def __init__(self, model: AgentModel, tools: Mapping[str, Handler], definitions: Sequence[ToolDefinition]) -> None:
        self._model = model
        self._tools = tools
        self._definitions = definitions
        self._sessions: dict[str, list[AnyMessage]] = {}

    async def stream(self, session_id: str, text: str) -> AsyncIterator[tuple[str, Any]]:
        """Answer ``text``, running tools as long as the model asks for them."""
        history = self._sessions.setdefault(session_id, [])
        if not history:
            history.append(SystemMessage(content="You are a helpful assistant."))
        history.append(UserMessage(content=text))
        while True:
            yield "model_started", None
            message = AssistantMessage()
            async with aclosing(self._model.stream(ModelRequest(history, self._definitions))) as events:  # type: ignore[type-var]
                async for event in events:
                    if event.type is ModelEventType.TEXT_DELTA:
                        yield "text", event.delta
                    elif event.response is not None:
                        message = event.response.message
            history.append(message)
            yield "message", message
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                yield "tool_started", call
            for result in await asyncio.gather(*(self._call(call) for call in message.tool_calls)):
                history.append(result)
                yield "tool_done", result

    async def _call(self, call: ToolCall) -> ToolMessage:
        try:
            value = await self._tools[call.name](**call.arguments)
            return ToolMessage(tool_call_id=call.id, name=call.name, content=str(value))
        except Exception as error:
            return ToolMessage(tool_call_id=call.id, name=call.name, content=str(error), success=False)
