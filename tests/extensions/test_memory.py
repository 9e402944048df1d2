"""Memory of sessions for the life of the process."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.engine.scenario import add, scene, story
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType, CompactionEvent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AgentMessage, SystemMessage, UserMessage
from zett_agent.testing import EXTENSION_CHECKS, EventRecorder, FunctionModel, call, error, stall, text


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_behaves_as_every_extension_must(check: Any) -> None:
    await check(InMemoryMessageAccumulator)


async def test_each_session_has_a_memory_of_its_own() -> None:
    memory = InMemoryMessageAccumulator()
    stage = await scene(model=FunctionModel(lambda request: str(request.cache_key)), extensions=[memory], memory=False)
    for session_id in ("a", "b", "a"):
        await stage.agent.run("hi", config=AgentRunConfig(session_id))
    assert story(memory.messages("a")) == ["user hi", "assistant a"] * 2
    assert story(memory.messages("b")) == ["user hi", "assistant b"]
    assert memory.messages("c") == ()
    memory.clear("a")
    memory.clear("c")
    assert memory.messages("a") == ()


async def test_the_prompt_is_not_remembered_and_not_repeated() -> None:
    memory = InMemoryMessageAccumulator()
    stage = await scene("one", "two", extensions=[memory], memory=False, system_prompt="S")
    await stage.play()
    assert (await stage.play()).story == ["system S", "user hi", "assistant one", "user hi", "assistant two"]
    assert story(memory.messages("s"))[0] == "user hi"


async def test_what_failed_and_what_was_cancelled_is_remembered() -> None:
    memory = InMemoryMessageAccumulator()
    steps = ([text("half"), error(ConnectionError())], [call("add", id="a", left=1, right=1)], [text("x"), stall()])
    stage = await scene(*steps, tools=[add], extensions=[memory], memory=False)
    await stage.play("one")
    await EventRecorder().record(stage.agent.stream("two"), until="tool_started")
    assert [line.split(":")[0] for line in story(memory.messages("s"))] == [
        "user one",
        "assistant half [interrupted]",
        "user two",
        "assistant -> add(a)",
        "tool a failed",
    ]


async def test_what_is_not_to_be_replayed_is_not_remembered() -> None:
    memory = InMemoryMessageAccumulator()

    class Adds(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            context.add_message(AgentMessage(content="once", include_in_messages=False))

    stage = await scene("one", extensions=[memory, Adds()], memory=False)
    assert (await stage.play()).story == ["user hi", "agent once", "assistant one"]
    assert story(memory.messages("s")) == ["user hi", "assistant one"]


async def test_core_9_dialogue_that_an_earlier_extension_adds_is_remembered_once() -> None:
    memory = InMemoryMessageAccumulator()

    class Greets(AgentExtension):
        priority = 1

        async def on_state(self, context: AgentRunContext) -> None:
            context.add_message(UserMessage(content="context of today"))

    stage = await scene("one", "two", extensions=[memory, Greets()], memory=False)
    await stage.play()
    assert story(memory.messages("s")) == ["user context of today", "user hi", "assistant one"]
    outcome = await stage.play("again")
    assert outcome.story.count("user context of today") == 2, "each request adds its own"


async def test_after_a_compaction_what_is_left_is_remembered() -> None:
    memory = InMemoryMessageAccumulator()

    class Compacts(AgentExtension):
        async def on_compact(self, context: AgentRunContext) -> None:
            await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, context.session_id))
            prompts = [message for message in context.transcript.view() if isinstance(message, SystemMessage)]
            context.replace_messages([*prompts, UserMessage(content="summary")], emit_new=False)
            event = CompactionEvent(1, 2, 3, 2, "summary")
            await context.publish(event)
            await context.emit(
                AgentEvent(AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=True, compaction=event)
            )

    stage = await scene("one", "two", extensions=[memory, Compacts()], memory=False, system_prompt="S")
    await stage.play()
    async for _ in stage.agent.compact():
        pass
    assert story(memory.messages("s")) == ["user summary"]
    assert (await stage.play("next")).story[-1] == "assistant two"


async def test_core_46_the_oldest_idle_sessions_are_forgotten_above_the_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = InMemoryMessageAccumulator(max_sessions=2)
    stage = await scene(*["x"] * 5, extensions=[memory], memory=False)
    with caplog.at_level(logging.WARNING, "zett_agent"):
        for session_id in ("a", "b", "a", "c", "d"):
            await stage.agent.run("hi", config=AgentRunConfig(session_id))
    assert [bool(memory.messages(session_id)) for session_id in "abcd"] == [False, False, True, True]
    assert caplog.text.count("more than 2 sessions are remembered") == 1


async def test_there_may_be_no_bound() -> None:
    memory = InMemoryMessageAccumulator(max_sessions=None)
    stage = await scene(*["x"] * 3, extensions=[memory], memory=False)
    for session_id in ("a", "b", "c"):
        await stage.agent.run("hi", config=AgentRunConfig(session_id))
    assert all(memory.messages(session_id) for session_id in "abc")


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_is_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="max_sessions must be an integer of at least 1"):
        InMemoryMessageAccumulator(max_sessions=bound)


async def test_a_request_that_never_restored_remembers_nothing() -> None:
    memory = InMemoryMessageAccumulator()

    class Fails(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            raise RuntimeError("early")

    stage = await scene(extensions=[memory, Fails()], memory=False)
    await stage.play()
    assert memory.messages("s") == ()


async def test_a_session_in_which_nothing_was_said_is_not_kept() -> None:
    memory = InMemoryMessageAccumulator()

    class Fails(AgentExtension):
        async def on_message(self, context: AgentRunContext) -> None:
            raise RuntimeError("early")

    stage = await scene(extensions=[memory, Fails()], memory=False)
    await stage.play()
    assert memory.messages("s") == () and not memory._sessions


async def test_the_memory_of_one_request_does_not_change_what_another_has_seen() -> None:
    memory = InMemoryMessageAccumulator()
    stage = await scene("one", "two", extensions=[memory], memory=False)
    first = await stage.play()
    before = list(first.messages)
    await stage.play("again")
    assert list(first.messages) == before
