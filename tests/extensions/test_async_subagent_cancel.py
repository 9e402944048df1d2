"""Cancelling background tasks: at any moment, by anybody, once and for all (b07, CANCEL-04)."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import suppress
from typing import Any

import pytest

from tests.extensions.subagents import Meeting, Spy, asked, echo, kind, notices, parent, results, work
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask, SubAgentTaskStatus
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call
from zett_agent.tools.base import tool

RUNNING, CANCELLED = SubAgentTaskStatus.RUNNING, SubAgentTaskStatus.CANCELLED


class Counting(AsyncSubAgentExtension):
    """Counts what it observes."""

    finishes = 0

    async def task_finished(self, task: SubAgentTask) -> None:
        self.finishes += 1
        await asyncio.sleep(0)


async def ready(extension: AsyncSubAgentExtension) -> tuple[Agent, AgentRunContext]:
    """An agent with an ended request, and that request's context to start tasks with."""
    spy = Spy()
    agent = await parent(FunctionModel(lambda _: "ok"), extension, spy)
    await agent.run("go")
    return agent, spy.contexts[0]


async def begin(
    extension: AsyncSubAgentExtension, context: AgentRunContext, definition: SubAgentDefinition | None = None
) -> SubAgentTask:
    definition = definition or next(iter((extension._offer._given or {}).values()))
    return await extension.start(context, definition, description="d", prompt="p")


async def test_b07_a_cancel_before_the_first_step_takes_effect_and_frees_the_place() -> None:
    child = echo()
    extension = Counting([kind(child)], max_concurrent=1)
    _, context = await ready(extension)
    for _ in range(3):
        task = await begin(extension, context)
        assert task.status is RUNNING
        assert await extension.cancel(task) is task
        assert task.status is CANCELLED and task.finished_at is not None
    assert extension.finishes == 3 and child.requests == []
    assert extension.nursery.empty


async def test_a_cancel_while_the_model_answers_reaches_the_model() -> None:
    meeting = Meeting()
    extension = Counting([kind(meeting.model)])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await meeting.reached()
    await extension.cancel(task)
    assert task.status is CANCELLED and meeting.cancelled == 1


