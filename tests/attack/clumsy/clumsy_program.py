"""What the clumsy programs of this folder have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AssistantMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.testing import EventRecorder
from zett_agent.tools.base import tool

CONFIG = AgentRunConfig(session_id="clumsy")
MISUSE = (TypeError, ValueError)
WRONG: Any = object()


@tool
async def look(at: object = None) -> str:
    """Look at something."""
    return "seen"


async def made(model: Any, **options: Any) -> Agent:
    """An agent that knows its session."""
    return await Agent.create(model, config=CONFIG, **options)


async def played(agent: Agent, message: Any = "go") -> tuple[EventRecorder, BaseException | None]:
    """One request to its end, with the error that the consumer saw."""
    seen = EventRecorder()
    try:
        await seen.record(agent.stream(message, config=CONFIG))
    except Exception as failure:
        return seen, failure
    return seen, None


def history(agent: Agent) -> list[Any]:
    """The messages of the session's last request."""
    state = agent.get_state("clumsy")
    assert state is not None
    return list(state.messages)


async def ticks() -> None:
    """Everything that can happen by itself has happened."""
    for _ in range(500):
        await asyncio.sleep(0)


class Says:
    """A model that yields what it is given, or raises it, and answers properly the next time."""

    retry = RetryOptions(max_retries=0)

    def __init__(self, *events: Any) -> None:
        self.events: list[Any] = list(events)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield what is left to say."""
        events, self.events = self.events, []
        for event in events or [answered(content="fine")]:
            if isinstance(event, BaseException):
                raise event
            yield event


def answered(**fields: Any) -> ModelEvent:
    """A response whose message has these fields, set behind the back of its constructor."""
    return ModelEvent.completed(ModelResponse(edited(AssistantMessage(), **fields)))


def edited(message: Any, **fields: Any) -> Any:
    """A message that was changed since it was made."""
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def hooked(hook: str, work: Callable[..., Any]) -> AgentExtension:
    """An extension with one hook."""
    extension = AgentExtension()
    setattr(extension, hook, work)
    return extension
