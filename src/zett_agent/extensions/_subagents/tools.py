"""The five tools with which a model manages background tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Protocol

from pydantic import Field

from zett_agent.context import AgentRunContext
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions._subagents.offer import Description, Prompt, SubAgentName
from zett_agent.extensions._subagents.tasks import SubAgentTask, SubAgentTaskInfo
from zett_agent.tools.base import AgentTool, tool

TaskId = Annotated[str, Field(min_length=1, max_length=64)]
WaitSeconds = Annotated[int, Field(ge=0, le=300)]


class TaskDesk(Protocol):
    """What the tools need of the extension that runs the tasks."""

    def tasks(self, session_id: str) -> tuple[SubAgentTask, ...]:
        """The tasks of a session."""
        ...

    def get_task(self, session_id: str, task_id: str) -> SubAgentTask:
        """One task of a session."""
        ...

    def choose(self, context: AgentRunContext, name: str) -> SubAgentDefinition:
        """The definition that the request offers under this name."""
        ...

    def describe(
        self, context: AgentRunContext, tasks: Iterable[SubAgentTask], *, include_output: bool = False
    ) -> list[SubAgentTaskInfo]:
        """What a tool returns of tasks; how they ended counts as read."""
        ...

    async def start(
        self, context: AgentRunContext, definition: SubAgentDefinition, *, description: str, prompt: str
    ) -> SubAgentTask:
        """Start a task."""
        ...

    async def wait(
        self,
        task: SubAgentTask,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait is what is asked
    ) -> SubAgentTask:
        """Wait for a task."""
        ...

    async def cancel(self, task: SubAgentTask) -> SubAgentTask:
        """Cancel a task."""
        ...


class TaskTools:
    """The tools of one desk, made once and offered to every request."""

    def __init__(self, desk: TaskDesk) -> None:
        self._desk = desk
        self.start = tool(self.task_start)
        self.rest: tuple[AgentTool, ...] = (
            tool(self.task_list, repeatable=True),
            tool(self.task_status, repeatable=True),
            tool(self.task_output, repeatable=True),
            tool(self.task_cancel),
        )

    async def task_start(
        self, description: Description, prompt: Prompt, subagent_type: SubAgentName, context: AgentRunContext
    ) -> SubAgentTaskInfo:
        """Start a subagent on a self-contained piece of work in the background and go on at once.

        The subagent starts without any knowledge of this conversation. You are told when it has finished.

        Args:
            description: What the work is, in a few words.
            prompt: The whole task: the goal, what is known already, the limits, and what the report must hold.
            subagent_type: Which kind of subagent.

        Snippet:
            Start background work by a subagent.

        Guidelines:
            - Write into the prompt all that the subagent must know; it cannot ask you.
            - Go on with something else meanwhile, or end your turn: a notice comes when the task has finished.
        """
        definition = self._desk.choose(context, subagent_type)
        task = await self._desk.start(context, definition, description=description, prompt=prompt)
        return self._one(context, task)

    async def task_list(self, context: AgentRunContext) -> list[SubAgentTaskInfo]:
        """List the background tasks of this conversation and how each of them is.

        Snippet:
            See all background tasks.

        Guidelines:
            - Use it when you no longer know which tasks there are; not to wait for one.
        """
        return self._desk.describe(context, self._desk.tasks(context.session_id))

    async def task_status(self, task_id: TaskId, context: AgentRunContext) -> SubAgentTaskInfo:
        """Say how one background task is, without its report.

        Args:
            task_id: The task.

        Snippet:
            See how one background task is.

        Guidelines:
            - Do not ask again and again; you are told when the task has finished.
        """
        return self._one(context, self._desk.get_task(context.session_id, task_id))

    async def task_output(
        self, task_id: TaskId, context: AgentRunContext, wait_seconds: WaitSeconds = 0
    ) -> SubAgentTaskInfo:
        """Read the report of one background task.

        Args:
            task_id: The task.
            wait_seconds: How long to wait for a task that still runs.

        Snippet:
            Read a background task's report, or wait for it.

        Guidelines:
            - Wait only when you can do nothing useful without the report.
        """
        task = self._desk.get_task(context.session_id, task_id)
        if wait_seconds:
            await self._desk.wait(task, wait_seconds)
        return self._one(context, task, include_output=True)

    async def task_cancel(self, task_id: TaskId, context: AgentRunContext) -> SubAgentTaskInfo:
        """Stop one background task; what it has found so far is lost.

        Args:
            task_id: The task.

        Snippet:
            Stop a background task.

        Guidelines:
            - Stop tasks whose result is not needed any more.
        """
        task = self._desk.get_task(context.session_id, task_id)
        return self._one(context, await self._desk.cancel(task))

    def _one(self, context: AgentRunContext, task: SubAgentTask, *, include_output: bool = False) -> SubAgentTaskInfo:
        return self._desk.describe(context, [task], include_output=include_output)[0]
