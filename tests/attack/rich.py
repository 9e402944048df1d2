"""One rich request, a loop that acts at its n-th step, and what must hold after any stop of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from contextvars import Context
from typing import Any

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import TERMINAL_EVENTS, AgentEvent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AgentMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call, check_event_order, check_transcript, text
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")


class SteppingLoop(asyncio.SelectorEventLoop):
    """Counts the callbacks that it runs once it is armed, and acts before the ``at``-th."""

    at = steps = 0
    act: Callable[[], object] | None = None

    def arm(self, at: int, act: Callable[[], object]) -> None:
        self.at, self.act, self.steps = at, act, 0

    def call_soon(  # type: ignore[override]  # its types are newer than the oldest Python
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._step, callback, *args, context=context)

    def _step(self, callback: Callable[..., object], *args: Any) -> None:
        if self.act is not None:
            self.steps += 1
            if self.steps == self.at:
                self.act()
        callback(*args)


@tool
async def work(n: int) -> str:
    """Work."""
    await asyncio.sleep(0)
    return f"worked {n}"


@tool
def block() -> str:
    """Work in a thread."""
    time.sleep(0.0002)
    return "blocked"


@tool
async def danger() -> str:
    """Needs a permission."""
    await asyncio.sleep(0)
    return "did it"


def delegate(name: str, call_id: str, kind: str) -> Any:
    return call(name, id=call_id, description="part", prompt="do it", subagent_type=kind)


def worker(*calls: Any) -> FunctionModel:
    """A child's model: these calls, then a report."""
    return FunctionModel(lambda request: list(calls) if isinstance(request.messages[-1], UserMessage) else "report")


class Rich:
    """A parent with tools of each kind, two questions, a permission, and children in front and behind, who ask, too."""

    def __init__(self) -> None:
        self.asking = AskUserExtension()
        self.below = [SubAgentExtension([self._grandchild()]), AsyncSubAgentExtension([self._grandchild()])]
        child = SubAgentDefinition(
            "child",
            "c",
            "c",
            worker(
                call("work", id="cw", n=2),
                call("danger", id="cd"),
                call("ask_user", id="cq", question="c?"),
                delegate("task", "ct", "grandchild"),
                delegate("task_start", "cs", "grandchild"),
            ),
            tools=[work, danger],
            extensions=[self.asking, *self.below],
        )
        self.model = FunctionModel(self._answer)
        self.models = [self.model, child.model]
        self.memory = InMemoryMessageAccumulator()
        self.gate = PermissionExtension([PermissionRule("danger", "ask"), PermissionRule("*", "allow")])
        self.background = AsyncSubAgentExtension([child])
        self.families = [SubAgentExtension([child]), self.background, *self.below]
        self.agent: Agent
        self.events: list[AgentEvent] = []
        self.said: set[str] = set()

    async def open(self) -> None:
        self.agent = await Agent.create(
            self.model,
            config=SESSION,
            system_prompt="",
            tools=[work, block, danger],
            extensions=[self.memory, self.gate, self.asking, *self.families[:2]],
        )

    async def play(self, at: int = 0, act: Callable[[], object] | None = None) -> None:
        """Follow the request; at event number ``at`` act, or leave when there is nothing to do."""
        async with aclosing(self.agent.stream("hi")) as events:  # type: ignore[type-var]
            async for event in events:
                self.events.append(event)
                self._react(event)
                if len(self.events) == at:
                    if act is None:
                        return
                    act()

    async def check(self) -> None:
        """Whatever happened: one outcome, a whole history, nothing is left, and the session goes on."""
        self._check_outcome()
        if all(task.finished for task in self.background.tasks("s")):
            await self._check_nothing_runs()
        await asyncio.wait_for(self.agent.run("again"), 5)
        await self.agent.aclose()
        await self._check_nothing_runs()
        self._check_nothing_is_kept()
        for model in self.models:
            for request in getattr(model, "requests", ()):
                check_transcript(request.messages)
        told = Counter(
            task_id
            for message in self.memory.messages("s")
            if isinstance(message, AgentMessage)
            for task_id in message.attributes.get("subagent_tasks", ())
        )
        assert all(times == 1 for times in told.values()), told

    def _check_outcome(self) -> None:
        assert not self.agent.pending
        assert not [wait for wait in self.agent.pending_waits() if wait.session_id == "s"]
        check_transcript(self.agent.state.messages)
        check_transcript(self.memory.messages("s"))
        if any(event.type in TERMINAL_EVENTS for event in self.events):
            check_event_order(self.events)
            assert self.events[-1].type.value == f"run_{self.agent.state.phase.value}"

    async def _check_nothing_runs(self) -> None:
        for _ in range(50):
            if len(asyncio.all_tasks()) == 1:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"left: {sorted(task.get_name() for task in asyncio.all_tasks())}")

    def _check_nothing_is_kept(self) -> None:
        kept: list[Any] = [
            *(book for extension in (self.asking, self.gate) for book in (extension._books, extension._staged)),
            *(self.gate._grants, self.gate._parents, self.memory._holders),
            *(book for one in self.families for book in (one._roster, one._places, one._starting)),
            self.below[1]._board._sessions,  # type: ignore[attr-defined]
        ]
        assert not any(kept), kept
        assert not self.agent.pending_waits()

    def _answer(self, request: ModelRequest) -> Any:
        said = [message.text for message in request.messages if isinstance(message, UserMessage)]
        if said != ["hi"] or not isinstance(request.messages[-1], UserMessage):
            return "that is all"
        return [
            text("let me see"),
            call("work", id="w", n=1),
            call("block", id="b"),
            call("ask_user", id="q1", question="1?"),
            call("ask_user", id="q2", question="2?"),
            call("danger", id="p"),
            delegate("task", "t", "child"),
            delegate("task_start", "ts", "child"),
        ]

    def _grandchild(self) -> SubAgentDefinition:
        model = worker(call("ask_user", id="gq", question="g?"), call("danger", id="gd"))
        return SubAgentDefinition("grandchild", "g", "g", model, tools=[danger], extensions=[self.asking])

    def _react(self, event: AgentEvent) -> None:
        payload = event.payload or {}
        if "response_event" in payload:
            said = {"decision": "approve"} if event.name == "permission_request" else {"answer": "yes"}
            reply = ExternalEvent(payload["response_event"], {"tool_call_id": payload["tool_call_id"], **said})
            self.agent.emit_external_event(reply, config=AgentRunConfig(session_id=payload["session_id"]))
        for kind, name in (("tool_started", "steering_message"), ("model_completed", "internal_message")):
            if event.type == kind and name not in self.said:
                self.said.add(name)
                self.agent.emit_external_event(ExternalEvent(name, {"content": name}), config=SESSION)
