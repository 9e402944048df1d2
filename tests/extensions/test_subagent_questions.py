"""What a parent's stream shows of its children, and how their questions are answered (HITL-22, HITL-23)."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from tests.extensions.subagents import (
    SESSION,
    Meeting,
    Spy,
    answer_to,
    asked,
    customs,
    echo,
    kind,
    parent,
    record,
    result,
    results,
    work,
)
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.extensions.subagent import SubAgentExtension, with_inherited
from zett_agent.messages import ToolCall
from zett_agent.model import ModelRequest
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call, reasoning, stop, text
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent


def asking() -> FunctionModel:
    """A child that asks the user which colour, and reports the answer."""

    def answer(request: ModelRequest) -> Any:
        if results(request.messages):
            return f"{asked(request)}: {result(request.messages)['payload']['answer']}"
        return [call("ask_user", id="ask", question=f"{asked(request)}?")]

    return FunctionModel(answer)


def delegating(name: str = "helper") -> FunctionModel:
    """A child that hands its prompt on."""

    def answer(request: ModelRequest) -> Any:
        if results(request.messages):
            return str(result(request.messages)["content"])
        return [call("task", **work(asked(request), subagent_type=name))]

    return FunctionModel(answer)


def nested() -> SubAgentExtension:
    """root -> planner -> asker, where the asker asks."""
    asker = SubAgentExtension([kind(asking(), "asker", extensions=[AskUserExtension()])])
    return SubAgentExtension([kind(delegating("asker"), "planner", extensions=[asker])])


class Gate(ExternalEventExtension):
    """Holds every call of ``wipe`` until it is allowed; its event does not say how to answer, as in the manual."""

    def __init__(self) -> None:
        super().__init__(response_event_name="gate.answer", correlation_field="call")

    def for_child(self) -> AgentExtension:
        return self

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name != "wipe":
            return
        async with self._wait_for_external_event(context, call.id):
            payload = {"call": call.id, "arguments": call.arguments}
            await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="gate.ask", payload=payload))

    async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name == "wipe" and not self._take_external_event(context).payload["yes"]:
            raise PermissionError("no")


@tool
async def wipe(what: str) -> str:
    """Wipe something.

    Guidelines:
        - Think first.
    """
    return f"wiped {what}"


@pytest.mark.parametrize("thread", [False, True])
async def test_hitl_22_a_question_of_a_grandchild_is_shown_and_answered_at_the_root(thread: bool) -> None:
    accepted: list[list[str]] = []

    def reply(event: AgentEvent) -> None:
        event_, config = answer_to(event, answer="blue")
        accepted.append(agent.emit_external_event(event_, config=config))
        accepted.append(agent.emit_external_event(event_, config=config))

    def act(event: AgentEvent) -> None:
        if thread:
            worker = threading.Thread(target=reply, args=(event,))
            worker.start()
            worker.join()
        else:
            reply(event)

    with ScriptedModel([call("task", **work("colour", subagent_type="planner"))], "ok") as model:
        agent = await parent(model, nested())
        recorder = await EventRecorder().when("custom", act).record(agent.stream("go"))
    (question,) = recorder.custom("ask_user")
    assert question.session_id == "s" and question.payload is not None
    assert question.payload["subagent"] == ["planner", "asker"]
    assert question.payload["question"] == "colour?"
    assert question.payload["session_id"] not in ("s", None)
    assert accepted == [["SubAgentExtension"], []], "the first answer is taken, the second refused"
    assert result(agent.state.messages)["content"] == "colour: blue"


async def test_hitl_23_three_children_wait_at_once_and_are_answered_in_any_order() -> None:
    outer = SubAgentExtension([kind(asking(), "asker", extensions=[AskUserExtension()])])
    calls = [call("task", **work(name, subagent_type="asker")) for name in ("a", "b", "c")]
    with ScriptedModel(calls, "ok") as model:
        agent = await parent(model, outer)
        questions: list[AgentEvent] = []

        def act(event: AgentEvent) -> None:
            questions.append(event)
            if len(questions) == 3:
                assert len(agent.pending_waits()) == 3
                for asked_last in reversed(questions):
                    reply, config = answer_to(asked_last, answer=(asked_last.payload or {})["question"])
                    assert agent.emit_external_event(reply, config=config)

        recorder = EventRecorder()
        for _ in range(3):
            recorder.when("custom", act)
        await recorder.record(agent.stream("go"))
    assert [(event.payload or {})["subagent"] for event in questions] == [["asker"]] * 3
    told = [json.loads(message.text)["content"] for message in results(agent.state.messages)]
    assert told == ["a: a?", "b: b?", "c: c?"]
    assert agent.pending_waits() == ()


async def test_hitl_23_a_policy_of_the_parent_gates_the_calls_of_its_children_too() -> None:
    child = ScriptedModel([call("wipe", what="disk")], "done")
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(child, tools=[wipe])]), Gate())

        def refuse(event: AgentEvent) -> None:
            assert event.payload is not None
            reply = ExternalEvent("gate.answer", {"call": event.payload["call"], "yes": False})
            taken = agent.emit_external_event(reply, config=AgentRunConfig(session_id=event.payload["session_id"]))
            assert len(taken) == 1

        recorder = await EventRecorder().when("custom", refuse).record(agent.stream("go"))
    (question,) = recorder.custom("gate.ask")
    assert question.payload is not None and question.payload["subagent"] == ["helper"]
    assert results(child.requests[1].messages)[0].text == "PermissionError: no"


async def test_waits_of_running_children_are_waits_of_the_parents_session() -> None:
    with ScriptedModel([call("task", **work("colour", subagent_type="planner"))], "ok") as model:
        agent = await parent(model, nested())

        def act(event: AgentEvent) -> None:
            (wait,) = agent.pending_waits(config=SESSION)
            assert agent.pending_waits() == (wait,)
            assert wait.question is not None and wait.question["question"] == "colour?"
            assert agent.pending_waits(config=AgentRunConfig(session_id="other")) == ()
            reply = ExternalEvent(next(iter(wait.response_events)), {wait.correlation_field: wait.id, "answer": "red"})
            assert agent.emit_external_event(reply, config=AgentRunConfig(session_id=wait.session_id))

        await EventRecorder().when("custom", act).record(agent.stream("go"))
    assert result(agent.state.messages)["content"] == "colour: red"
    assert agent.pending_waits() == ()


async def test_a_running_child_can_be_steered_by_its_session() -> None:
    meeting = Meeting("first answer")
    spy = Spy()
    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(meeting.model, extensions=[spy])]))
        request = asyncio.create_task(agent.run("go"))
        await meeting.reached()
        steer = ExternalEvent("steering_message", {"content": "the other way"})
        child = AgentRunConfig(session_id=spy.contexts[0].session_id)
        assert agent.emit_external_event(steer, config=child) == ["SubAgentExtension"]
        meeting.release()
        await request
        assert agent.emit_external_event(steer, config=child) == []
    assert asked(meeting.model.requests[1]) == "the other way"


async def test_events_for_nobody_are_refused() -> None:
    extension = SubAgentExtension()
    event = ExternalEvent("x", {})
    assert not extension.accept(None, event)
    assert not extension.accept(AgentRunConfig(), event)
    assert not extension.accept(SESSION, event)


async def test_an_answer_may_not_wake_the_question_of_another_session_with_the_same_id() -> None:
    """Call ids repeat between sessions: a child's question must not be kept as the parent's own."""

    class Silent(ExternalEventExtension):
        def __init__(self) -> None:
            super().__init__(response_event_name="silent", correlation_field="tool_call_id")

        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            if call.id == "ask":
                async with self._wait_for_external_event(context, call.id):
                    pass

    calls = [call("task", **work("colour", subagent_type="asker")), call("wipe", id="ask", what="x")]
    outer = SubAgentExtension([kind(asking(), "asker", extensions=[AskUserExtension()])])
    with ScriptedModel(calls, "ok") as model:
        agent = await parent(model, outer, Silent(), tools=[wipe])

        def act(event: AgentEvent) -> None:
            reply, config = answer_to(event, answer="blue")
            (own,) = [wait for wait in agent.pending_waits() if wait.session_id == "s"]
            assert own.id == "ask" and own.question is None
            assert agent.emit_external_event(reply, config=config)
            assert agent.emit_external_event(ExternalEvent("silent", {"tool_call_id": "ask"}), config=SESSION)

        await EventRecorder().when("custom", act).record(agent.stream("go"))


# Forwarded events


def chatty() -> tuple[ScriptedModel, list[Any]]:
    @tool
    async def note(context: ToolContext) -> str:
        """Note something.

        Guidelines:
            - Often.
        """
        await context.emit("noted", {"n": 1})
        await context.emit("strange", {"object": object()})
        return "kept"

    return ScriptedModel([reasoning("hm"), text("so"), call("note")], [text("the"), text(" end"), stop("length")]), [
        note
    ]


async def test_without_forward_events_the_parent_shows_nothing_of_a_child_but_its_questions() -> None:
    child, tools = chatty()
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(child, tools=tools)]))
        assert customs(await record(agent)) == []


async def test_with_forward_events_every_event_of_a_child_is_shown_as_strict_json() -> None:
    child, tools = chatty()
    spy = Spy()
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        extension = SubAgentExtension([kind(child, tools=tools, extensions=[spy])], forward_events=True)
        agent = await parent(model, extension)
        recorder = await record(agent)
    shown = [event.payload or {} for event in recorder.custom("subagent_event")]
    json.dumps(shown, allow_nan=False)
    session_id = spy.contexts[0].session_id
    for payload in shown:
        assert payload["session_id"] == session_id
        assert payload["parent_session_id"] == "s"
        assert payload["subagent_type"] == "helper" and payload["subagent"] == ["helper"]
    types = [payload["type"] for payload in shown]
    assert types[0] == "model_started" and types[-1] == "run_completed"
    assert shown[-1]["text"] == "the end"
    by_type = {payload["type"]: payload for payload in shown}
    assert by_type["reasoning_delta"]["delta"] == "hm"
    assert by_type["tool_started"]["tools"] == [{"id": "call_1", "name": "note"}]
    assert by_type["tool_started"]["phase"] == "running_tool"
    assert by_type["tool_completed"]["text"] == "kept"
    assert by_type["model_stopped"]["stop"] == "max_output (length)"
    own = [payload for payload in shown if payload["type"] == "custom"]
    assert [payload["name"] for payload in own] == ["noted", "strange"]
    assert own[0]["payload"] == {"n": 1, "tool_call_id": "call_1"}
    assert "payload" not in own[1]


async def test_a_failing_child_is_shown_with_its_error() -> None:
    child = ScriptedModel([text("x"), call("wipe", what="disk")])
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(
            model, SubAgentExtension([kind(child, max_iterations=1, tools=[wipe])], forward_events=True)
        )
        recorder = await record(agent)
    last = recorder.custom("subagent_event")[-1].payload or {}
    assert last["type"] == "run_failed"
    assert last["error"].startswith("AgentIterationLimitError: ")


@pytest.mark.parametrize("inner_forwards", [False, True])
async def test_events_of_a_grandchild_pass_every_level_that_forwards(inner_forwards: bool) -> None:
    inner = SubAgentExtension([kind(echo(), "leaf")], forward_events=inner_forwards)
    outer = SubAgentExtension([kind(delegating("leaf"), "twig", extensions=[inner])], forward_events=True)
    with ScriptedModel([call("task", **work("x", subagent_type="twig"))], "ok") as model:
        recorder = await record(await parent(model, outer))
    paths = {tuple((event.payload or {})["subagent"]) for event in recorder.custom("subagent_event")}
    assert paths == ({("twig",), ("twig", "leaf")} if inner_forwards else {("twig",)})


async def test_a_question_is_shown_once_and_as_it_is_when_everything_is_forwarded() -> None:
    outer = SubAgentExtension([kind(asking(), "asker", extensions=[AskUserExtension()])], forward_events=True)
    with ScriptedModel([call("task", **work("colour", subagent_type="asker"))], "ok") as model:
        agent = await parent(model, outer)

        async def act(event: AgentEvent) -> None:
            if event.name == "ask_user":
                reply, config = answer_to(event, answer="blue")
                assert agent.emit_external_event(reply, config=config)

        recorder = EventRecorder()
        for _ in range(20):
            recorder.when("custom", act)
        await recorder.record(agent.stream("go"))
    assert len(recorder.custom("ask_user")) == 1
    types = [(event.payload or {})["type"] for event in recorder.custom("subagent_event")]
    assert "custom" not in types


# What a child inherits


class Policy(AgentExtension):
    """Handed on to children, as itself or as something new."""

    def __init__(self, *, name: str | None = None, fresh: bool = False) -> None:
        self._name = name
        self.fresh = fresh

    def for_child(self) -> AgentExtension:
        return Policy(name=self.name, fresh=True) if self.fresh else self


def test_b11_a_child_has_what_its_parents_extensions_hand_on_after_its_own() -> None:
    own, policy = Spy(), Policy()
    assert with_inherited([own], [Spy(), policy]) == [own, policy]


def test_b11_an_instance_that_the_definition_has_already_is_not_added_again() -> None:
    policy = Policy()
    assert with_inherited([policy], [policy]) == [policy]


@pytest.mark.parametrize("fresh", [False, True])
def test_b11_on_a_clash_of_names_the_inherited_extension_gets_another_and_the_parents_keeps_its_own(
    fresh: bool,
) -> None:
    policy = Policy(fresh=fresh)
    own = [Policy(), Policy(name="Policy (inherited)")]
    extensions = with_inherited(own, [policy])
    assert [extension.name for extension in extensions] == ["Policy", "Policy (inherited)", "Policy (inherited)'"]
    assert policy.name == "Policy" and extensions[2] is not policy


async def test_b11_a_policy_reaches_grandchildren_through_children() -> None:
    seen: list[list[str]] = []

    async def look(context: AgentRunContext) -> None:
        seen.append([extension.name for extension in context.extensions])

    inner = SubAgentExtension([kind(echo(), "leaf", extensions=[Spy(on_tool=look)])])
    outer = SubAgentExtension([kind(delegating("leaf"), "twig", extensions=[inner])])
    with ScriptedModel([call("task", **work("x", subagent_type="twig"))], "ok") as model:
        agent: Agent = await parent(model, outer, Policy())
        await agent.run("go")
    assert "Policy" in seen[0]
