"""One request: its parts, spelled out, and the few things that every step does with them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Any

from zett_agent._runtime.channel import Channel
from zett_agent._runtime.clock import Clock
from zett_agent._runtime.hooks import HookChain
from zett_agent._runtime.inbox import Inbox
from zett_agent._runtime.journal import Journal
from zett_agent._runtime.phase import PhaseMachine
from zett_agent._runtime.repeats import RepeatGuard
from zett_agent._runtime.supervisor import Supervisor
from zett_agent._runtime.transcript import Transcript
from zett_agent._runtime.waitbook import Ticket, Waitbook, running_loop
from zett_agent.context import AgentRunContext, end_context
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase, ExtensionEvent
from zett_agent.exceptions import AgentDeadlineError, AgentIterationLimitError, AgentProtocolError
from zett_agent.extensions.events import MessageAppendedEvent, MessageTiming, PhaseTransitionEvent
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelUsage, ReasoningEffort, ToolDefinition
from zett_agent.tools.base import AgentTool

LOG = logging.getLogger("zett_agent")

_COMPACTION = {
    AgentEventType.COMPACTION_STARTED: AgentPhase.COMPACTING,
    AgentEventType.COMPACTION_TEXT_DELTA: None,
    AgentEventType.COMPACTION_REASONING_DELTA: None,
    AgentEventType.COMPACTION_COMPLETED: AgentPhase.READY,
}


@dataclass(slots=True)
class Limits:
    """The bounds of a request; see ``Agent`` for what each counts."""

    max_iterations: int
    #: None follows ``max_iterations``, see ``total``.
    max_total_iterations: int | None
    max_internal_messages: int
    max_pause_continuations: int
    max_parallel_calls: int
    max_repeats: int | None
    max_result_chars: int
    deadline: float | None
    deadline_counts_waits: bool
    final_turn: bool

    @property
    def total(self) -> int:
        """The model calls of the whole request."""
        return 4 * self.max_iterations if self.max_total_iterations is None else self.max_total_iterations


@dataclass(slots=True)
class ModelSettings:
    """What each model call of a request is made with."""

    reasoning_effort: ReasoningEffort
    parallel_tool_call: bool
    cache_key: str | None


class StopAfterTurn(Exception):
    """``stop(mode="after_turn")`` took effect."""


@dataclass(slots=True, eq=False)
class Run:
    """A request while it runs. Floor 4 is free functions over it; nothing of it outlives the request."""

    session_id: str
    limits: Limits
    settings: ModelSettings
    hooks: HookChain
    transcript: Transcript
    inbox: Inbox
    waitbook: Waitbook
    channel: Channel
    phase: PhaseMachine
    context: AgentRunContext = field(init=False)
    journal: Journal | None = None
    #: True when somebody wants to know of appended messages, and of when they were made.
    records_messages: bool = False
    #: Owns what runs beside the request, such as keeping the lease; None when nothing does.
    supervisor: Supervisor | None = None
    #: None when the request may take any time, and no request around it has a deadline.
    clock: Clock | None = None
    #: None when calls may come back for ever.
    repeats: RepeatGuard | None = None

    #: Steering or internal input that the model is answering now.
    active_input: UserMessage | AgentMessage | None = None
    iterations: int = 0
    total_iterations: int = 0
    internal_taken: int = 0
    pauses: int = 0
    truncated_turns: int = 0
    unknown_turns: int = 0
    executing: int = 0
    #: Calls whose handler was entered and whose result is not in the history yet, and whether the handler has ended.
    started: dict[str, bool] = field(default_factory=dict)
    #: Calls whose TOOL_STARTED was shown and whose end was not.
    shown: dict[str, ToolCall] = field(default_factory=dict)
    partial: AssistantMessage | None = None
    #: What each model call used, and what the model said last, for whom a limit strikes.
    usages: list[ModelUsage] = field(default_factory=list)
    said: str = ""
    #: The limit for whose sake the model is asked for its last words.
    closing: str | None = None
    cancel_requested: bool = False
    #: True once the request writes that it completed: from there on it is too late to cancel it.
    decided: bool = False
    #: Why the request cannot go on, found out beside its own steps.
    broken: Exception | None = None
    stop_after_turn: bool = False
    offered: tuple[AgentTool, ...] = ()
    definitions: Sequence[ToolDefinition] = ()
    producer: asyncio.Task[None] | None = None
    #: What is to be done when the asyncio task is cancelled before its first step.
    unbegun: Callable[[asyncio.Task[None]], None] | None = None
    #: The process where it runs; one that is forked from that has the object and nothing that runs.
    pid: int = field(default_factory=os.getpid)
    #: Gives the session free; set once the request has it.
    released: Callable[[Run], None] | None = None

    def begin(self, producer: asyncio.Task[None] | None) -> None:
        """The request's asyncio task takes its first step; an eager one does so before anybody else has it."""
        assert producer is not None and self.unbegun is not None, "only ``produce`` makes it"
        producer.remove_done_callback(self.unbegun)
        self.producer, self.unbegun = producer, None

    def let_go(self) -> None:
        """Drop what refers to the request itself, so that nobody has to search for it to free it."""
        self.producer = self.released = None
        end_context(self.context, self.usages)

    def cancel(self) -> None:
        """Stop the request now; the only place that cancels its producer, and it does so once."""
        if not self.cancel_requested and self.producer is not None and not (self.decided or self.channel.finished):
            self.cancel_requested = True
            self.waitbook.abandon_all()  # an answer that is accepted from here on would be lost
            if self.phase.current is not AgentPhase.CREATED:
                self.producer.cancel()

    def stop(self, *, after_turn: bool) -> bool:
        """Ask, from any thread, that the request ends; False when it has its outcome or can never have one."""
        can_stop = not (self.decided or self.phase.ended)  # asked first: the loop may be done with it before we go on
        if after_turn:
            self.stop_after_turn = True
        else:  # also one that has its outcome: it may hang in what an extension does about it
            self.call_home(self.cancel)
        return can_stop

    def check_wanted(self) -> None:
        """CancelledError when the request was stopped or broken off, and a hook or the model swallowed that."""
        if self.cancel_requested or self.broken is not None:
            raise asyncio.CancelledError

    def break_off(self, error: Exception) -> None:
        """Let the request fail with ``error``, wherever it is."""
        if self.producer is not None and not (self.decided or self.broken or self.phase.ended):
            self.broken = error
            self.waitbook.abandon_all(error)
            self.producer.cancel()

    def strike(self) -> None:
        """The time is up; whoever has stopped the request before goes first."""
        if not self.cancel_requested and self.producer is not None and not self.producer.cancelling():
            seconds = self.limits.deadline
            text = f"the request reached its deadline of {seconds:g} s; resume() goes on, deadline= gives it more time"
            self.break_off(AgentDeadlineError(text, limit="deadline", value=seconds))

    def begin_input(self, message: UserMessage | AgentMessage) -> None:
        """From here on the model answers ``message``."""
        self.active_input, self.iterations = message, 0
        if self.repeats is not None:
            self.repeats.begin()

    def count_model_call(self) -> None:
        """Take one model call off the bounds; AgentIterationLimitError when none is left."""
        limits = self.limits
        if self.iterations >= limits.max_iterations:
            raise _too_many("max_iterations", limits.max_iterations, "model calls for one input")
        if self.total_iterations >= limits.total:
            raise _too_many("max_total_iterations", limits.total, "model calls")
        self.iterations += 1
        self.total_iterations += 1

    async def move(self, to: AgentPhase) -> None:
        """Pass to another phase and announce it."""
        before = self.phase.move(to)
        if self.hooks.listeners(PhaseTransitionEvent):
            await self.publish(PhaseTransitionEvent(before, to, datetime.now(UTC), monotonic_ns()))

    def show(self, kind: AgentEventType, **fields: Any) -> bool:  # Any: the fields of AgentEvent
        """Show an event to the consumer, stamped with the current phase; True asks for ``channel.drained()``."""
        return self.channel.send(AgentEvent(kind, self.session_id, self.phase.current, **fields))

    async def tell(self, kind: AgentEventType, **fields: Any) -> None:
        """Show an event, waiting when the consumer is far behind."""
        if self.show(kind, **fields):
            await self.channel.drained()

    async def publish(self, event: ExtensionEvent, target: str | None = None) -> None:
        """Deliver a notification to every extension that wants it, or to the one named ``target``."""
        if target is not None:
            await self.hooks.named(target).on_event(self.context, event)
            return
        for _, listener in self.hooks.listeners(type(event)):
            await listener(self.context, event)

    async def emit(self, event: AgentEvent) -> None:
        """Show an extension's event; compaction events move the phase."""
        if event.type is not AgentEventType.CUSTOM:
            await self._compaction_phase(event)
        event.phase = self.phase.current
        if self.channel.send(event) and not self.phase.ended:  # the end of a request waits for no consumer
            await self.channel.drained()

    @property
    def usage(self) -> ModelUsage:
        """What the model calls of the request have used so far."""
        return ModelUsage.total(self.usages)

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The event loop where the request runs; None before it does."""
        producer = self.producer  # once, since another thread may ask
        return None if producer is None else producer.get_loop()

    @property
    def elsewhere(self) -> bool:
        """True for code that runs on another event loop than the request."""
        return self.home is not asyncio.get_running_loop()

    @property
    def lost(self) -> bool:
        """True when the request can never end: its event loop is closed, or stayed behind in the parent process."""
        home = self.home
        return self.pid != os.getpid() or (home is not None and home.is_closed())

    def call_home(self, work: Callable[..., object], *given: object) -> None:
        """Call ``work`` on the event loop of the request, from any thread; when that is closed, never."""
        home = self.home
        if home is not None:
            with suppress(RuntimeError):
                home.call_soon_threadsafe(work, *given)

    def show_soon(self, event: AgentEvent) -> None:
        """Show an event from any thread: at once on the request's own loop, and never when that is closed."""
        if running_loop() is self.home:
            self._show_stamped(event)
        else:
            self.call_home(self._show_stamped, event)

    def _show_stamped(self, event: AgentEvent) -> None:
        event.phase = self.phase.current
        self.channel.send(event)

    async def append(
        self, message: AnyMessage, timing: MessageTiming | None = None, usage: ModelUsage | None = None
    ) -> None:
        """Append a message to the history, log it and announce it."""
        self.transcript.append(message)
        if self.records_messages:
            await self.record_message(message, timing, usage)

    async def settle_open(self, text: str) -> None:
        """Give every open call a failed result of ``text``."""
        for result in self.transcript.settle_open(text):
            await self.record_message(result)

    async def record_message(
        self, message: AnyMessage, timing: MessageTiming | None = None, usage: ModelUsage | None = None
    ) -> None:
        """Log and announce a message that stands in the history."""
        if not self.records_messages:
            return
        timing = timing or MessageTiming.instant()
        if self.journal is not None:
            await self.journal.message(message, timing, usage)
        if self.hooks.listeners(MessageAppendedEvent):
            await self.publish(MessageAppendedEvent(message, timing, usage))

    async def record_wait(self, ticket: Ticket) -> None:
        """Log a wait that opened or ended."""
        if self.journal is not None:
            await self.journal.wait(ticket)

    async def _compaction_phase(self, event: AgentEvent) -> None:
        if event.type not in _COMPACTION:
            raise AgentProtocolError(f"extensions may emit CUSTOM and COMPACTION events, not {event.type.value}")
        if self.transcript.open_calls:
            raise AgentProtocolError("compaction must wait until every call of the turn has its result")
        to = _COMPACTION[event.type]
        if to is not None:
            await self.move(to)
        elif self.phase.current is not AgentPhase.COMPACTING:
            raise AgentProtocolError(f"{event.type.value} needs the phase compacting, not {self.phase.current.value}")


def _too_many(limit: str, value: int, counted: str) -> AgentIterationLimitError:
    text = f"the request reached {limit}={value} {counted}; resume() goes on, {limit}= gives it more of them"
    return AgentIterationLimitError(text, limit=limit, value=value)
