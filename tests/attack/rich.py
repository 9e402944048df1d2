"""One rich request, and a loop that acts at its n-th step."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from tests.attack.ledger import Ledger
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call, text
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")

#: The calls of the parent, by id; those of children have other ids.
CALLS = ("w", "b", "q1", "q2", "p", "t", "ts")

#: Seconds that a consumer with a limit has; nothing else in the scenario waits for a clock.
LIMIT = 50.0

if TYPE_CHECKING:
    _Base = asyncio.BaseEventLoop
else:
    _Base = object


class Stepping(_Base):
    """Lets any loop count the callbacks that it runs once it is armed, and act before the ``at``-th."""

    at = steps = 0
    skipped = 0.0
    act: Callable[[], object] | None = None

    def arm(self, at: int, act: Callable[[], object]) -> None:
        self.at, self.act, self.steps = at, act, 0

    def disarm(self) -> bool:
        """Whether it has acted."""
        struck, self.act = self.act is None, None
        return struck

    def time(self) -> float:
        return super().time() + self.skipped

    def call_soon(  # type: ignore[override]  # its types are newer than the oldest Python
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._step, callback, *args, context=context)

    def _step(self, callback: Callable[..., object], *args: Any) -> None:
        if self.act is not None:
            self.steps += 1
            if self.steps == self.at:
                act, self.act = self.act, None
                act()
        callback(*args)


class SteppingLoop(Stepping, asyncio.SelectorEventLoop):
    """The loop of asyncio that counts."""


#: What a thread at work waits for, in this attempt.
DOOR: ContextVar[threading.Event] = ContextVar("DOOR")


@tool
async def work(n: int) -> str:
    """Work."""
    await asyncio.sleep(0)
    return f"worked {n}"


@tool
def block() -> str:
    """Work in a thread."""
    DOOR.get().wait()
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


class Cast:
    """What serves attempt after attempt, so that whatever one of them leaves behind is in the way of the next.

    Making it is what costs, too: each tool has a schema.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.asking = AskUserExtension()
        grandchild = SubAgentDefinition(
            "grandchild",
            "g",
            "g",
            worker(call("ask_user", id="gq", question="g?"), call("danger", id="gd")),
            tools=[danger],
            extensions=[self.asking, self.ledger],
        )
        self.below = AsyncSubAgentExtension([grandchild])
        inner = SubAgentExtension([grandchild])
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
            extensions=[self.asking, self.ledger, inner, self.below],
        )
        self.background = AsyncSubAgentExtension([child])
        self.families = [SubAgentExtension([child]), self.background, inner, self.below]
        self.models: list[Any] = [child.model, grandchild.model]


class Rich:
    """A parent with tools of each kind, two questions, a permission, and children in front and behind, who ask, too.

    The thread of the sync tool stays within it until the child in front has reported.
    """

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.model = FunctionModel(self._answer)
        self.memory = InMemoryMessageAccumulator()
        self.gate = PermissionExtension([PermissionRule("danger", "ask"), PermissionRule("*", "allow")])
        self.door = threading.Event()
        self.agent: Agent
        self.stream: AsyncIterator[AgentEvent]
        self.events: list[AgentEvent] = []
        #: Whether the stream has ended, and whether somebody else than its reader closed it.
        self.ended = self.closed = False
        self._said: set[str] = set()

    async def open(self) -> None:
        DOOR.set(self.door)
        self.agent = await Agent.create(
            self.model,
            config=SESSION,
            system_prompt="",
            tools=[work, block, danger],
            extensions=[self.memory, self.gate, self.cast.ledger, self.cast.asking, *self.cast.families[:2]],
        )
        self.stream = self.agent.stream("hi")

    async def play(self, at: int = 0, act: Callable[[], Any] | None = None) -> bool:
        """Follow the request; at event number ``at`` act, or leave when there is nothing to do. False: it ended before.

        What ``act`` returns is awaited, between two events, when it can be.
        """
        async with aclosing(self.stream) as events:  # type: ignore[type-var]
            return await self.follow(events, at, act)

    async def follow(
        self, events: AsyncIterator[AgentEvent], at: int = 0, act: Callable[[], Any] | None = None
    ) -> bool:
        """As ``play``, and closes nothing."""
        async for event in events:
            self.events.append(event)
            self._react(event)
            if len(self.events) == at:
                if act is None:
                    return True
                done = act()
                if isinstance(done, asyncio.Future):
                    await done
        self.ended = True
        return 0 < at <= len(self.events)

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

    def _react(self, event: AgentEvent) -> None:
        payload = event.payload or {}
        if "response_event" in payload:
            said = {"decision": "approve"} if event.name == "permission_request" else {"answer": "yes"}
            reply = ExternalEvent(payload["response_event"], {"tool_call_id": payload["tool_call_id"], **said})
            self.agent.emit_external_event(reply, config=AgentRunConfig(session_id=payload["session_id"]))
        for kind, name in (("tool_started", "steering_message"), ("model_completed", "internal_message")):
            if event.type == kind and name not in self._said:
                self._said.add(name)
                self.agent.emit_external_event(ExternalEvent(name, {"content": name}), config=SESSION)
        if event.type in ("tool_completed", "tool_failed") and event.tool_calls and event.tool_calls[0].id == "t":
            self.door.set()