async def test_a_cancel_while_a_tool_runs_reaches_the_tool() -> None:
    held, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold.

        Guidelines:
            - Long.
        """
        held.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    extension = Counting([kind(FunctionModel(lambda _: [call("hold")]), tools=[hold])])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await held.wait()
    await extension.cancel(task)
    assert task.status is CANCELLED and ended.is_set()


async def test_cancelling_twice_and_together_is_cancelling_once() -> None:
    meeting = Meeting()
    extension = Counting([kind(meeting.model)])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await meeting.reached()
    await asyncio.gather(*(extension.cancel(task) for _ in range(5)))
    await extension.cancel(task)
    assert task.status is CANCELLED and extension.finishes == 1 and meeting.cancelled == 1


async def test_a_finished_task_is_not_changed_by_a_cancel() -> None:
    extension = Counting([kind(echo())])
    _, context = await ready(extension)
    task = await extension.wait(await begin(extension, context))
    await extension.cancel(task)
    assert task.status is SubAgentTaskStatus.COMPLETED and task.content == "report on p"


@pytest.mark.parametrize("steps", range(60))
async def test_b07_a_cancel_at_any_step_leaves_one_outcome_and_nothing_behind(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def nap() -> str:
        """Nap.

        Guidelines:
            - Short.
        """
        await asyncio.sleep(0)
        return "woke"

    def answer(request: ModelRequest) -> Any:
        return f"report on {asked(request)}" if results(request.messages) else [call("nap"), call("nap")]

    extension = Counting([kind(FunctionModel(answer), tools=[nap])], max_concurrent=1)
    agent, context = await ready(extension)
    before = asyncio.all_tasks()
    task = await begin(extension, context)
    for _ in range(steps):
        await asyncio.sleep(0)
    was_finished = task.finished
    await extension.cancel(task)
    assert task.finished
    assert task.status is (SubAgentTaskStatus.COMPLETED if was_finished else CANCELLED)
    await extension.close()
    await asyncio.sleep(0)
    assert extension.finishes == 1
    assert asyncio.all_tasks() == before
    assert extension.nursery.empty and task._runner is None
    await agent.run("hear")
    assert len(notices(agent.state.messages)) == 1
    gc.collect()  # an exception that nobody saw is logged when its asyncio task goes
    assert not caplog.records


async def test_a_child_that_does_not_heed_a_cancel_is_cancelled_all_the_same() -> None:
    started = asyncio.Event()

    async def stubborn(request: ModelRequest) -> str:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "but I have an answer"

    extension = Counting([kind(FunctionModel(stubborn))])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await started.wait()
    await extension.cancel(task)
    assert task.status is CANCELLED and task.content is None


async def test_a_cancel_that_comes_when_the_answer_is_there_but_not_reported_wins() -> None:
    class Late(SubAgentExtension):
        async def end_session(self, session_id: str) -> None:
            (task,) = extension.tasks("s")
            assert task._runner is not None
            task._runner.cancel()

    extension = Counting([kind(echo(), extensions=[Late([kind(echo())])])])
    _, context = await ready(extension)
    task = await extension.wait(await begin(extension, context))
    assert task.status is CANCELLED and extension.finishes == 1


async def test_cancelling_whoever_waits_for_a_cancel_does_not_lose_the_task() -> None:
    inside, release, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(Counting):
        async def end_session(self, session_id: str) -> None:
            inside.set()
            await release.wait()
            cleaned.set()

    meeting = Meeting()
    extension = Counting([kind(meeting.model, extensions=[Slow([kind(echo())])])])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await meeting.reached()
    cancelling = asyncio.create_task(extension.cancel(task))
    await inside.wait()
    cancelling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelling
    assert task.status is RUNNING
    again = asyncio.create_task(extension.cancel(task))
    await asyncio.sleep(0)
    release.set()
    await again
    assert task.status is CANCELLED and extension.finishes == 1
    assert cleaned.is_set(), "the second cancel did not cut short what cleaned up after the first"


async def test_a_task_may_be_cancelled_from_within_itself() -> None:
    extension: Counting

    @tool
    async def give_up() -> str:
        """Give up.

        Guidelines:
            - Last.
        """
        (task,) = extension.tasks("s")
        await extension.cancel(task)
        return "never"

    extension = Counting([kind(FunctionModel(lambda _: [call("give_up")]), tools=[give_up])])
    _, context = await ready(extension)
    task = await extension.wait(await begin(extension, context))
    assert task.status is CANCELLED


async def test_a_task_that_cancels_itself_while_it_cleans_up_does_not_wait_for_itself() -> None:
    class Last(AsyncSubAgentExtension):
        async def end_session(self, session_id: str) -> None:
            (task,) = extension.tasks("s")
            await extension.cancel(task)

    extension = Counting([kind(echo(), extensions=[Last([kind(echo())])])])
    _, context = await ready(extension)
    task = await extension.wait(await begin(extension, context))
    assert task.status is CANCELLED


async def test_a_task_may_be_cancelled_by_the_observer_of_its_start() -> None:
    class Never(Counting):
        async def task_started(self, task: SubAgentTask) -> None:
            await self.cancel(task)

    extension = Never([kind(echo())])
    _, context = await ready(extension)
    task = await begin(extension, context)
    assert task.status is CANCELLED


async def test_a_start_that_is_cancelled_before_its_child_exists_leaves_nothing() -> None:
    class Slow(Counting):
        async def _create_child(
            self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
        ) -> Agent:
            await asyncio.Event().wait()
            return await super()._create_child(definition, child_session_id, context)

    extension = Slow([kind(echo())], max_concurrent=1)
    _, context = await ready(extension)
    starting = asyncio.create_task(begin(extension, context))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="run already"):
        await begin(extension, context)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert extension.tasks("s") == () and extension.nursery.empty


async def test_close_cancels_every_task_of_every_session_and_the_extension_stays_usable() -> None:
    meeting = Meeting()
    extension = Counting([kind(meeting.model)])
    agent, context = await ready(extension)
    tasks = [await begin(extension, context) for _ in range(3)]
    await meeting.reached(3)
    tasks.append(await begin(extension, context))
    await extension.close()
    await extension.close()
    assert [task.status for task in tasks] == [CANCELLED] * 4
    assert extension.finishes == 4
    task = await extension.wait(await begin(extension, context, kind(echo())))
    assert task.content == "report on p"
    await agent.run("hear")
    assert len(notices(agent.state.messages)[0].split("\n\n")) == 5


async def test_close_ends_within_its_bound_even_when_an_observer_does_not(caplog: pytest.LogCaptureFixture) -> None:
    stuck, release = asyncio.Event(), asyncio.Event()

    class Stuck(AsyncSubAgentExtension):
        stop_bound = 0.001

        async def task_finished(self, task: SubAgentTask) -> None:
            stuck.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

    extension = Stuck([kind(Meeting().model)])
    _, context = await ready(extension)
    task = await begin(extension, context)
    with caplog.at_level(logging.ERROR, "zett_agent"):
        await extension.close()
    assert task.status is CANCELLED and stuck.is_set()
    assert "zett background task-1 did not stop within 0.001 seconds" in caplog.text
    release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("first_step", [False, True])
async def test_b07_the_books_are_kept_when_the_asyncio_task_is_cancelled_by_somebody_else(first_step: bool) -> None:
    """As at the end of ``asyncio.run``, which cancels every asyncio task that is left."""
    meeting = Meeting()
    extension = Counting([kind(meeting.model)], max_concurrent=1)
    _, context = await ready(extension)
    task = await begin(extension, context)
    if not first_step:
        await meeting.reached()
    (driver,) = [known for known in asyncio.all_tasks() if known.get_name() == "zett background task-1"]
    driver.cancel()
    await asyncio.wait({driver})
    await asyncio.sleep(0)
    assert task.status is CANCELLED and task._runner is None
    assert extension.nursery.empty
    again = await begin(extension, context)
    await extension.cancel(again)


async def test_an_observer_that_aborts_is_logged_and_its_task_has_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    class Abort(BaseException):
        pass

    class Aborting(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            raise Abort("enough")

    extension = Aborting([kind(echo())], max_concurrent=1)
    _, context = await ready(extension)
    with caplog.at_level(logging.WARNING, "zett_agent"):
        task = await extension.wait(await begin(extension, context))
        await asyncio.sleep(0)
    assert task.status is SubAgentTaskStatus.COMPLETED and task._runner is None
    assert "zett background task-1 ended with Abort('enough')" in caplog.text


async def test_forgetting_a_session_does_not_disturb_an_observer() -> None:
    inside, release = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    class Slow(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            inside.set()
            await release.wait()
            done.append(task.task_id)

    extension = Slow([kind(echo())])
    _, context = await ready(extension)
    task = await begin(extension, context)
    await inside.wait()
    extension.forget("s")
    release.set()
    await asyncio.sleep(0)
    await extension.close()
    assert done == ["task-1"] and task.finished


async def test_close_lets_an_observer_of_a_finished_task_end() -> None:
    inside, release = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    class Slow(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            inside.set()
            await release.wait()
            done.append(task.task_id)

    extension = Slow([kind(echo())])
    _, context = await ready(extension)
    await begin(extension, context)
    await inside.wait()
    closing = asyncio.create_task(extension.close())
    await asyncio.sleep(0)
    release.set()
    await closing
    assert done == ["task-1"]


async def test_bg_05_cancelling_a_background_task_ends_its_own_children_too() -> None:
    meeting = Meeting()
    inner = AsyncSubAgentExtension([kind(meeting.model)])
    nested = SubAgentExtension([kind(meeting.model)])

    def answer(request: ModelRequest) -> Any:
        return [call("task", **work())] if results(request.messages) else [call("task_start", **work())]

    extension = Counting([kind(FunctionModel(answer), extensions=[inner, nested])])
    _, context = await ready(extension)
    before = asyncio.all_tasks()
    task = await begin(extension, context)
    await meeting.reached(2)
    await extension.cancel(task)
    assert meeting.cancelled == 2
    assert asyncio.all_tasks() == before
    assert not inner._board._sessions and inner.nursery.empty and nested.nursery.empty
