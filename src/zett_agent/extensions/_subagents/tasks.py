"""A background task of a subagent: who does it for whom, how it is, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic

from zett_agent.extensions._subagents.report import SubAgentReport
from zett_agent.extensions._subagents.runner import Runner
from zett_agent.stop import StopInfo


class SubAgentTaskStatus(StrEnum):
    """How a background task is; all but ``running`` are terminal."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


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
