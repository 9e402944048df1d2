"""Background subagents as the manual page has them: tools, tasks, limits, overrides."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC
from typing import Any

import pytest

from tests.extensions.subagents import (
    SESSION,
    Meeting,
    Spy,
    asked,
    echo,
    kind,
    notices,
    parent,
    record,
    result,
    results,
    shape,
    work,
)
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.async_subagent import (
    AsyncSubAgentExtension,
    SubAgentTask,
    SubAgentTaskInfo,
    SubAgentTaskStatus,
)
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import AgentMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call, check_extension, error, stop, text
from zett_agent.tools.base import AgentTool, current_tool_call_id

TOOLS = ["task_start", "task_list", "task_status", "task_output", "task_cancel"]


async def started(extension: AsyncSubAgentExtension, *, times: int = 1) -> tuple[Agent, AgentRunContext]:
    """An agent that has started tasks with its first request, and that request's context."""
    spy = Spy()

    def answer(request: ModelRequest) -> Any:
        return [call("task_start", **work()) for _ in range(times)] if not results(request.messages) else "ok"

    agent = await parent(FunctionModel(answer), extension, spy)
    await agent.run("go")
    return agent, spy.contexts[0]


def texts(agent: Agent, session_id: str) -> list[str]:
    state = agent.get_state(session_id)
    return [] if state is None else [message.text for message in results(state.messages)]


# Construction


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_concurrent", 0), ("max_concurrent", True), ("max_retained", -1), ("max_retained", 1.5), ("max_depth", 0)],
)
def test_bad_options_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        AsyncSubAgentExtension(**{option: value})


def test_waking_a_parent_needs_notices() -> None:
    with pytest.raises(ValueError, match="notify_parent"):
        AsyncSubAgentExtension(notify_parent=False, wake_parent=True)


async def test_it_stands_beside_the_foreground_extension_and_both_default_to_the_built_in_profiles() -> None:
    model = FunctionModel(lambda _: "hi")
    agent = await parent(model, SubAgentExtension(), AsyncSubAgentExtension(), ToolGuidelinesExtension())
    await agent.run("hi")
    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert list(offered) == ["task", *TOOLS]
    assert offered["task_start"].parameters["properties"]["subagent_type"]["enum"] == ["reasoning", "explore"]


async def test_the_schemas_have_the_documented_limits() -> None:
    model = FunctionModel(lambda _: "hi")
    await (await parent(model, AsyncSubAgentExtension([kind(echo())]))).run("hi")
    offered = {tool.name: tool.parameters["properties"] for tool in model.requests[0].tools}
    start = offered["task_start"]
    assert (start["description"]["minLength"], start["description"]["maxLength"]) == (1, 120)
    assert (start["prompt"]["minLength"], start["prompt"]["maxLength"]) == (1, 100_000)
    assert start["subagent_type"] == {"description": "Which kind of subagent.", **start["subagent_type"]}
    assert start["subagent_type"]["enum"] == ["helper"]
    assert offered["task_list"] == {}
    for name in ("task_status", "task_output", "task_cancel"):
        assert (offered[name]["task_id"]["minLength"], offered[name]["task_id"]["maxLength"]) == (1, 64)
    wait = offered["task_output"]["wait_seconds"]
    assert (wait["minimum"], wait["maximum"], wait["default"]) == (0, 300, 0)


async def test_the_tools_and_their_schemas_are_the_same_in_every_request() -> None:
    model = FunctionModel(lambda _: "hi")
    agent = await parent(model, AsyncSubAgentExtension([kind(echo())]))
    await agent.run("1")
    await agent.run("2")
    assert model.requests[0].tools == model.requests[1].tools


# The tools


