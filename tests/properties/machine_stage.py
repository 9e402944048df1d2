"""Who plays: the tools, the children and the model of the machine's agent."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.properties.machine_ledger import Called, Ledger
from tests.properties.machine_plans import CHILDREN, Turn
from tests.properties.machine_spies import FirstSpy
from zett_agent.context import ToolContext
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import ToolMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call, end, error, raw_call, stall, stop, text
from zett_agent.testing.scripted import Stall
from zett_agent.tools.base import AgentTool, ToolExecutionMode, tool

CheckRequest = Callable[[str, ModelRequest], None]


class ModelFailure(Exception):
    """The model failed, as it was drawn to."""


class Stage:
    """Tools that hold until they are released, children that ask, and a model that follows the plan of each session."""

    def __init__(self, ledger: Ledger, check: CheckRequest, spies: list[AgentExtension]) -> None:
        self.ledger = ledger
        self._check = check
        #: Request id to the turns that are left of its plan.
        self.plans: dict[str, deque[Turn]] = {}
        self.gates = ledger.gates
        #: The model that stalled last, by session.
        self.stalls: dict[str, Stall] = {}
        self._numbers: Counter[str] = Counter()
        self.asking = AskUserExtension()
        self.below: list[SubAgentExtension] = [
            SubAgentExtension([self._child("asker", spies)]),
            AsyncSubAgentExtension([self._child("asker", spies)]),
        ]
        self.children = [self._child(kind, spies) for kind in CHILDREN]
        self.model = FunctionModel(self._answer)

    def release_all(self) -> None:
        """Let everything go on that waits for nobody but the machine."""
        while self.gates:
            self.gates.pop()()

    def _answer(self, request: ModelRequest) -> Any:
        session_id = request.cache_key or ""
        self.ledger.effects[session_id] += 1
        self._check(session_id, request)
        plan = self.plans.get(self.ledger.active[session_id].context.request_id)
        turn = plan.popleft() if plan else Turn("text")
        says = text(self.ledger.token(session_id, "says"), " ", turn.ending)
        calls = [self._call(session_id, kind) for kind in turn.calls]
        match turn.ending:
            case "pause":
                return [says, stop("pause_turn")]
            case "cut_text":
                return [says, stop("length")]
            case "cut_calls":
                return [says, *calls, stop("length")]
            case "refusal":
                return [says, call("work", id="never", tag="never"), stop("refusal")]
            case "stall" | "calls_after_a_stall":
                stalled = self.stalls[session_id] = stall()
                self.gates.append(stalled.release)
                return [says, stalled, *calls]
            case "fails_first":
                return [error(ModelFailure("at once"))]
            case "fails_late":
                return [says, error(ModelFailure("late"))]
            case "cancels_itself":
                return [says, error(asyncio.CancelledError())]
            case "no_response":
                return [says, end()]
            case "calls":
                return calls
            case _:
                return [says, *calls]

    def _call(self, session_id: str, kind: str) -> Any:
        # The same ids in every session: an answer that strays would find a wait.
        self._numbers[session_id] += 1
        call_id = f"call-{self._numbers[session_id]}"
        tag = self.ledger.token(session_id, "tag")
        self.ledger.calls[session_id, call_id] = Called(kind, tag)
        name, _, child = kind.partition(":")
        match name:
            case "task" | "task_start":
                return call(name, id=call_id, description="part", prompt=tag, subagent_type=child)
            case "ask":
                return call("ask_user", id=call_id, question=tag)
            case "ask_nothing":
                return call("ask_user", id=call_id, question="")
            case "bad":
                return call("work", id=call_id)
            case "garbled":
                return raw_call("work", '{"tag": ', "oh", id=call_id)
            case "task_list":
                return call(name, id=call_id)
            case "task_output" | "task_cancel":
                return call(name, id=call_id, task_id=f"task-{1 + self._numbers[session_id] % 4}")
            case _:
                return call(name, id=call_id, tag=tag)

    def _child(self, kind: str, spies: list[AgentExtension]) -> SubAgentDefinition:
        extensions = [*spies, self.asking, *(self.below if kind == "nester" else ())]
        model = FunctionModel(lambda request: self._child_answer(kind, request))
        return SubAgentDefinition(kind, kind, kind, model, tools=TOOLS, extensions=extensions)

    def _child_answer(self, kind: str, request: ModelRequest) -> Any:
        session_id = request.cache_key or ""
        self._check(session_id, request)
        last = request.messages[-1]
        if kind == "failing":
            return [text("so far "), error(ModelFailure("in a child"))]
        if not isinstance(last, UserMessage):
            results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
            return "report: " + " ".join(results)
        if kind == "plain":
            return [self._child_call(session_id, "work", "w", last.text)]
        if kind == "asker":
            return [
                self._child_call(session_id, "ask", "q", last.text),
                self._child_call(session_id, "danger", "d", last.text),
            ]
        return [
            call("task", id="t", description="part", prompt=last.text, subagent_type="asker"),
            call("task_start", id="s", description="part", prompt=last.text, subagent_type="asker"),
            self._child_call(session_id, "hold", "h", last.text),
        ]

    def _child_call(self, session_id: str, kind: str, call_id: str, tag: str) -> Any:
        self.ledger.calls[session_id, call_id] = Called(kind, tag)
        if kind == "ask":
            return call("ask_user", id=call_id, question=tag)
        return call(kind, id=call_id, tag=tag)


def _ledger(context: ToolContext) -> Ledger:
    """The first extension of every agent here has it."""
    spy = context.run.extensions[0]
    assert isinstance(spy, FirstSpy)
    return spy.ledger


def _entered(context: ToolContext) -> Ledger:
    """A handler begins on the loop; those in threads are noted by the spy, for they begin at no certain moment."""
    ledger = _ledger(context)
    ledger.executed[context.session_id, context.call_id] += 1
    ledger.effects[context.session_id] += 1
    return ledger


def _held(context: ToolContext) -> asyncio.Event:
    released = asyncio.Event()
    _entered(context).gates.append(released.set)
    return released


@tool
async def work(tag: str, context: ToolContext) -> str:
    """Work."""
    _entered(context)
    await asyncio.sleep(0)
    return f"work {tag}"


@tool(execution_mode=ToolExecutionMode.SERIAL)
async def alone(tag: str, context: ToolContext) -> str:
    """Work by itself."""
    _entered(context)
    await asyncio.sleep(0)
    return f"alone {tag}"


@tool
def block(tag: str, context: ToolContext) -> str:
    """Work in a thread."""
    _ledger(context).threads_may_end.wait()
    return f"block {tag}"


@tool
def stuck(tag: str, context: ToolContext) -> str:
    """Work in a thread until released."""
    ledger = _ledger(context)
    ledger.stuck[context.session_id, context.call_id].wait()
    ledger.threads_may_end.wait()
    return f"stuck {tag}"


@tool
async def hold(tag: str, context: ToolContext) -> str:
    """Work until released."""
    await _held(context).wait()
    return f"hold {tag}"


@tool
async def stubborn(tag: str, context: ToolContext) -> str:
    """Work until released, or cancelled twice."""
    released = _held(context)
    try:
        await released.wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return f"stubborn {tag}"


@tool
async def danger(tag: str, context: ToolContext) -> str:
    """Need a permission."""
    _entered(context)
    await asyncio.sleep(0)
    return f"danger {tag}"


@tool
async def fail(tag: str) -> str:
    """Fail."""
    raise ValueError(tag)


@tool
async def cancels(tag: str) -> str:
    """Fail as something that was cancelled does."""
    raise asyncio.CancelledError


@tool
async def exits(tag: str) -> str:
    """Fail as a script does."""
    raise SystemExit(1)


@tool
async def denied(tag: str, context: ToolContext) -> str:
    """Never run: the policy denies it."""
    _entered(context)
    return tag


@tool
async def hexed(tag: str, context: ToolContext) -> str:
    """Never run: a hook fails first."""
    _entered(context)
    return tag


@tool
async def cursed(tag: str) -> str:
    """Run, and a hook fails afterwards."""
    return f"cursed {tag}"


TOOLS: list[AgentTool] = [
    *(work, alone, block, stuck, hold, stubborn, danger),
    *(fail, cancels, exits, denied, hexed, cursed),
]
