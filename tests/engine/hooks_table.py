"""What extensions must see of a request, and its consumer at the end, for each end there is: a table for all doors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.engine.scenario import add, boom, named
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import TERMINAL_EVENTS, AgentEvent, AgentEventType
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.model import ModelEvent, ModelEventType, ModelRequest, RetryOptions
from zett_agent.testing import HookRecorder, ScriptedModel, call, check_event_order, error, stop, text
from zett_agent.tools.base import AgentTool
from zett_agent.waits import ExternalEvent

HANG = "hang"
"""The text after which the model hangs, and the name of the tool that does."""

OPENING = "on_tool on_state on_message before_run"
STEP = "before_model on_model_request on_model_request_end"
ANSWER = f"{STEP} after_model"
RUNNING = "before_tool on_tool_call authorize_tool on_tool_call_end"
TOOL = f"{RUNNING} after_tool"
END = "after_turn after_run on_success"
TWO_TURNS = f"{OPENING} before_turn {ANSWER} {TOOL} after_turn before_turn {ANSWER} {END}"

ADD, BOOM, HOLD, ASK = call("add", left=1, right=1), call("boom"), call(HANG), call("ask_user", id="q", question="?")


@dataclass(frozen=True)
class Row:
    """A script, what is done once it hangs, and what must be seen: hooks, the last phase, the terminal event."""

    script: Sequence[Any]
    hooks: str
    phase: str = "completed"
    terminal: str = "run_completed"
    act: str = ""
    #: The consumer leaves at the first event of this type.
    close_at: str = ""
    #: Seconds that the request has; only a loop of virtual time plays such a row.
    deadline: float | None = None


_IN_MODEL = ([[text(HANG)]], f"{OPENING} before_turn {STEP}")
_IN_TOOL = ([[HOLD]], f"{OPENING} before_turn {ANSWER} {RUNNING}")
_IN_QUESTION = ([[ASK]], f"{OPENING} before_turn {ANSWER} before_tool")
_LEFT = ("cancelled", "")
_STOPPED = ("cancelled", "run_cancelled")
_FAILED = ("failed", "run_failed")

TABLE: dict[str, Row] = {
    "ok": Row(["x"], f"{OPENING} before_turn {ANSWER} {END}"),
    "tool": Row([[ADD], "x"], TWO_TURNS),
    "tool error": Row([[BOOM], "x"], TWO_TURNS),
    "answered question": Row([[ASK], "x"], TWO_TURNS, act="answer"),
    "pause": Row([[text("p"), stop("pause_turn")], "x"], f"{OPENING} before_turn {ANSWER} {ANSWER} {END}"),
    "refusal": Row([[text("no"), stop("refusal")]], f"{OPENING} before_turn {ANSWER} {END}"),
    "model error": Row(
        [[text("x"), error(ConnectionError())]],
        f"{OPENING} before_turn {STEP} on_error",
        "failed",
        "run_failed",
    ),
    "limit": Row(
        [[BOOM]] * 2,
        f"{OPENING} {f'before_turn {ANSWER} {TOOL} after_turn ' * 2}before_turn on_error",
        "failed",
        "run_failed",
    ),
    "cancel in the model": Row(*_IN_MODEL, *_LEFT, act="cancel"),
    "cancel in a tool": Row(*_IN_TOOL, *_LEFT, act="cancel"),
    "cancel in a question": Row(*_IN_QUESTION, *_LEFT, act="cancel"),
    "stop in the model": Row(*_IN_MODEL, *_STOPPED, act="stop"),
    "stop in a tool": Row(*_IN_TOOL, *_STOPPED, act="stop"),
    "stop in a question": Row(*_IN_QUESTION, *_STOPPED, act="stop"),
    "deadline in the model": Row(_IN_MODEL[0], f"{_IN_MODEL[1]} on_error", *_FAILED, deadline=0.3),
    "deadline in a tool": Row(_IN_TOOL[0], f"{_IN_TOOL[1]} on_error", *_FAILED, deadline=0.3),
    "deadline in a question": Row(_IN_QUESTION[0], f"{_IN_QUESTION[1]} on_error", *_FAILED, deadline=0.3),
    "early close in the model": Row(*_IN_MODEL, *_LEFT, close_at="text_delta"),
    "early close before a tool": Row(
        [[HOLD]], f"{OPENING} before_turn {ANSWER} before_tool", *_LEFT, close_at="tool_started"
    ),
    "early close in a question": Row(*_IN_QUESTION, *_LEFT, close_at="custom"),
    "close after the end": Row(["x"], f"{OPENING} before_turn {ANSWER} {END}", close_at="run_completed"),
}


class Gate:
    """Where a model or a tool stays; ``reached`` can be seen from other threads."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


