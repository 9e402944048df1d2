"""Waking an idle parent: one request at a time, nothing lost, and no end to it is possible."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.extensions.subagents import SESSION, Meeting, Spy, echo, kind, notices, parent, results, shape, work
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentPort, AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.exceptions import SessionBusyError
from zett_agent.extensions._subagents.tree import Place
from zett_agent.extensions._subagents.waker import Parent
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AgentMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call, error

START = [call("task_start", **work())]


async def asleep(extension: AsyncSubAgentExtension) -> None:
    """Wait until nobody is being woken any more."""
    assert extension._waker is not None
    while extension._waker._awake:
        await asyncio.wait(list(extension._waker._awake.values()))
        await asyncio.sleep(0)


async def done(extension: AsyncSubAgentExtension) -> None:
    """Wait until every task has finished and everybody has been woken."""
    for task in extension.tasks("s"):
        await extension.wait(task)
    await asleep(extension)


async def test_bg_01_an_idle_parent_is_woken_with_the_childs_text_and_told_once() -> None:
    meeting = Meeting("the child's text")
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", "woken", "next") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        meeting.release()
        await done(extension)
        assert shape(agent.state.messages)[-3:] == ["assistant", "agent", "assistant"]
        await agent.run("and now?")
    (content,) = notices(agent.state.messages)
    assert "the child's text" in content


async def test_tasks_that_finish_together_wake_their_parent_once() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel([*START, *START, *START], "ok", "woken") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await meeting.reached(3)
        meeting.release()
        await done(extension)
    assert len(notices(agent.state.messages)[0].split("\n\n")) == 3


async def test_a_task_that_finishes_while_the_parent_is_awake_is_told_in_that_request() -> None:
    first, second = Meeting("first"), Meeting("second")
    extension = AsyncSubAgentExtension([kind(first.model, "first"), kind(second.model, "second")], wake_parent=True)
    starts = [call("task_start", **work(subagent_type=name)) for name in ("first", "second")]

    async def finish(request: ModelRequest) -> None:
        if len(model.requests) == 3:
            second.release()
            await extension.wait(extension.get_task("s", "task-2"))

    with ScriptedModel(starts, "ok", [call("task_list")], "both", on_request=finish) as model:
        agent = await parent(model, extension)
        await agent.run("go")
        first.release()
        await done(extension)
    told = notices(agent.state.messages)
    assert len(told) == 1 and '"first"' in told[0], "the second was read in the list"
    assert all(task.notified for task in extension.tasks("s"))


async def test_a_task_that_finishes_during_the_last_call_of_a_wake_request_wakes_the_parent_again() -> None:
    first, second = Meeting("first"), Meeting("second")
    extension = AsyncSubAgentExtension([kind(first.model, "first"), kind(second.model, "second")], wake_parent=True)
    starts = [call("task_start", **work(subagent_type=name)) for name in ("first", "second")]

    async def finish(request: ModelRequest) -> None:
        if len(model.requests) == 3:
            second.release()
            await extension.wait(extension.get_task("s", "task-2"))

    with ScriptedModel(starts, "ok", "heard one", "heard two", on_request=finish) as model:
        agent = await parent(model, extension)
        await agent.run("go")
        first.release()
        await done(extension)
    assert len(notices(agent.state.messages)) == 2


async def test_a_parent_that_is_busy_is_told_in_its_request_and_not_woken() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)

    async def finish(request: ModelRequest) -> None:
        if len(model.requests) == 2:
            meeting.release()
            await extension.wait(extension.get_task("s", "task-1"))

    with ScriptedModel(START, [call("task_status", task_id="task-9")], "ok", on_request=finish) as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await done(extension)
    assert len(notices(agent.state.messages)) == 1


async def test_a_task_that_finishes_during_the_last_model_call_wakes_the_parent_when_the_request_is_over() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)

    async def finish(request: ModelRequest) -> None:
        if len(model.requests) == 2:
            meeting.release()
            await extension.wait(extension.get_task("s", "task-1"))

    with ScriptedModel(START, "ok", "woken", on_request=finish) as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await done(extension)
    assert len(notices(agent.state.messages)) == 1


async def test_a_parent_that_turns_busy_before_it_is_woken_hears_it_in_the_users_request() -> None:
    meeting = Meeting()

    class Racing(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            # The waker was made just now, and has not had its first step.
            self.request = agent.stream("in between")
            self.first = await anext(self.request)

    extension = Racing([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", "heard") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        meeting.release()
        await done(extension)
        assert extension.first.type.value == "model_started"
        async for _ in extension.request:
            pass
    assert shape(agent.state.messages)[-3:] == ["agent", "user", "assistant"]
    assert len(notices(agent.state.messages)) == 1


async def test_b07_a_waker_that_is_cancelled_before_its_first_step_is_in_nobodys_way() -> None:
    class Cancelling(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            assert self._waker is not None
            if task.task_id == "task-1":
                self._waker._awake["s"].cancel()

    extension = Cancelling([kind(echo())], wake_parent=True)
    spy = Spy()
    with ScriptedModel("ok", "woken") as model:
        agent = await parent(model, extension, spy)
        await agent.run("go")
        for _ in range(2):
            await extension.start(spy.contexts[0], kind(echo()), description="d", prompt="p")
            await done(extension)
    assert len(notices(agent.state.messages)[0].split("\n\n")) == 2


async def test_a_session_that_somebody_else_took_hears_it_there(caplog: pytest.LogCaptureFixture) -> None:
    class Late(AsyncSubAgentExtension):
        async def wake(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> None:
            await asyncio.sleep(0)
            raise SessionBusyError("s", "another request")

    extension = Late([kind(echo())], wake_parent=True)
    with caplog.at_level(logging.WARNING, "zett_agent"), ScriptedModel(START, "ok", "heard") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await done(extension)
        await agent.run("next")
    assert len(notices(agent.state.messages)) == 1 and not caplog.records


async def test_a_wake_request_that_fails_before_the_notice_is_in_the_history_leaves_it_for_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(AgentExtension):
        armed = False

        async def on_state(self, context: AgentRunContext) -> None:
            if self.armed:
                self.armed = False
                raise RuntimeError("not now")

    meeting, failing = Meeting(), Failing()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with caplog.at_level(logging.WARNING, "zett_agent"), ScriptedModel(START, "ok", "heard") as model:
        agent = await parent(model, failing, extension)
        await agent.run("go")
        failing.armed = True
        meeting.release()
        await done(extension)
        assert not extension.tasks("s")[0].notified
        await agent.run("next")
    assert "the request that wakes session s failed: not now" in caplog.text
    assert len(notices(agent.state.messages)) == 1


async def test_a_model_that_is_down_is_not_called_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", error(ConnectionError("down"))) as model:
        agent = await parent(model, extension)
        await agent.run("go")
        meeting.release()
        await done(extension)
    assert len(model.requests) == 3
    assert len(notices(agent.state.messages)) == 1 and extension.tasks("s")[0].notified
    assert "failed: down" in caplog.text


async def test_a_parent_whose_user_stopped_it_is_left_alone_until_the_next_request() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)

    async def stop(request: ModelRequest) -> None:
        if len(model.requests) == 2:
            meeting.release()
            await extension.wait(extension.get_task("s", "task-1"))
            agent.stop()

    with ScriptedModel(START, "never said", "heard", on_request=stop) as model:
        agent = await parent(model, extension)
        async for _ in agent.stream("go"):
            pass
        await done(extension)
        assert notices(agent.state.messages) == []
        await agent.run("next")
    assert len(notices(agent.state.messages)) == 1


async def test_passes_over_a_session_wake_nobody() -> None:
    meeting = Meeting()

    class Reluctant(AsyncSubAgentExtension):
        wakes = 0

        async def wake(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> None:
            self.wakes += 1

    extension = Reluctant([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        meeting.release()
        await done(extension)
        assert await agent.resume_point() is None
        await done(extension)
    assert extension.wakes == 1, "and a wake that delivers nothing is not repeated"


async def test_a_subclass_may_show_the_events_of_the_request_that_wakes() -> None:
    seen: list[AgentEvent] = []

    class Showing(AsyncSubAgentExtension):
        async def wake(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> None:
            assert config.session_id == "s" and config.cache_key == "mine"
            async for event in agent.stream_internal(message, config=config):
                seen.append(event)

    meeting = Meeting()
    extension = Showing([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", "woken") as model:
        agent = await parent(model, extension)
        await agent.run("go", config=AgentRunConfig(session_id="s", cache_key="mine"))
        meeting.release()
        await done(extension)
    assert seen[-1].type.value == "run_completed"


async def test_bg_07_a_parent_and_its_tasks_cannot_wake_each_other_for_ever() -> None:
    def answer(request: ModelRequest) -> Any:
        """A model that starts a task whenever somebody speaks to it."""
        return START if isinstance(request.messages[-1], UserMessage | AgentMessage) else "waiting"

    extension = AsyncSubAgentExtension([kind(echo())], wake_parent=True, max_total=5)
    agent = await parent(FunctionModel(answer), extension)
    await agent.run("go")
    for _ in range(10):
        await done(extension)
    told = results(agent.state.messages)
    assert [message.success for message in told] == [True] * 5 + [False]
    assert "all 5 subagents" in told[-1].text
    assert len(extension.tasks("s")) == 5 and extension.nursery.empty
    await agent.run("the user may start more")
    await done(extension)
    assert len(extension.tasks("s")) == 10


async def test_bg_07_what_a_woken_parent_starts_in_the_foreground_counts_too() -> None:
    foreground = SubAgentExtension([kind(echo())], max_total=2)
    extension = AsyncSubAgentExtension([kind(echo())], wake_parent=True, max_total=2)
    calls = [call("task", **work()), call("task", **work())]
    with ScriptedModel(START, "ok", calls, "done") as model:
        agent = await parent(model, foreground, extension)
        await agent.run("go")
        await done(extension)
    assert [message.success for message in results(agent.state.messages)] == [True, True, False]


async def test_a_parent_can_be_woken_again_as_soon_as_the_request_that_woke_it_is_over() -> None:
    spy = Spy()

    class Again(AsyncSubAgentExtension):
        wakes = 0

        async def wake(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> None:
            self.wakes += 1
            await super().wake(agent, message, config=config)
            if self.wakes == 1:
                # Runs after the last step of the waker, and before anybody hears that it has ended.
                asyncio.get_running_loop().call_soon(self.another)

        def another(self) -> None:
            assert self._waker is not None
            self.tasks("s")[0].notified = False
            self._waker.wake(Parent.of(spy.contexts[0], Place()))

    extension = Again([kind(echo())], wake_parent=True)
    with ScriptedModel(START, "ok", "woken", "woken again") as model:
        agent = await parent(model, spy, extension)
        await agent.run("go")
        await done(extension)
    assert extension.wakes == 2


async def test_close_wakes_nobody_to_hear_what_it_cancels() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", "heard") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await meeting.reached()
        await extension.close()
        await done(extension)
        assert len(model.requests) == 2
        await agent.run("next")
    assert "cancelled]" in notices(agent.state.messages)[0]


@pytest.mark.parametrize("reached", [False, True])
async def test_close_stops_a_request_that_wakes(reached: bool, caplog: pytest.LogCaptureFixture) -> None:
    meeting, held = Meeting(), Meeting()

    def answer(request: ModelRequest) -> Any:
        if notices(request.messages):
            return held._answer(request)
        return "ok" if results(request.messages) else START

    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    agent = await parent(FunctionModel(answer), extension)
    await agent.run("go")
    meeting.release()
    await extension.wait(extension.tasks("s")[0])
    if reached:
        await held.reached()
    with caplog.at_level(logging.WARNING, "zett_agent"):
        await agent.aclose()
    assert held.cancelled == reached and not caplog.records
    assert not agent.pending and extension._waker is not None and not extension._waker._awake
    held.release()
    await agent.run("next")
    assert len(notices(agent.state.messages)) == 1


async def test_at_the_end_of_the_loop_nobody_is_woken() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await meeting.reached()
        drivers = [known for known in asyncio.all_tasks() if known.get_name() == "zett background task-1"]
        drivers[0].cancel()
        await asyncio.wait(drivers)
        await done(extension)
    assert extension.tasks("s")[0].status.value == "cancelled"


def test_bg_01_a_task_that_a_loop_took_with_it_is_announced_in_the_next_one() -> None:
    meeting: list[Meeting] = []
    model = ScriptedModel(START, "ok", "heard")

    async def first() -> Agent:
        meeting.append(Meeting())
        agent = await parent(model, AsyncSubAgentExtension([kind(meeting[0].model)]))
        await agent.run("go")
        return agent

    async def second(agent: Agent) -> None:
        await agent.run("next")
        assert "cancelled]" in notices(agent.state.messages)[0]

    agent = asyncio.run(first())
    asyncio.run(second(agent))


async def test_the_request_that_wakes_keeps_nothing_of_the_one_that_started_the_task() -> None:
    spy, meeting = Spy(), Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    with ScriptedModel(START, "ok", "woken") as model:
        agent = await parent(model, extension, spy)
        await agent.run("go", config=SESSION)
        meeting.release()
        await done(extension)
    first, second = spy.contexts
    assert first.request_id != second.request_id and second.kind == "internal"
