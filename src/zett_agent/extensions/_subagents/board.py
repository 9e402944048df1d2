"""The board that a session's background tasks are on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from zett_agent.extensions._subagents.tasks import SubAgentTask
from zett_agent.messages import AgentMessage, AnyMessage, ToolMessage

#: The attribute of a message that announces tasks: their ids.
ANNOUNCED = "subagent_tasks"

_TASK_ID = re.compile(r'task_id"\s*:\s*"task-(\d+)"')


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
