"""Subagents in the background: the model starts them, goes on, and is told when they are done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypedDict

from typing_extensions import Unpack

from zett_agent._checks import whole_number
from zett_agent._failures import failure_text
from zett_agent._runtime.supervisor import STOP_BOUND, Supervisor, join
from zett_agent.agent import drain
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentPort, AgentRunContext
from zett_agent.events import AgentEvent, AgentPhase, ExtensionEvent
from zett_agent.extensions._subagents.board import TaskBoard
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions._subagents.forwarding import emit, forward, question_of
from zett_agent.extensions._subagents.notices import QUOTED_CHARACTERS, Notices, notice
from zett_agent.extensions._subagents.report import subagent_report
from zett_agent.extensions._subagents.runner import Runner, spawn_apart
from zett_agent.extensions._subagents.tasks import (
    CANCELLED,
    Outcome,
    SubAgentTask,
    SubAgentTaskInfo,
    SubAgentTaskStatus,
)
from zett_agent.extensions._subagents.tools import TaskTools
from zett_agent.extensions._subagents.tree import Child
from zett_agent.extensions._subagents.waker import Parent, Waker
from zett_agent.extensions.events import MessageAppendedEvent, RunCancelledEvent
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AgentMessage
from zett_agent.model import ModelRequest
from zett_agent.tools.base import AgentTool

__all__ = [
    "AsyncSubAgentExtension",
    "SubAgentTask",
    "SubAgentTaskInfo",
    "SubAgentTaskStatus",
]

_LOG = logging.getLogger("zett_agent")

#: The kinds of request that answer somebody; the others are passes over a session.
_REQUESTS = ("user", "internal", "resume")


class SubAgentOptions(TypedDict, total=False):
    """The options that background and foreground subagents have in common; see ``SubAgentExtension``."""

    max_depth: int
    max_total: int
    forward_events: bool


class AsyncSubAgentExtension(SubAgentExtension):
    """Offers ``task_start`` and four tools to look after what it started; the model is told when a task has finished.

    A task belongs to the session: it outlives its request, is seen by its session only, and lives in memory, on the
    event loop that started it. ``max_concurrent`` tasks run at once in a session; ``max_retained`` finished ones are
    kept. ``notify_parent`` announces outcomes before the next model call; ``wake_parent`` starts a request for that
    when the session is idle. Ids never repeat in this object, nor in a session whose history is restored. Call
    ``close()``, or ``aclose()`` of the agent, at the end. Bad options raise ValueError.
    """

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (MessageAppendedEvent, RunCancelledEvent)

    #: Seconds that cancelled work has before it is named in the log and left alone; more than a child has itself.
    stop_bound: float = STOP_BOUND + 2.0

    def __init__(
        self,
        subagents: Sequence[SubAgentDefinition] | None = None,
        *,
        max_concurrent: int = 4,
        max_retained: int = 100,
        notify_parent: bool = True,
        wake_parent: bool = False,
        **options: Unpack[SubAgentOptions],
    ) -> None:
        super().__init__(subagents, max_children=whole_number("max_concurrent", max_concurrent, 1), **options)
        if wake_parent and not notify_parent:
            raise ValueError("wake_parent tells an idle parent, which needs notify_parent")
        self.notify_parent = notify_parent
        self.wake_parent = wake_parent
        # What is forgotten as soon as it was told must be told whole.
        self._quoted = QUOTED_CHARACTERS if whole_number("max_retained", max_retained, 0) else None
        self._board = TaskBoard(retain=max_retained, keep_untold=notify_parent)
        self._notices = Notices(self._board, self.completion_notice)
        self._task_tools = TaskTools(self)
        self._supervisor = Supervisor()
        self._waker = Waker(self._notices, self.wake, self.nursery.places) if wake_parent else None
        #: The active requests, by session, that show what background children have to show.
        self._streams: dict[str, AgentRunContext] = {}

    async def on_state(self, context: AgentRunContext) -> None:
        """Announce what finished while no request was active, ahead of the user's message."""
        if self.notify_parent and context.kind == "user":  # the others must not change what they go on from
            self._notices.offer(context)

    async def before_run(self, context: AgentRunContext) -> None:
        """Show the questions that wait for an answer since a time when nobody looked."""
        self._streams[context.session_id] = context
        for child, wait in self.nursery.questions(context.session_id):
            question = question_of(child, wait)
            if question is not None:
                await emit(context, *question)

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        """Announce what finished since the last model call."""
        if self.notify_parent:
            self._notices.offer(context)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Note what the parent knows now."""
        if isinstance(event, MessageAppendedEvent):
            self._notices.appended(context, event.message)
        else:
            self._notices.withdraw(context)

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        """Take back a notice that the failed request did not come to deliver."""
        self._notices.withdraw(context)

    def request_finished(self, context: AgentRunContext) -> None:
        """Tell a parent that is idle from now on what it did not hear; one that was stopped or failed is left alone."""
        session_id = context.session_id
        if self._streams.get(session_id) is context:
            del self._streams[session_id]
        completed = context.state.phase is AgentPhase.COMPLETED and context.kind in _REQUESTS
        if self._waker is not None and completed:
            self._waker.wake(Parent.of(context, self.nursery.place(context)))

    def tasks(self, session_id: str) -> tuple[SubAgentTask, ...]:
        """The tasks of a session, oldest first."""
        return self._board.tasks(session_id)

    def get_task(self, session_id: str, task_id: str) -> SubAgentTask:
        """One task of a session; ValueError, naming those that there are, when it has no such task."""
        return self._board.find(session_id, task_id)

    async def start(
        self, context: AgentRunContext, definition: SubAgentDefinition, *, description: str, prompt: str
    ) -> SubAgentTask:
        """Start a task for the context's session and return it while it runs.

        ValueError when ``max_concurrent`` tasks of the session run, or when depth or total of the tree are used up.
        """
        child = await self.nursery.open(definition, context)
        task = SubAgentTask(
            task_id=self._board.new_id(context.session_id, context.transcript.view()),
            parent_session_id=context.session_id,
            session_id=child.session_id,
            subagent_type=definition.name,
            description=description,
            prompt=prompt,
        )
        self._launch(task, child, Parent.of(context, self.nursery.place(context)))
        await _observe(self.task_started, task)
        return task

    async def wait(
        self,
        task: SubAgentTask,
        timeout: float | None = None,  # noqa: ASYNC109 - a task that goes on is no failure
    ) -> SubAgentTask:
        """Wait until the task has finished, or ``timeout`` seconds; a cancel of the caller leaves the task alone."""
        runner = self._runner(task)
        if runner is not None and not task.finished:
            await runner.ended(timeout)
        return task

    async def cancel(self, task: SubAgentTask) -> SubAgentTask:
        """Cancel a running task and wait until it has ended; a finished one stays as it is."""
        runner = self._runner(task)
        if runner is not None and not task.finished:
            runner.cancel()
            await runner.ended()
        return task

    async def close(self) -> None:
        """Cancel every running task of every session and wait for them; ``stop_bound`` bounds each wait."""
        try:
            if self._waker is not None:
                await self._waker.pause(self.stop_bound)  # nobody is woken to hear of what is cancelled here
            await join(self._cancel(self._board.all_tasks()), self.stop_bound)
            await self._supervisor.stop(self.stop_bound)
        finally:
            if self._waker is not None:
                self._waker.resume()

    def forget(self, session_id: str) -> None:
        """Drop the tasks of a session: running ones are cancelled, and nobody is told of any."""
        self._cancel(self._board.drop(session_id))

    async def end_session(self, session_id: str) -> None:
        """Cancel and drop the tasks of a child that has ended: nobody is left to be told."""
        try:
            await join(self._cancel(self._board.tasks(session_id)), self.stop_bound)
        finally:
            self.forget(session_id)

    def build_tools(
        self, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
    ) -> tuple[AgentTool, ...]:
        """The tools for one request; override to drop, add or replace some, with ``super()`` for the rest."""
        return (self._offer.make(self._task_tools.start, context, subagents), *self._task_tools.rest)

    def task_info(self, task: SubAgentTask, *, include_output: bool = False) -> SubAgentTaskInfo:
        """What a tool says of a task; override to say more. The report is in it only with ``include_output``."""
        return SubAgentTaskInfo(
            task_id=task.task_id,
            subagent_type=task.subagent_type,
            description=task.description,
            status=task.status,
            session_id=task.session_id,
            elapsed_seconds=round(task.elapsed, 1),
            content=task.content if include_output else None,
            stop=task.stop,
            error=task.error,
            note=_note(task, told=self.notify_parent, include_output=include_output),
        )

    def completion_notice(self, task: SubAgentTask) -> str | None:
        """The text that tells the parent of a finished task; None says nothing.

        What the child wrote is not to be trusted: quote it, as the default does, so that it cannot pass for a notice.
        """
        return notice(task, quoted=self._quoted)

    async def task_started(self, task: SubAgentTask) -> None:
        """A task has started; errors are logged."""

    async def task_finished(self, task: SubAgentTask) -> None:
        """A task has reached a terminal status; errors are logged."""

    async def wake(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> None:
        """Run the request that tells an idle parent, for ``wake_parent``; override to show its events to somebody."""
        await drain(agent.stream_internal(message, config=config))

    def describe(
        self, context: AgentRunContext, tasks: Iterable[SubAgentTask], *, include_output: bool = False
    ) -> list[SubAgentTaskInfo]:
        """What a tool of the model returns of tasks; outcomes in it count as read once the result is in the history."""
        tasks = list(tasks)
        self._notices.show(context, tasks)
        return [self.task_info(task, include_output=include_output) for task in tasks]

    def _launch(self, task: SubAgentTask, child: Child, parent: Parent) -> None:
        runner = task._runner = Runner()
        self._board.add(task)
        work = self._drive(task, child, runner, parent)
        done = partial(self._ended, task, child)
        runner.task = spawn_apart(self._supervisor, work, f"zett background {task.task_id}", done)

    async def _drive(self, task: SubAgentTask, child: Child, runner: Runner, parent: Parent) -> None:
        task.settle(await self._outcome(task, child, runner))
        self._board.trim(task.parent_session_id)
        if self._waker is not None and not _stopped_from_outside(runner):  # which says that the loop is about to end
            self._waker.wake(parent)
        await _observe(self.task_finished, task)

    async def _outcome(self, task: SubAgentTask, child: Child, runner: Runner) -> Outcome:
        try:
            try:
                runner.enter()
                answer = await child.run(task.prompt, partial(self._show, child))
            finally:
                await self.nursery.close(child)
        except asyncio.CancelledError:
            return CANCELLED
        except (Exception, SystemExit) as error:  # an asyncio task that ended with SystemExit would end the loop
            return Outcome(SubAgentTaskStatus.FAILED, error=failure_text(error))
        if runner.cancelled:  # the child did not heed it
            return CANCELLED
        return Outcome(SubAgentTaskStatus.COMPLETED, subagent_report(answer), answer.stop)

    def _ended(self, task: SubAgentTask, child: Child, driver: asyncio.Task[None]) -> None:
        """Keep the books of a task whose body never ran: its asyncio task was cancelled before the first step."""
        task._runner = None
        if not task.finished:
            task.settle(CANCELLED)
            self.nursery.drop(child)
            self._board.trim(task.parent_session_id)
        if not driver.cancelled() and (error := driver.exception()) is not None:
            _LOG.error("%s ended with %r", driver.get_name(), error, exc_info=error)

    async def _show(self, child: Child, event: AgentEvent) -> None:
        context = self._streams.get(child.parent_session_id)
        if context is not None:
            await forward(context, child, event, everything=self.forward_events)

    def _cancel(self, tasks: Sequence[SubAgentTask]) -> list[asyncio.Task[None]]:
        """Cancel the running ones; return what has not ended, so that what observes an end can end, too."""
        runners = [(task, runner) for task in tasks if (runner := self._runner(task)) is not None]
        for task, runner in runners:
            if not task.finished:
                runner.cancel()
        return [runner.task for _, runner in runners]

    def _runner(self, task: SubAgentTask) -> Runner | None:
        """What does the task; None once it has ended, and in a process that was forked from the one where it runs."""
        runner = task._runner
        return runner if runner is not None and runner.task in self._supervisor else None


def _note(task: SubAgentTask, *, told: bool, include_output: bool) -> str | None:
    """What the model may do next; ``told`` says whether it hears of the end by itself."""
    if not task.finished:
        return "It still runs; you are told when it has finished." if told else "It still runs."
    return "Read its report with task_output." if task.content is not None and not include_output else None


def _stopped_from_outside(runner: Runner) -> bool:
    return runner.task.cancelling() > 0 and not runner.cancelled


async def _observe(hook: Callable[[SubAgentTask], Awaitable[None]], task: SubAgentTask) -> None:
    try:
        await hook(task)
    except (Exception, SystemExit) as error:
        name = getattr(hook, "__name__", "an observer")
        _LOG.warning("%s failed for %s: %s", name, task.task_id, error, exc_info=error)
