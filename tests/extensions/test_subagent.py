"""Subagents in the foreground: what a child is, what comes back, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from tests.extensions.subagents import SESSION, Meeting, Spy, asked, echo, kind, parent, record, result, results, work
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.subagent import (
    SubAgentDefinition,
    SubAgentExtension,
    SubAgentResult,
    default_subagents,
    subagent_report,
)
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import AssistantMessage, SystemMessage, UserMessage
from zett_agent.model import ModelRequest, ReasoningEffort
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import (
    EventRecorder,
    FunctionModel,
    ScriptedModel,
    call,
    check_extension,
    check_transcript,
    error,
    stop,
    text,
)
from zett_agent.tools.base import current_tool_call_id, tool

# Definitions


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Upper"),
        ("name", "9lives"),
        ("name", "two words"),
        ("name", ""),
        ("name", "a" * 65),
        ("name", None),
        ("description", "  "),
        ("system_prompt", ""),
        ("max_iterations", 0),
        ("max_iterations", True),
    ],
)
def test_a_definition_refuses_what_cannot_work(field: str, value: Any) -> None:
    given: dict[str, Any] = {"name": "helper", "description": "d", "system_prompt": "p", "model": echo(), field: value}
    with pytest.raises(ValueError, match=field):
        SubAgentDefinition(**given)


def test_a_definition_refuses_tools_of_one_name() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    with pytest.raises(ValueError, match="same name: look, look"):
        kind(echo(), tools=[look, look])


@pytest.mark.parametrize("names", [[], ["helper", "helper"]])
def test_an_extension_needs_subagents_of_distinct_names(names: list[str]) -> None:
    with pytest.raises(ValueError, match="subagents"):
        SubAgentExtension([kind(echo(), name) for name in names])


@pytest.mark.parametrize("cap", ["max_depth", "max_children", "max_total"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_the_caps_are_whole_numbers_from_one(cap: str, value: Any) -> None:
    with pytest.raises(ValueError, match=cap):
        SubAgentExtension(**{cap: value})


def test_the_default_profiles_are_the_documented_two() -> None:
    model = echo()
    reasoning, explore = default_subagents(model)
    assert (reasoning.name, reasoning.reasoning_effort) == ("reasoning", ReasoningEffort.HIGH)
    assert (explore.name, explore.reasoning_effort) == ("explore", ReasoningEffort.LOW)
    for profile in (reasoning, explore):
        assert profile.model is model
        assert [type(extension) for extension in profile.extensions] == [ToolGuidelinesExtension]


async def test_b10_the_default_profiles_are_made_once_for_a_model_and_not_for_each_request() -> None:
    seen = []

    class Watching(SubAgentExtension):
        def build_tools(self, context: AgentRunContext, subagents: Any) -> Any:
            seen.append(subagents)
            return super().build_tools(context, subagents)

    model, other = FunctionModel(lambda _: "hi"), FunctionModel(lambda _: "hi")
    agent = await parent(model, Watching())
    await agent.run("1")
    await agent.run("2")
    await agent.run("3", model=other)
    await agent.run("4")
    assert seen[0] is seen[1] is seen[3]
    assert seen[2]["explore"].model is other


async def test_the_memory_of_models_is_bounded() -> None:
    extension = SubAgentExtension()
    agent = await parent(echo(), extension)
    for _ in range(20):
        await agent.run("hi", model=FunctionModel(lambda _: "hi"))
    assert len(extension._offer._built_in) == 8


# The tool


async def test_the_tool_names_the_configured_subagents_in_its_schema_and_its_guidelines() -> None:
    model = FunctionModel(lambda _: "hi")
    extension = SubAgentExtension([kind(echo(), "alpha"), kind(echo(), "beta")])
    agent = await parent(model, extension, ToolGuidelinesExtension())
    await agent.run("hi")
    (offered,) = model.requests[0].tools
    properties = offered.parameters["properties"]
    assert offered.name == "task"
    assert properties["description"]["maxLength"] == 120 and properties["description"]["minLength"] == 1
    assert properties["prompt"]["maxLength"] == 100_000
    assert properties["subagent_type"]["enum"] == ["alpha", "beta"]
    assert set(offered.parameters["required"]) == {"description", "prompt", "subagent_type"}
    guidance = model.requests[0].messages[1]
    assert isinstance(guidance, SystemMessage)
    assert "subagent_type alpha: alpha does things" in guidance.content


async def test_a_child_works_in_a_session_of_its_own_and_its_report_is_the_result() -> None:
    child = ScriptedModel("the report")
    spy = Spy()
    with child, ScriptedModel([call("task", **work("find it"))], "thanks") as model:
        agent = await parent(model, SubAgentExtension([kind(child, extensions=[spy])]))
        recorder = await record(agent)
    (context,) = spy.contexts
    assert result(agent.state.messages) == {
        "session_id": context.session_id,
        "parent_session_id": "s",
        "subagent_type": "helper",
        "content": "the report",
    }
    assert context.config.parent_session_id == "s" and context.session_id != "s"
    assert [type(message) for message in child.requests[0].messages] == [SystemMessage, UserMessage]
    assert asked(child.requests[0]) == "find it"
    assert child.requests[0].messages[0] == SystemMessage(content="You are helper.")
    assert recorder.answer is not None and recorder.answer.content == "thanks"
    assert recorder.text == "thanks", "the child's text is not shown"


async def test_a_childs_exception_is_the_failed_result() -> None:
    child = ScriptedModel(error(RuntimeError("the line is dead")))
    with child, ScriptedModel([call("task", **work())], "a pity") as model:
        agent = await parent(model, SubAgentExtension([kind(child)]))
        await agent.run("go")
    (failed,) = results(agent.state.messages)
    assert not failed.success
    assert failed.text == "RuntimeError: the line is dead"


async def test_an_unknown_subagent_is_a_failed_result_that_names_the_known_ones() -> None:
    with ScriptedModel([call("task", **work(subagent_type="nobody"))], "oh") as model:
        agent = await parent(model, SubAgentExtension([kind(echo())]))
        await agent.run("go")
    assert "choose one of helper" in results(agent.state.messages)[0].text


async def test_a_report_that_was_cut_says_so_in_front_and_in_stop() -> None:
    child = ScriptedModel([text("half a rep"), stop("length")])
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(child)]))
        await agent.run("go")
    told = result(agent.state.messages)
    assert told["content"] == "[Incomplete: the subagent stopped, max_output (length)]\n\nhalf a rep"
    assert told["stop"] == {"reason": "max_output", "raw": "length"}


def test_a_report_is_the_content_unless_the_child_stopped_abnormally() -> None:
    assert subagent_report(AssistantMessage(content="fine")) == "fine"
    assert subagent_report(AssistantMessage(content="fine", stop=StopInfo(StopReason.END_TURN))) == "fine"
    refused = AssistantMessage(content="", stop=StopInfo(StopReason.REFUSAL, message="no"))
    assert subagent_report(refused) == "[Incomplete: the subagent stopped, refusal: no]"


def test_a_result_leaves_out_what_it_does_not_have() -> None:
    told = SubAgentResult(session_id="c", parent_session_id="p", subagent_type="t", content="x")
    assert told.model_dump() == {"session_id": "c", "parent_session_id": "p", "subagent_type": "t", "content": "x"}


async def test_a_child_that_was_stopped_is_a_failed_result() -> None:
    meeting = Meeting()
    children: list[Agent] = []

    class Keeping(SubAgentExtension):
        async def _create_child(
            self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
        ) -> Agent:
            children.append(await super()._create_child(definition, child_session_id, context))
            return children[-1]

    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, Keeping([kind(meeting.model)]))
        request = asyncio.create_task(agent.run("go"))
        await meeting.reached()
        assert children[0].stop()
        await request
    assert results(agent.state.messages)[0].text == "AgentCancelledError: the request was stopped"


async def test_create_child_can_be_overridden_and_the_bounds_still_hold() -> None:
    class Plain(SubAgentExtension):
        async def _create_child(
            self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
        ) -> Agent:
            config = AgentRunConfig(session_id=child_session_id, parent_session_id=context.session_id)
            return await Agent.create(
                definition.model, config=config, system_prompt="mine", extensions=definition.extensions
            )

    child = ScriptedModel([call("task", **work())], "tried")
    with child, ScriptedModel([call("task", **work())], "ok") as model:
        nested = SubAgentExtension([kind(echo())])
        agent = await parent(model, Plain([kind(child, extensions=[nested])], max_depth=1))
        await agent.run("go")
    assert child.requests[0].messages[0] == SystemMessage(content="mine")
    assert "level 1 of at most 1" in results(child.requests[1].messages)[0].text


# The surroundings of a child


async def test_loop_02_a_child_sees_the_callers_context_variables_but_not_its_call() -> None:
    user: ContextVar[str] = ContextVar("user")
    seen: list[tuple[str, str | None]] = []

    async def look(context: AgentRunContext) -> None:
        seen.append((user.get(), current_tool_call_id()))

    child = kind(echo(), extensions=[Spy(before_model=look)])
    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([child]))
        user.set("u1")
        await agent.run("go")
    assert seen == [("u1", None)]


async def test_independent_children_run_at_the_same_time() -> None:
    meeting = Meeting()
    with ScriptedModel([call("task", **work("a")), call("task", **work("b"))], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(meeting.model)]))
        request = asyncio.create_task(agent.run("go"))
        await meeting.reached(2)
        meeting.release()
        await request
    assert meeting.ended == 2


@pytest.mark.parametrize("how", ["close", "stop", "cancel"])
async def test_bg_05_cancel_04_children_at_every_depth_end_with_their_parent(how: str) -> None:
    meeting = Meeting()
    child = FunctionModel(lambda request: [call("task", **work())])
    nested = SubAgentExtension([kind(meeting.model)])
    outer = SubAgentExtension([kind(child, extensions=[nested])])
    agent = await parent(FunctionModel(lambda request: [call("task", **work())]), outer)
    before = asyncio.all_tasks()
    recorder = EventRecorder()
    request = asyncio.create_task(recorder.record(agent.stream("go")))
    await meeting.reached()
    if how == "stop":
        assert agent.stop()
        await request
        assert recorder.types[-1] == "run_cancelled"
    elif how == "cancel":
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    else:
        await agent.aclose()
        await request
    assert meeting.cancelled == 1
    assert asyncio.all_tasks() - {request} == before - {request}
    assert not agent.pending
    assert "Stopped while it ran" in results(agent.state.messages)[0].text


async def test_loop_07_nothing_of_an_ended_request_or_child_is_kept() -> None:
    spy = Spy()
    extension = SubAgentExtension([kind(echo(), extensions=[spy])])
    model = FunctionModel(lambda request: "ok" if results(request.messages) else [call("task", **work())])
    for _ in range(5):
        await (await parent(model, extension, memory=False)).run("go")
    contexts = [weakref.ref(context) for context in spy.contexts]
    spy.contexts.clear()
    model.requests.clear()
    await asyncio.sleep(0)  # what is called once the last request has ended
    gc.collect()
    assert len(contexts) == 5 and not any(context() for context in contexts)
    assert extension.nursery.empty
    assert not extension.nursery._roots and not extension._offer._choices


async def test_a_child_that_cannot_be_made_leaves_nothing_behind() -> None:
    class Broken(SubAgentExtension):
        async def _create_child(
            self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
        ) -> Agent:
            raise RuntimeError("no agents today")

    extension = Broken([kind(echo())], max_children=1)
    with ScriptedModel([call("task", **work())], [call("task", **work())], "ok") as model:
        agent = await parent(model, extension)
        await agent.run("go")
    assert [failed.text for failed in results(agent.state.messages)] == ["RuntimeError: no agents today"] * 2
    assert extension.nursery.empty


async def test_the_extension_keeps_the_rules_of_extensions() -> None:
    await check_extension(lambda: SubAgentExtension([kind(echo())]))


async def test_two_sessions_share_one_extension() -> None:
    def answer(request: ModelRequest) -> Any:
        return "ok" if results(request.messages) else [call("task", **work(f"for {request.cache_key}"))]

    agent = await parent(FunctionModel(answer), SubAgentExtension([kind(echo())]))
    other = AgentRunConfig(session_id="t")
    await asyncio.gather(agent.run("go", config=SESSION), agent.run("go", config=other))
    for session_id in ("s", "t"):
        state = agent.get_state(session_id)
        assert state is not None and result(state.messages)["content"] == f"report on for {session_id}"


@pytest.mark.parametrize("steps", range(70))
async def test_cancel_01_a_cancel_at_any_step_of_a_tree_leaves_a_valid_history_and_nothing_running(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def nap() -> str:
        """Nap."""
        await asyncio.sleep(0)
        return "woke"

    def once(*calls: Any) -> FunctionModel:
        return FunctionModel(lambda request: "done" if results(request.messages) else list(calls))

    leaf = kind(once(call("nap"), call("nap")), tools=[nap])
    inner = AsyncSubAgentExtension([leaf]), SubAgentExtension([leaf])
    twig = kind(once(call("task_start", **work()), call("task", **work())), extensions=inner)
    outer = SubAgentExtension([twig])
    agent = await parent(once(call("task", **work()), call("task", **work())), outer)
    before = asyncio.all_tasks()
    request = asyncio.create_task(agent.run("go"))
    for _ in range(steps):
        await asyncio.sleep(0)
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert not agent.pending and outer.nursery.empty
    for extension in inner:
        assert extension.nursery.empty
    assert not inner[0]._board._sessions
    await agent.run("still there?")
    check_transcript(agent.state.messages)
    gc.collect()
    assert not caplog.records