async def test_task_start_returns_at_once_with_a_task_id_while_the_child_runs() -> None:
    meeting = Meeting("the report")
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    agent, _ = await started(extension)
    info = result(agent.state.messages)
    (task,) = extension.tasks("s")
    assert info == {
        "task_id": "task-1",
        "subagent_type": "helper",
        "description": "work",
        "status": "running",
        "session_id": task.session_id,
        "elapsed_seconds": info["elapsed_seconds"],
        "note": "It still runs; you are told when it has finished.",
    }
    meeting.release()
    await extension.wait(task)
    assert task.status is SubAgentTaskStatus.COMPLETED
    assert task.content == "the report"


async def test_a_child_is_an_isolated_agent_with_its_own_session() -> None:
    child, spy = echo(), Spy()
    extension = AsyncSubAgentExtension([kind(child, extensions=[spy])])
    agent, _ = await started(extension)
    (task,) = extension.tasks("s")
    await extension.wait(task)
    assert spy.contexts[0].config.parent_session_id == "s"
    assert spy.contexts[0].session_id == task.session_id != "s"
    assert shape(child.requests[0].messages) == ["system", "user"]
    assert asked(child.requests[0]) == "work"
    await agent.aclose()


async def test_task_list_shows_every_task_without_reports_and_task_status_one() -> None:
    extension = AsyncSubAgentExtension([kind(echo())])
    with ScriptedModel(
        [call("task_start", **work("a")), call("task_start", **work("b"))],
        [call("task_output", task_id="task-1", wait_seconds=9), call("task_output", task_id="task-2", wait_seconds=9)],
        [call("task_list"), call("task_status", task_id="task-2")],
        "ok",
    ) as model:
        agent = await parent(model, extension)
        await agent.run("go")
    listed, status = (json.loads(message.text) for message in results(agent.state.messages)[-2:])
    assert [(info["task_id"], info["status"]) for info in listed] == [("task-1", "completed"), ("task-2", "completed")]
    assert all("content" not in info for info in [*listed, status])
    assert status["note"] == "Read its report with task_output."


async def test_task_list_is_empty_at_first() -> None:
    with ScriptedModel([call("task_list")], "ok") as model:
        agent = await parent(model, AsyncSubAgentExtension([kind(echo())]))
        await agent.run("go")
    assert result(agent.state.messages) == []


async def test_task_output_waits_for_the_report_as_long_as_it_is_told() -> None:
    meeting = Meeting("the report")

    async def release(request: ModelRequest) -> None:
        if len(results(request.messages)) == 2:
            meeting.release()

    extension = AsyncSubAgentExtension([kind(meeting.model)])
    with ScriptedModel(
        [call("task_start", **work())],
        [call("task_output", task_id="task-1")],
        [call("task_output", task_id="task-1", wait_seconds=300)],
        "ok",
        on_request=release,
    ) as model:
        agent = await parent(model, extension)
        await agent.run("go")
    early, late = (json.loads(message.text) for message in results(agent.state.messages)[1:])
    assert early["status"] == "running" and "content" not in early
    assert late["status"] == "completed" and late["content"] == "the report" and "note" not in late


