"""The yardstick: the loop that one would write by hand, with nothing that is not needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from zett_agent.messages import AnyMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import AgentModel, ModelEventType, ModelRequest

Handler = Callable[..., Awaitable[object]]


async def bare_loop(
    model: AgentModel, tools: Mapping[str, Handler], history: list[AnyMessage], text: str
) -> AsyncIterator[tuple[str, Any]]:
    """Answer ``text``, running tools as long as the model asks for them; yields what a UI would show."""
    history.append(UserMessage(content=text))
    while True:
        async for event in model.stream(ModelRequest(history)):
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
        results = await asyncio.gather(*(_call(tools[call.name], call) for call in message.tool_calls))
        for result in results:
            history.append(result)
            yield "tool_done", result


async def _call(handler: Handler, call: ToolCall) -> ToolMessage:
    try:
        value = await handler(**call.arguments)
        return ToolMessage(tool_call_id=call.id, name=call.name, content=str(value))
    except Exception as error:
        return ToolMessage(tool_call_id=call.id, name=call.name, content=str(error), success=False)
