"""This runtime, measured the way the others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import workloads as w
from bench.peers.common import Request, Runtime, Script, Seen
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType

PACKAGES = ("zett-runtime",)
NOTE = "`agent.stream(...)`, the default extensions"


class Peer(Runtime):
    round_of = w.LongSessions.sessions

    def __init__(self) -> None:
        self._long: list[w.LongSessions] = []

    async def prepare(self) -> None:
        for sessions in self._long:
            await sessions.prepare()

    async def fresh(self, script: Script) -> Request:
        agent = await _agent(script)
        number = 0

        async def request(see: Callable[[Any], None] | None) -> None:
            nonlocal number
            number += 1
            async for event in agent.stream("hello", config=AgentRunConfig(session_id=f"session-{number}")):
                if see is not None:
                    see(event)

        return request

    async def after(self, messages: int, script: Script) -> Request:
        sessions = w.LongSessions(messages)
        self._long.append(sessions)

        async def request(see: Callable[[Any], None] | None) -> None:
            async for event in sessions.stream():
                if see is not None:
                    see(event)

        return request

    def see(self, event: AgentEvent, seen: Seen) -> None:
        if event.type is AgentEventType.TEXT_DELTA:
            seen.pieces.append(event.delta or "")
        elif event.type is AgentEventType.TOOL_COMPLETED:
            seen.results += 1


async def _agent(script: Script) -> Agent:
    answer = w.text_events(len(script.pieces))
    model = w.ReplayModel(w.call_events(script.calls), answer) if script.calls else w.ReplayModel(answer)
    return await Agent.create(model, tools=[w.add])