async def test_task_cancel_stops_a_running_task() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    with ScriptedModel([call("task_start", **work())], [call("task_cancel", task_id="task-1")], "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
    assert result(agent.state.messages)["status"] == "cancelled"
    assert extension.get_task("s", "task-1").status is SubAgentTaskStatus.CANCELLED


@pytest.mark.parametrize("name", ["task_status", "task_output", "task_cancel"])
async def test_an_unknown_task_id_is_a_failed_result_that_names_the_known_ones(name: str) -> None:
    extension = AsyncSubAgentExtension([kind(echo())])
    with ScriptedModel([call(name, task_id="task-9")], [call("task_start", **work())], "ok", "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        with pytest.raises(ValueError, match="no task 'task-9'; its tasks: task-1$"):
            extension.get_task("s", "task-9")
        await extension.close()
        assert "no task 'task-9'; its tasks: none" in results(agent.state.messages)[0].text
        await agent.run("end")


async def test_an_unknown_subagent_starts_nothing() -> None:
    extension = AsyncSubAgentExtension([kind(echo())])
    with ScriptedModel([call("task_start", **work(subagent_type="nobody"))], "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
    assert "choose one of helper" in results(agent.state.messages)[0].text
    assert extension.tasks("s") == ()


async def test_a_failed_child_is_a_failed_task_with_the_error_for_the_model() -> None:
    child = ScriptedModel(error(RuntimeError("the line is dead")))
    extension = AsyncSubAgentExtension([kind(child)])
    with (
        child,
        ScriptedModel(
            [call("task_start", **work())], [call("task_output", task_id="task-1", wait_seconds=9)], "ok"
        ) as model,
    ):
        agent = await parent(model, extension)
        await agent.run("go")
    told = result(agent.state.messages)
    assert (told["status"], told["error"]) == ("failed", "RuntimeError: the line is dead")


async def test_a_cut_report_says_so() -> None:
    extension = AsyncSubAgentExtension([kind(ScriptedModel([text("half"), stop("length")]))])
    await started(extension)
    (task,) = extension.tasks("s")
    await extension.wait(task)
    assert task.content is not None and task.content.startswith("[Incomplete: ")
    info = extension.task_info(task, include_output=True)
    assert info.stop is not None and info.stop.raw == "length"


# Limits and visibility


async def test_more_running_tasks_than_max_concurrent_are_refused_in_python_and_by_the_tool() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], max_concurrent=2)
    agent, context = await started(extension, times=3)
    told = results(agent.state.messages)
    assert [message.success for message in told] == [True, True, False]
    assert "2 subagents of this session run already" in told[2].text
    with pytest.raises(ValueError, match="run already"):
        await extension.start(context, kind(echo()), description="d", prompt="p")
    meeting.release()
    for task in extension.tasks("s"):
        await extension.wait(task)
    task = await extension.start(context, kind(echo()), description="d", prompt="p")
    assert task.status is SubAgentTaskStatus.RUNNING
    await extension.wait(task)


async def test_the_bound_on_running_tasks_is_each_sessions_own() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], max_concurrent=1)
    agent, _ = await started(extension)
    await agent.run("go", config=AgentRunConfig(session_id="t"))
    assert len(extension.tasks("s")) == len(extension.tasks("t")) == 1
    await extension.close()


async def test_tasks_are_seen_by_the_session_that_started_them_only() -> None:
    extension = AsyncSubAgentExtension([kind(echo())])
    agent, _ = await started(extension)
    with pytest.raises(ValueError, match="its tasks: none"):
        extension.get_task("t", "task-1")
    assert extension.tasks("t") == ()
    assert extension.get_task("s", "task-1") is extension.tasks("s")[0]
    await agent.aclose()


async def test_b09_task_ids_never_repeat_within_the_extension_object() -> None:
    extension = AsyncSubAgentExtension([kind(echo())], max_retained=0, notify_parent=False)
    agent, context = await started(extension, times=2)
    await extension.close()
    assert extension.tasks("s") == () and not extension._board._sessions
    task = await extension.start(context, kind(echo()), description="d", prompt="p")
    assert task.task_id == "task-3"
    await extension.wait(task)
    await agent.run("go", config=AgentRunConfig(session_id="t"))
    assert [info["task_id"] for info in map(json.loads, texts(agent, "t"))] == ["task-4", "task-5"]
    await agent.aclose()


async def test_b09_ids_go_on_after_a_restart_from_what_the_history_speaks_of() -> None:
    first = AsyncSubAgentExtension([kind(echo())])
    agent, _ = await started(first, times=3)
    for task in first.tasks("s"):
        await first.wait(task)
    history = list(agent.state.messages)
    history += [AgentMessage(content="n", attributes={"subagent_tasks": ["task-7", "odd"]})]

    class Restored(Spy):
        async def on_state(self, context: AgentRunContext) -> None:
            context.restore_messages(history)

    after = AsyncSubAgentExtension([kind(echo())], notify_parent=False)
    with ScriptedModel([call("task_start", **work())], "ok") as model:
        again = await parent(model, Restored(), after, memory=False)
        await again.run("go on")
    assert [task.task_id for task in after.tasks("s")] == ["task-8"]
    await after.close()
    await first.close()


