"""Arrange by a script, act by one stream, and read what a user sees as short lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AnyMessage, AssistantMessage, ToolMessage, UserMessage
from zett_agent.model import AgentModel
from zett_agent.testing import EventRecorder, ScriptedModel, check_event_order, check_transcript
from zett_agent.tools.base import AgentTool, ToolExecutionMode, tool
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")
_DELTAS = frozenset({AgentEventType.TEXT_DELTA, AgentEventType.REASONING_DELTA})


@dataclass
class Scene:
    """An agent with memory, and the script of its model."""

    agent: Agent
    model: ScriptedModel

    async def play(self, message: str = "hi", *, recorder: EventRecorder | None = None, **options: Any) -> Outcome:
        """One request to its end; every request that the model saw, and what is left, must be valid."""
        return await self.watch(self.agent.stream(message, **options), recorder)

    async def resume(self) -> Outcome:
        """Go on with the session."""
        return await self.watch(self.agent.stream_resume())

    async def watch(self, stream: AsyncIterator[AgentEvent], recorder: EventRecorder | None = None) -> Outcome:
        """Follow a stream to its end, an error included."""
        recorder = recorder or EventRecorder()
        failure: BaseException | None = None
        try:
            await recorder.record(stream)
        except Exception as error:
            failure = error
        check_event_order(recorder.events)
        self.check_messages()
        return Outcome(recorder, tuple(self.agent.state.messages), failure)

    def check_messages(self) -> None:
        """Every request that the model got, and the history as it is now, pair calls and results."""
        for request in self.model.requests:
            check_transcript(request.messages)
        check_transcript(self.agent.state.messages)

    def steer(self, content: str) -> list[str]:
        """Send a steering message to the session."""
        return self.agent.emit_external_event(ExternalEvent("steering_message", {"content": content}), config=SESSION)

    def nudge(self, content: str) -> list[str]:
        """Send an internal message to the session."""
        return self.agent.emit_external_event(ExternalEvent("internal_message", {"content": content}), config=SESSION)


@dataclass
class Outcome:
    """What came of a request."""

    recorder: EventRecorder
    messages: Sequence[AnyMessage]
    error: BaseException | None = None
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = [line for line, _ in _told(self.recorder.events)]

    @property
    def phases(self) -> list[str]:
        """Each line with the phase it was stamped with."""
        return [f"{line} [{phase}]" for line, phase in _told(self.recorder.events)]

    @property
    def story(self) -> list[str]:
        """The history, one line a message."""
        return story(self.messages)

    def only(self, *words: str) -> list[str]:
        """The lines that begin with one of ``words``."""
        return [line for line in self.lines if line.startswith(words)]


async def scene(
    *steps: Any,
    tools: Iterable[AgentTool] = (),
    extensions: Sequence[AgentExtension] = (),
    memory: bool = True,
    model: AgentModel | None = None,
    **options: Any,
) -> Scene:
    """An initialized agent over a script; steps that are left over show in ``model.assert_done()``."""
    script = ScriptedModel(*steps)
    own = [InMemoryMessageAccumulator()] if memory else []
    options.setdefault("system_prompt", "")
    agent = await Agent.create(
        model or script, config=SESSION, tools=list(tools), extensions=[*own, *extensions], **options
    )
    return Scene(agent, script)


def story(messages: Iterable[AnyMessage]) -> list[str]:
    """A history, one line a message: ``assistant text -> name(id)``, ``tool id ok: content``."""
    return [_line(message) for message in messages]


def _line(message: AnyMessage) -> str:
    if isinstance(message, AssistantMessage):
        calls = ", ".join(f"{call.name}({call.id})" for call in message.tool_calls)
        stop = f" [{message.stop.reason.value}]" if message.stop is not None else ""
        return " ".join(filter(None, ["assistant", message.content, f"-> {calls}" if calls else ""])) + stop
    if isinstance(message, ToolMessage):
        return f"tool {message.tool_call_id} {'ok' if message.success else 'failed'}: {message.text}"
    text = message.text if isinstance(message, UserMessage) else message.content
    return f"{message.role.value} {text}"


def _told(events: Iterable[AgentEvent]) -> list[tuple[str, str]]:
    """Each event as a line and its phase; deltas that follow each other are one line."""
    told: list[tuple[str, str]] = []
    previous: AgentEventType | None = None
    for event in events:
        line, phase = event.type.value, event.phase.value if event.phase is not None else "-"
        if event.type in _DELTAS and previous is event.type:
            told[-1] = (told[-1][0] + event.delta, phase)
        else:
            told.append((" ".join([line, *_about(event)]), phase))
        previous = event.type
    return told


def _about(event: AgentEvent) -> list[str]:
    """What a line says beyond the type."""
    if event.type in _DELTAS:
        return [event.delta]
    if event.tool_calls:
        return [f"{call.name}({call.id})" for call in event.tool_calls]
    if event.steering_message is not None:
        return [event.steering_message.text]
    if event.internal_message is not None:
        return [event.internal_message.content]
    if event.stop is not None:
        return [event.stop.reason.value]
    if event.type is AgentEventType.RUN_FAILED:
        return [type(event.error).__name__]
    return [event.name] if event.name is not None else []


def lines(text: str) -> list[str]:
    """The lines of an indented block."""
    return [line.strip() for line in text.strip().splitlines()]


ANSWER = ["model_started", "content_started", "text_delta done", "content_completed", "model_completed"]
"""The events of a model step that answers ``done``."""


@tool
async def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@tool
async def boom() -> None:
    """Fail."""
    raise ValueError("kaput")


@tool(execution_mode=ToolExecutionMode.SERIAL)
async def alone(n: int = 0) -> str:
    """Run by itself."""
    return f"alone {n}"


def named(name: str, function: Callable[..., Any], **options: Any) -> AgentTool:
    """A tool of another name."""
    function.__doc__ = function.__doc__ or "Do it."
    made: AgentTool = tool(name=name, **options)(function)
    return made


async def spin(turns: int = 20) -> None:
    """Let everything that can run without waiting run."""
    for _ in range(turns):
        await asyncio.sleep(0)
