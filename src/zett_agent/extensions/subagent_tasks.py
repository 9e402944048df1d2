"""Background tasks of subagents: what one is, what cancels it, and the board that a session's tasks are on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import Any

from zett_agent._runtime.supervisor import Supervisor
from zett_agent.extensions.subagent import SubAgentReport
from zett_agent.messages import AgentMessage, AnyMessage, ToolMessage
from zett_agent.stop import StopInfo
from zett_agent.tools.base import CURRENT_CALL

#: The attribute of a message that announces tasks: their ids.
ANNOUNCED = "subagent_tasks"

_TASK_ID = re.compile(r'task_id"\s*:\s*"task-(\d+)"')


class SubAgentTaskStatus(StrEnum):
    """How a background task is; all but ``running`` are terminal."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Runner:
    """The asyncio task behind a background task.

    An asyncio task that is cancelled before its first step never runs its body. So a cancel that comes that early is
    only noted, and ``enter``, the body's first step, raises it.
    """

    __slots__ = ("_entered", "cancelled", "task")

    #: The asyncio task whose body calls ``enter``; set by whoever makes it, before anything is awaited.
    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.cancelled = False
        self._entered = False

    def enter(self) -> None:
        """The body begins; CancelledError when a cancel came first."""
        self._entered = True
        if self.cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        """Stop the body; a second cancel adds nothing, so that it cannot cut short what cleans up after the first."""
        if not self.cancelled:
            self.cancelled = True
            if self._entered:
                self.task.cancel()

    async def ended(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as of ``wait``
        """Wait until the body has ended, or ``timeout`` seconds; a cancel of the caller leaves the body alone."""
        if self.task is not asyncio.current_task():  # the body does not wait for itself
            await asyncio.wait({self.task}, timeout=timeout)


@dataclass(slots=True, eq=False)
class SubAgentTask:
    """One piece of background work: who does it for whom, how it is, and what came of it.

    Times are aware UTC. ``notified`` is True once the parent was told of the outcome, or read it with a tool.
    """

    task_id: str
    parent_session_id: str
    session_id: str
    subagent_type: str
    description: str
    prompt: str
    status: SubAgentTaskStatus = SubAgentTaskStatus.RUNNING
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None
    content: str | None = None
    stop: StopInfo | None = None
    error: str | None = None
    notified: bool = False
    _runner: Runner | None = field(default=None, repr=False)
    _began: float = field(default_factory=monotonic, repr=False)
    _ended: float | None = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        """True once the status is terminal."""
        return self.status is not SubAgentTaskStatus.RUNNING

    @property
    def elapsed(self) -> float:
        """Seconds it has run, or did run."""
        return (monotonic() if self._ended is None else self._ended) - self._began

    def settle(self, outcome: Outcome) -> None:
        """Take the outcome; called once."""
        self.status, self.content = outcome.status, outcome.content
        self.stop, self.error = outcome.stop, outcome.error
        self.finished_at, self._ended = datetime.now(UTC), monotonic()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    status: SubAgentTaskStatus
    content: str | None = None
    stop: StopInfo | None = None
    error: str | None = None


CANCELLED = Outcome(SubAgentTaskStatus.CANCELLED)


class SubAgentTaskInfo(SubAgentReport):
    """What the model is told of a task."""

    task_id: str
    subagent_type: str
    description: str
    status: SubAgentTaskStatus
    session_id: str
    elapsed_seconds: float
    content: str | None = None
    stop: StopInfo | None = None
    error: str | None = None
    note: str | None = None


def spawn_apart(
    supervisor: Supervisor, work: Coroutine[Any, Any, None], name: str, done: Callable[[asyncio.Task[None]], None]
) -> asyncio.Task[None]:
    """Run ``work`` with the caller's context variables but outside of its call, and ``done`` after it.

    A callback remembers the variables too, and the call is what would keep the caller's request alive.
    """
    variables = copy_context()
    variables.run(CURRENT_CALL.set, None)
    task = variables.run(partial(supervisor.spawn, work, name=name))
    task.add_done_callback(done, context=variables)
    return task


class TaskBoard:
    """The tasks of every session that has any; a session without tasks has no entry.

    ``retain`` finished tasks are kept for each session, the oldest go first; with ``keep_untold`` only those go whose
    outcome the parent knows. The ids never repeat on one board, so none means two things to a model that remembers it.
    """

    def __init__(self, *, retain: int, keep_untold: bool) -> None:
        self._retain = retain
        self._keep_untold = keep_untold
        self._sessions: dict[str, dict[str, SubAgentTask]] = {}
        self._last_id = 0

    def new_id(self, session_id: str, history: Iterable[AnyMessage]) -> str:
        """An id that neither the board nor the session's history has; a history may be older than the process."""
        if session_id not in self._sessions:
            self._last_id = max(self._last_id, *_ids_in(history), 0)
        self._last_id += 1
        return f"task-{self._last_id}"

    def add(self, task: SubAgentTask) -> None:
        """Put a task on the board."""
        self._sessions.setdefault(task.parent_session_id, {})[task.task_id] = task

    def tasks(self, session_id: str) -> tuple[SubAgentTask, ...]:
        """The tasks of a session, oldest first."""
        return tuple(self._sessions.get(session_id, {}).values())

    def all_tasks(self) -> tuple[SubAgentTask, ...]:
        """The tasks of all sessions."""
        return tuple(task for session_id in self._sessions for task in self.tasks(session_id))

    def find(self, session_id: str, task_id: str) -> SubAgentTask:
        """The task of this id; ValueError names those that there are."""
        known = self._sessions.get(session_id, {})
        if task_id not in known:
            raise ValueError(f"this session has no task {task_id!r}; its tasks: {', '.join(known) or 'none'}")
        return known[task_id]

    def untold(self, session_id: str) -> list[SubAgentTask]:
        """The finished tasks whose outcome the parent does not know, in the order in which they finished."""
        return [task for task in self._finished(session_id) if not task.notified]

    def told(self, session_id: str, task_ids: Iterable[str]) -> None:
        """The parent knows the outcome of these tasks."""
        known = self._sessions.get(session_id, {})
        for task_id in task_ids:
            if task_id in known:
                known[task_id].notified = True
        self.trim(session_id)

    def trim(self, session_id: str) -> None:
        """Forget the oldest finished tasks above the bound."""
        finished = self._finished(session_id)
        surplus = len(finished) - self._retain
        doomed = [task for task in finished if task.notified or not self._keep_untold]
        for task in doomed[: max(surplus, 0)]:
            del self._sessions[session_id][task.task_id]
        if not self._sessions.get(session_id, True):
            del self._sessions[session_id]

    def drop(self, session_id: str) -> tuple[SubAgentTask, ...]:
        """Forget a session and return the tasks that it had."""
        return tuple(self._sessions.pop(session_id, {}).values())

    def _finished(self, session_id: str) -> list[SubAgentTask]:
        finished = [task for task in self.tasks(session_id) if task.finished]
        return sorted(finished, key=lambda task: task._ended or 0.0)


def _ids_in(history: Iterable[AnyMessage]) -> Iterator[int]:
    """The numbers of the tasks that a history speaks of."""
    for message in history:
        match message:
            case ToolMessage() if message.name.startswith("task_"):
                yield from map(int, _TASK_ID.findall(message.text))
            case AgentMessage():
                told = message.attributes.get(ANNOUNCED, ())
                yield from (int(number) for name in told if (number := str(name).removeprefix("task-")).isdigit())
            case _:
                pass