@pytest.mark.parametrize("notify", [False, True])
async def test_the_oldest_finished_tasks_are_forgotten_first(notify: bool) -> None:
    extension = AsyncSubAgentExtension([kind(echo())], max_retained=2, notify_parent=notify)
    agent, context = await started(extension, times=3)
    await asyncio.gather(*map(extension.wait, extension.tasks("s")))
    await agent.run("hear")
    assert [task.task_id for task in extension.tasks("s")] == ["task-2", "task-3"]
    assert context is not None


async def test_an_untold_task_is_kept_until_it_was_told_however_little_is_retained() -> None:
    extension = AsyncSubAgentExtension([kind(echo())], max_retained=0)
    agent, _ = await started(extension, times=2)
    await asyncio.gather(*map(extension.wait, extension.tasks("s")))
    assert len(extension.tasks("s")) == 2
    await agent.run("hear")
    assert extension.tasks("s") == () and not extension._board._sessions


async def test_b09_a_session_without_tasks_leaves_no_entry_and_a_forgotten_one_neither() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    quiet = await parent(FunctionModel(lambda _: "hi"), extension)
    await quiet.run("hi")
    assert not extension._board._sessions
    await started(extension)
    (task,) = extension.tasks("s")
    await meeting.reached()
    extension.forget("s")
    assert not extension._board._sessions
    await extension.wait(task)
    assert task.status is SubAgentTaskStatus.CANCELLED and not extension._board._sessions
    extension.forget("s")


async def test_b09_a_task_keeps_nothing_of_the_request_that_started_it() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    agent, context = await started(extension)
    dead = weakref.ref(context)
    await meeting.reached()
    del context
    agent.extensions[2].contexts.clear()  # type: ignore[attr-defined]  # the Spy
    await asyncio.sleep(0)
    gc.collect()
    assert dead() is None
    assert extension.tasks("s")[0].status is SubAgentTaskStatus.RUNNING
    await agent.aclose()


async def test_loop_02_a_background_child_sees_the_callers_context_variables_but_not_its_call() -> None:
    user: ContextVar[str] = ContextVar("user")
    seen: list[tuple[str, str | None]] = []

    async def look(context: AgentRunContext) -> None:
        seen.append((user.get(), current_tool_call_id()))

    extension = AsyncSubAgentExtension([kind(echo(), extensions=[Spy(before_model=look)])])
    user.set("u1")
    await started(extension)
    await extension.close()
    await started(extension)
    await extension.wait(extension.tasks("s")[-1])
    assert seen[-1] == ("u1", None)


async def test_the_extension_keeps_the_rules_of_extensions() -> None:
    await check_extension(lambda: AsyncSubAgentExtension([kind(echo())], wake_parent=True))


# Overrides


async def test_a_subclass_chooses_tools_info_notice_and_children() -> None:
    class Own(AsyncSubAgentExtension):
        def build_tools(
            self, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
        ) -> tuple[AgentTool, ...]:
            assert list(subagents) == ["helper"]
            return super().build_tools(context, subagents)[:3]

        def task_info(self, task: SubAgentTask, *, include_output: bool = False) -> SubAgentTaskInfo:
            info = super().task_info(task, include_output=include_output)
            return info.model_copy(update={"note": "mine"})

        def completion_notice(self, task: SubAgentTask) -> str:
            return f"{task.task_id} is {task.status.value}."

        async def _create_child(
            self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
        ) -> Agent:
            child = await super()._create_child(definition, child_session_id, context)
            child.system_prompt = "Mine."
            return child

    child = echo()
    extension = Own([kind(child)])
    with ScriptedModel([call("task_start", **work())], "ok", "heard") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await extension.wait(extension.tasks("s")[0])
        await agent.run("next")
    assert [tool.name for tool in model.requests[0].tools] == TOOLS[:3]
    assert result(agent.state.messages)["note"] == "mine"
    assert notices(agent.state.messages) == ["task-1 is completed."]
    assert child.requests[0].messages[0].content == "Mine."