class HangingModel:
    """A script that hangs after the text ``HANG``."""

    retry = RetryOptions()

    def __init__(self, script: Sequence[Any], gate: Gate) -> None:
        self.script = ScriptedModel(*script)
        self._gate = gate

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in self.script.stream(request):
            yield event
            if event.type is ModelEventType.TEXT_DELTA and event.delta == HANG:
                await self._gate()


class Life(AgentExtension):
    """Keeps books of where requests begin and end."""

    def __init__(self) -> None:
        self.books: list[str] = []
        self.over = threading.Event()

    def request_started(self, context: AgentRunContext) -> None:
        self.books.append(f"started {context.state.phase.value}")

    def request_finished(self, context: AgentRunContext) -> None:
        self.books.append(f"finished {context.state.phase.value}")
        self.over.set()


class Watch(AgentEventDispatcher):
    """Notes what is dispatched; a question is where a request hangs, too."""

    def __init__(self, gate: Gate) -> None:
        self.events: list[AgentEvent] = []
        self._gate = gate

    async def dispatch(self, event: AgentEvent) -> None:
        self.events.append(event)
        if event.type is AgentEventType.CUSTOM:
            self._gate.reached.set()


@dataclass
class Cast:
    """Whatever plays a row."""

    row: Row
    gate: Gate = field(default_factory=Gate)
    hooks: HookRecorder = field(default_factory=lambda: HookRecorder(notifications=False))
    life: Life = field(default_factory=Life)

    def __post_init__(self) -> None:
        self.model = HangingModel(self.row.script, self.gate)
        self.watch = Watch(self.gate)

    @property
    def tools(self) -> list[AgentTool]:
        async def hang() -> None:
            await self.gate()

        return [add, boom, named(HANG, hang)]

    @property
    def extensions(self) -> list[AgentExtension]:
        """The recorder comes first: what a later extension holds back, it has seen."""
        return [self.hooks, self.life, AskUserExtension(), InMemoryMessageAccumulator()]

    def answer(self, agent: Agent) -> None:
        """Answer the open question from what anybody can see of it."""
        (wait,) = agent.pending_waits()
        event = ExternalEvent(next(iter(wait.response_events)), {wait.correlation_field: wait.id, "answer": "yes"})
        assert agent.emit_external_event(event, config=AgentRunConfig(wait.session_id)) != []

    def check(self, events: Sequence[AgentEvent] | None) -> None:
        """The hooks of the table, one beginning and one end, and one terminal event for whoever was there to see it."""
        assert self.hooks.hooks == self.row.hooks.split(), self.hooks.hooks
        assert self.life.books == ["started created", f"finished {self.row.phase}"], self.life.books
        if events is not None:
            check_terminal(events, self.row.terminal)


def check_terminal(events: Sequence[AgentEvent], terminal: str) -> None:
    """Exactly one terminal event, the last, with all that was shown to begin ended before it; none when empty."""
    seen = [event.type.value for event in events if event.type in TERMINAL_EVENTS]
    assert seen == ([terminal] if terminal else []), seen
    if terminal:
        check_event_order(events)
