"""What the tests of subagents are made of: parents and children by script, and ways to look at them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.subagent import SubAgentDefinition
from zett_agent.messages import AgentMessage, AnyMessage, ToolMessage, UserMessage
from zett_agent.model import AgentModel, ModelRequest
from zett_agent.testing import EventRecorder, FunctionModel
from zett_agent.tools.base import AgentTool
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")


def kind(
    model: AgentModel,
    name: str = "helper",
    *,
    tools: Sequence[AgentTool] = (),
    extensions: Sequence[AgentExtension] = (),
    max_iterations: int = 18,
) -> SubAgentDefinition:
    """A kind of subagent."""
    return SubAgentDefinition(
        name, f"{name} does things", f"You are {name}.", model, tools, extensions, max_iterations=max_iterations
    )


async def parent(
    model: AgentModel, *extensions: AgentExtension, tools: Sequence[AgentTool] = (), memory: bool = True
) -> Agent:
    """An agent with memory and these extensions."""
    remembering = [InMemoryMessageAccumulator()] if memory else []
    return await Agent.create(model, config=SESSION, tools=tools, extensions=[*remembering, *extensions])


async def record(agent: Agent, message: str = "go", **options: Any) -> EventRecorder:
    """One request of the agent's session to its end."""
    return await EventRecorder().record(agent.stream(message, **options))


def work(prompt: str = "work", *, subagent_type: str = "helper") -> dict[str, Any]:
    """The arguments of ``task`` and ``task_start``."""
    return {"description": prompt, "prompt": prompt, "subagent_type": subagent_type}


def results(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """The results in a history."""
    return [message for message in messages if isinstance(message, ToolMessage)]


def result(messages: Sequence[AnyMessage], place: int = -1) -> Any:
    """One result of a history as JSON."""
    return json.loads(results(messages)[place].text)


def notices(messages: Sequence[AnyMessage]) -> list[str]:
    """The machine's messages in a history."""
    return [message.content for message in messages if isinstance(message, AgentMessage)]


def shape(messages: Sequence[AnyMessage]) -> list[str]:
    """The roles of a history."""
    return [message.role.value for message in messages]


def asked(request: ModelRequest) -> str:
    """The text of the last user message of a request."""
    return [message.text for message in request.messages if isinstance(message, UserMessage)][-1]


def answer_to(event: AgentEvent, **answer: Any) -> tuple[ExternalEvent, AgentRunConfig]:
    """The answer to a question as any UI gives it: from the payload alone."""
    payload = event.payload or {}
    reply = ExternalEvent(payload["response_event"], {"tool_call_id": payload["tool_call_id"], **answer})
    return reply, AgentRunConfig(session_id=payload["session_id"])


def echo() -> FunctionModel:
    """A child's model that repeats its prompt."""
    return FunctionModel(lambda request: f"report on {asked(request)}")


class Meeting:
    """A model whose calls wait until they are released; ``reached(n)`` waits for the n-th."""

    def __init__(self, answer: str = "done") -> None:
        self.started = 0
        self.ended = 0
        self.cancelled = 0
        self.model = FunctionModel(self._answer)
        self._text = answer
        self._go = asyncio.Event()
        self._changed = asyncio.Condition()

    async def _answer(self, request: ModelRequest) -> str:
        await self._count("started")
        try:
            await self._go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended += 1
        return self._text

    async def _count(self, name: str) -> None:
        async with self._changed:
            setattr(self, name, getattr(self, name) + 1)
            self._changed.notify_all()

    async def reached(self, count: int = 1) -> None:
        """Wait until ``count`` calls have started."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.started >= count)

    def release(self) -> None:
        """Let all calls end."""
        self._go.set()


class Spy(AgentExtension):
    """Keeps the context of each request, and calls what it was given at a hook."""

    def __init__(self, **hooks: Callable[[AgentRunContext], Awaitable[None]]) -> None:
        self.contexts: list[AgentRunContext] = []
        self._hooks = hooks

    async def _at(self, hook: str, context: AgentRunContext) -> None:
        if hook in self._hooks:
            await self._hooks[hook](context)

    async def on_tool(self, context: AgentRunContext) -> None:
        self.contexts.append(context)
        await self._at("on_tool", context)

    async def on_state(self, context: AgentRunContext) -> None:
        await self._at("on_state", context)

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        await self._at("before_model", context)


async def until(condition: Callable[[], object]) -> None:
    """Give way until something holds that nothing tells of."""
    while not condition():
        await asyncio.sleep(0)


def customs(recorder: EventRecorder) -> list[AgentEvent]:
    """The CUSTOM events of a stream."""
    return recorder.of(AgentEventType.CUSTOM)