async def test_start_and_finish_are_observed_and_their_errors_logged(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []

    class Observing(AsyncSubAgentExtension):
        async def task_started(self, task: SubAgentTask) -> None:
            log.append(f"started {task.status.value}")
            raise RuntimeError("first")

        async def task_finished(self, task: SubAgentTask) -> None:
            log.append(f"finished {task.status.value}")
            await self.wait(task)
            raise RuntimeError("second")

    extension = Observing([kind(echo())])
    with caplog.at_level(logging.WARNING, "zett_agent"):
        await started(extension)
        task = await extension.wait(extension.tasks("s")[0])
    assert log == ["started running", "finished completed"]
    assert task.status is SubAgentTaskStatus.COMPLETED and task.error is None
    assert [entry.getMessage() for entry in caplog.records] == [
        "task_started failed for task-1: first",
        "task_finished failed for task-1: second",
    ]


async def test_a_task_says_when_it_ran_and_how_long() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    await started(extension)
    (task,) = extension.tasks("s")
    meeting.release()
    assert not task.finished and task.finished_at is None and task.elapsed >= 0
    await extension.wait(task)
    assert task.finished and task.finished_at is not None and task.started_at.tzinfo is UTC
    assert task.finished_at >= task.started_at
    elapsed = task.elapsed
    assert task.elapsed == elapsed >= 0
    assert (task.parent_session_id, task.prompt, task.subagent_type) == ("s", "work", "helper")


# Python API


async def test_wait_gives_up_after_its_timeout_and_cancelling_it_leaves_the_task_alone() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    await started(extension)
    (task,) = extension.tasks("s")
    assert await extension.wait(task, timeout=0.001) is task
    assert not task.finished
    waiting = asyncio.create_task(extension.wait(task))
    await meeting.reached()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not task.finished
    meeting.release()
    assert (await extension.wait(task)).status is SubAgentTaskStatus.COMPLETED
    assert await extension.wait(task) is task


async def test_the_agents_aclose_closes_the_extension() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    agent, _ = await started(extension, times=3)
    await meeting.reached(3)
    await agent.aclose()
    assert [task.status.value for task in extension.tasks("s")] == ["cancelled"] * 3
    assert meeting.cancelled == 3


async def test_a_child_may_start_background_tasks_and_they_end_with_it() -> None:
    meeting = Meeting()
    inner = AsyncSubAgentExtension([kind(meeting.model)], wake_parent=True)
    child = FunctionModel(lambda r: "early end" if results(r.messages) else [call("task_start", **work())])
    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(child, extensions=[inner])]))
        before = asyncio.all_tasks()
        await record(agent)
        assert asyncio.all_tasks() == before
    assert result(agent.state.messages)["content"] == "early end"
    assert not inner._board._sessions and inner.nursery.empty
    assert len(child.requests) == 2, "nobody wakes a child that has ended"


async def test_background_work_outlives_its_request_even_a_cancelled_one() -> None:
    meeting = Meeting("still here")
    extension = AsyncSubAgentExtension([kind(meeting.model)])
    held = Meeting()

    async def hold(request: ModelRequest) -> None:
        if results(request.messages):
            await held._answer(request)

    model = ScriptedModel([call("task_start", **work())], "never", on_request=hold)
    agent = await parent(model, extension)
    request = asyncio.create_task(agent.run("go", config=SESSION))
    await held.reached()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    meeting.release()
    (task,) = extension.tasks("s")
    await extension.wait(task)
    assert task.content == "still here"
