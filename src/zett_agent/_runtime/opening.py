"""The opening of a request: context, history, input."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from zett_agent._runtime.hooks import each
from zett_agent._runtime.journal import Journal, replay
from zett_agent._runtime.resumption import ResumeKind, ResumePoint, classify_resume
from zett_agent._runtime.run import Run
from zett_agent._runtime.supervisor import Supervisor
from zett_agent._runtime.transcript import OUTCOME_UNKNOWN
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentProtocolError, AgentResumeError
from zett_agent.messages import AgentMessage, UserMessage, copy_agent_message
from zett_agent.storage.base import SessionStore


@dataclass(frozen=True, slots=True)
class FreshInput:
    """A request that starts from a user message."""

    kind: ClassVar[str] = "user"
    message: UserMessage


@dataclass(frozen=True, slots=True)
class InternalInput:
    """A request that starts from a machine's message."""

    kind: ClassVar[str] = "internal"
    message: AgentMessage

    def __post_init__(self) -> None:
        if not isinstance(self.message, AgentMessage):
            raise TypeError(f"message must be an AgentMessage, not {type(self.message).__name__}")


@dataclass(frozen=True, slots=True)
class Resumption:
    """A request that goes on where the session stopped."""

    kind: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True)
class Compaction:
    """A pass that only compacts."""

    kind: ClassVar[str] = "compact"


@dataclass(slots=True)
class Inspection:
    """A pass that only looks where the session could be resumed; it changes nothing but its own ``point``."""

    kind: ClassVar[str] = "inspect"
    point: ResumePoint | None = None


Start = FreshInput | InternalInput | Resumption | Compaction | Inspection

_NOTICES = {
    ResumeKind.RETRY_RESPONSE: "Your last answer was cut off before it was complete. Give it again from the start.",
    ResumeKind.CONTINUE_RESPONSE: (
        "Your last answer reached the output limit. Go on exactly where it stopped and repeat nothing."
    ),
    ResumeKind.CONTINUE_WORK: (
        "The limit that ended your work no longer holds, and you may call tools again. "
        "Go on where you were and do nothing twice."
    ),
}


async def load_context(run: Run, start: Start, store: SessionStore | None) -> None:
    """From created to ready: claim the log, let extensions register tools, restore history and shape the input."""
    if not isinstance(start, Compaction | Inspection):
        run.inbox.open()
    await run.move(AgentPhase.LOADING_CONTEXT)
    if store is not None:
        await _open_journal(run, start, store)
    await each(run.hooks.on_tool, run.context)
    await each(run.hooks.on_state, run.context)
    if isinstance(start, FreshInput):
        await each(run.hooks.on_message, run.context)
    await run.context.flush_message_events()
    await run.move(AgentPhase.READY)


async def take_input(run: Run, start: Start) -> None:
    """Bring the history into order and append what the request starts from."""
    if isinstance(start, Resumption):
        await _resume(run)
        return
    await run.settle_open(OUTCOME_UNKNOWN)  # calls of an earlier request: nobody knows what became of them
    if isinstance(start, InternalInput):
        await run.append(copy_agent_message(start.message))
    elif isinstance(start, FreshInput):
        run.transcript.drop_unanswered_input()
        await run.append(_input_message(run))


def inspect(run: Run, start: Inspection) -> None:
    """Note where the session can go on, if it can."""
    try:
        start.point = classify_resume(run.transcript.view())
    except AgentResumeError:
        start.point = None


async def _open_journal(run: Run, start: Start, store: SessionStore) -> None:
    if isinstance(start, Inspection):
        run.transcript.restore(replay(await store.load(run.session_id)))
        return
    context = run.context
    journal = run.journal = await Journal.claim(store, run.session_id, context.request_id)
    run.records_messages = True
    run.supervisor = Supervisor()
    keeper = run.supervisor.spawn(journal.keep(), name=f"zett lease {run.session_id}")
    keeper.add_done_callback(partial(_lease_ended, run))
    run.transcript.restore(await journal.history())
    await journal.opened(start.kind, context.state.parent_session_id, context.metadata, context.tags)


def _lease_ended(run: Run, keeper: asyncio.Task[None]) -> None:
    """Who has lost the session must not go on writing to it."""
    error = None if keeper.cancelled() else keeper.exception()
    if isinstance(error, Exception):
        run.break_off(error)


async def _resume(run: Run) -> None:
    point = classify_resume(run.transcript.view())
    if point.kind is ResumeKind.RECOVER_TOOLS:
        await run.settle_open(OUTCOME_UNKNOWN)
    notice = _NOTICES.get(point.kind)
    if notice is not None:
        await run.append(AgentMessage(content=notice, attributes={"resume": point.kind.value}))


def _input_message(run: Run) -> UserMessage:
    message = run.context.input_message
    if not isinstance(message, UserMessage):
        raise AgentProtocolError(f"context.input_message must stay a UserMessage, not {type(message).__name__}")
    return message
