"""Answering the questions of a request from outside, as a UI would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.engine.scenario import SESSION, Scene, scene
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import ASK_USER_RESPONSE_EVENT_NAME, AskUserExtension
from zett_agent.extensions.permission import PERMISSION_RESPONSE_EVENT_NAME
from zett_agent.messages import ToolMessage
from zett_agent.testing import EventRecorder, call
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

__all__ = ["SESSION", "answer", "asking", "decide", "held", "note", "reply", "result_of", "results", "scene", "settle"]


def answer(agent: Agent, call_id: str = "q", config: AgentRunConfig | None = SESSION, **payload: Any) -> list[str]:
    """Answer a question of ``ask_user``; returns who took it."""
    event = ExternalEvent(ASK_USER_RESPONSE_EVENT_NAME, {"tool_call_id": call_id, **payload})
    return agent.emit_external_event(event, config=config)


def decide(
    agent: Agent, call_id: str, decision: object = "approve", *, session_id: str = "s", **payload: Any
) -> list[str]:
    """Decide on a held call; returns who took it."""
    body = {"tool_call_id": call_id, "decision": decision, **payload}
    event = ExternalEvent(PERMISSION_RESPONSE_EVENT_NAME, body)
    return agent.emit_external_event(event, config=AgentRunConfig(session_id=session_id))


def reply(agent: Agent, **payload: Any) -> Callable[[AgentEvent], None]:
    """An action for ``EventRecorder.when``: answer whatever the event asks; somebody must take it."""

    def act(event: AgentEvent) -> None:
        assert event.payload is not None
        config = AgentRunConfig(session_id=event.payload["session_id"])
        body = {"tool_call_id": event.payload["tool_call_id"], **payload}
        assert agent.emit_external_event(ExternalEvent(event.payload["response_event"], body), config=config)

    return act


async def asking(calls: Sequence[Any] | None = None, **options: Any) -> Scene:
    """A scene whose model makes ``calls`` (by default one question ``q``) and then says ``done``."""
    question = call("ask_user", id="q", question="Which?", options=["a", "b"])
    return await scene(calls or [question], "done", extensions=[AskUserExtension(**options)])


async def held(
    stage: Scene, name: str = "ask_user", *, count: int = 1
) -> tuple[asyncio.Task[EventRecorder], EventRecorder]:
    """Start a request and return when ``count`` of its questions were shown; the caller owns the task."""
    recorder, shown = EventRecorder(), asyncio.Event()

    def seen(event: AgentEvent) -> None:
        if len(recorder.custom(name)) >= count:
            shown.set()

    for _ in range(count):
        recorder.when("custom", seen)
    request = asyncio.ensure_future(recorder.record(stage.agent.stream("hi")))
    request.add_done_callback(lambda _: shown.set())
    await shown.wait()
    assert not request.done(), f"the request ended before it asked: {request.exception() or recorder.types}"
    return request, recorder


def results(stage: Scene) -> dict[str, ToolMessage]:
    """The results that the model's last request holds, by call id."""
    messages = stage.model.requests[-1].messages
    return {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}


def result_of(stage: Scene, call_id: str = "q") -> Any:
    """The payload that the model got for a question."""
    content = json.loads(results(stage)[call_id].text)
    assert content["name"] == ASK_USER_RESPONSE_EVENT_NAME
    return content["payload"]


async def settle() -> None:
    """Let everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@tool
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"
