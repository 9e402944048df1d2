"""What background children show: on the stream of whatever request their parent has, or when it has one again."""

from __future__ import annotations

from typing import Any

from tests.extensions.subagents import (
    SESSION,
    Meeting,
    answer_to,
    asked,
    customs,
    kind,
    parent,
    result,
    results,
    until,
    work,
)
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import ToolCall
from zett_agent.model import ModelRequest
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call, check_event_order
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

START = [call("task_start", **work("colour"))]


def asking() -> FunctionModel:
    """A child that asks the user, and reports the answer."""

    def answer(request: ModelRequest) -> Any:
        if results(request.messages):
            return f"{asked(request)}: {result(request.messages)['payload']['answer']}"
        return [call("ask_user", id="ask", question=f"{asked(request)}?")]

    return FunctionModel(answer)


def background(**options: Any) -> AsyncSubAgentExtension:
    return AsyncSubAgentExtension([kind(asking(), extensions=[AskUserExtension()])], **options)


async def test_a_background_question_is_shown_on_the_stream_that_is_active_and_answered_through_the_parent() -> None:
    extension = background()

    @tool
    async def long_work() -> str:
        """Work.

        Guidelines:
            - Long.
        """
        await extension.wait(extension.tasks("s")[0])
        return "done"

    with ScriptedModel(START, [call("long_work")], "ok") as model:
        agent = await parent(model, extension, tools=[long_work])

        def act(event: AgentEvent) -> None:
            reply, config = answer_to(event, answer="blue")
            assert agent.emit_external_event(reply, config=config) == ["AsyncSubAgentExtension"]

        recorder = await EventRecorder().when("custom", act).record(agent.stream("go"))
    (question,) = customs(recorder)
    assert question.name == "ask_user" and question.payload is not None
    assert question.payload["subagent"] == ["helper"]
    assert extension.tasks("s")[0].content == "colour: blue"
    check_event_order(recorder.events)


async def test_a_background_question_of_an_idle_parent_is_pending_and_can_be_answered() -> None:
    extension = background()
    with ScriptedModel(START, "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await until(agent.pending_waits)
        (wait,) = agent.pending_waits()
        assert agent.pending_waits(config=SESSION) == (wait,)
        assert wait.question is not None and wait.question["question"] == "colour?"
        reply = ExternalEvent("ask_user_response", {"tool_call_id": wait.id, "answer": "red"})
        assert agent.emit_external_event(reply, config=AgentRunConfig(session_id=wait.session_id))
        (task,) = extension.tasks("s")
        await extension.wait(task)
    assert task.content == "colour: red" and agent.pending_waits() == ()


async def test_a_question_that_nobody_could_see_is_shown_when_the_parents_next_request_starts() -> None:
    extension = background()
    with ScriptedModel(START, "ok", "still waiting", "thanks") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await until(agent.pending_waits)
        recorder = await EventRecorder().record(agent.stream("anything open?"))
        assert [event.name for event in customs(recorder)] == ["ask_user"]
        assert recorder.types[0] == "custom"

        def act(event: AgentEvent) -> None:
            reply, config = answer_to(event, answer="green")
            assert agent.emit_external_event(reply, config=config)

        recorder = await EventRecorder().when("custom", act).record(agent.stream("again"))
        assert (customs(recorder)[0].payload or {})["subagent"] == ["helper"]
        await extension.wait(extension.tasks("s")[0])
    assert extension.tasks("s")[0].content == "colour: green"


async def test_a_question_of_a_grandchild_in_the_background_names_the_whole_path() -> None:
    asker = SubAgentExtension([kind(asking(), "asker", extensions=[AskUserExtension()])])
    delegating = FunctionModel(
        lambda request: (
            str(result(request.messages)["content"])
            if results(request.messages)
            else [call("task", **work(asked(request), subagent_type="asker"))]
        )
    )
    extension = AsyncSubAgentExtension([kind(delegating, "helper", extensions=[asker])])
    with ScriptedModel(START, "ok", "seen") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await until(agent.pending_waits)
        recorder = await EventRecorder().record(agent.stream("look"))
        question = customs(recorder)[0]
        assert (question.payload or {})["subagent"] == ["helper", "asker"]
        reply, config = answer_to(question, answer="blue")
        assert agent.emit_external_event(reply, config=config)
        await extension.wait(extension.tasks("s")[0])
    assert extension.tasks("s")[0].content == "colour: blue"


async def test_a_wait_that_was_never_shown_is_not_shown_again() -> None:
    class Silent(ExternalEventExtension):
        def __init__(self) -> None:
            super().__init__(response_event_name="silent", correlation_field="call")

        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, call.id):
                pass

    extension = AsyncSubAgentExtension([kind(FunctionModel(lambda _: [call("nothing")]), extensions=[Silent()])])
    with ScriptedModel(START, "ok", "nothing to see") as model:
        agent = await parent(model, extension)
        await agent.run("go")
        await until(agent.pending_waits)
        assert customs(await EventRecorder().record(agent.stream("look"))) == []
        await agent.aclose()
    assert agent.pending_waits() == ()


async def test_forwarded_events_of_a_background_child_go_to_the_request_that_is_active_and_to_no_ended_one() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], forward_events=True)
    with ScriptedModel(START, "ok", [call("task_output", task_id="task-1", wait_seconds=9)], "heard") as model:
        agent = await parent(model, extension)
        first = await EventRecorder().record(agent.stream("go"))
        await meeting.reached()

        def release(_: AgentEvent) -> None:
            meeting.release()

        second = await EventRecorder().when("tool_started", release).record(agent.stream("read"))
    for recorder in (first, second):
        check_event_order(recorder.events)
    types = [(event.payload or {})["type"] for event in second.custom("subagent_event")]
    assert types[-1] == "run_completed" and "text_delta" in types
    assert not extension._streams


async def test_a_child_that_goes_on_while_the_last_event_is_looked_at_adds_nothing_after_it() -> None:
    meeting = Meeting()
    extension = AsyncSubAgentExtension([kind(meeting.model)], forward_events=True)

    async def look(_: AgentEvent) -> None:
        meeting.release()
        await extension.wait(extension.tasks("s")[0])

    with ScriptedModel(START, "ok") as model:
        agent = await parent(model, extension)
        recorder = await EventRecorder().when("run_completed", look).record(agent.stream("go"))
    check_event_order(recorder.events)
    assert recorder.types[-1] == "run_completed"
