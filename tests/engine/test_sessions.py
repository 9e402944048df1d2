"""Many sessions, one request each: claims, defaults, what is remembered and what is not."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.scenario import SESSION, add, scene, spin
from zett_agent._runtime.sessions import REMEMBERED_STATES
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentProtocolError, SessionBusyError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import ToolCall, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call, error, stall, text
from zett_agent.testing.function_model import Answer
from zett_agent.waits import ExternalEvent


async def test_persist_12_a_second_request_of_a_session_is_refused_and_says_who_holds_it() -> None:
    stage = await scene([text("x"), held := stall()], "two")
    first = asyncio.create_task(stage.agent.run("hi", config=AgentRunConfig("s", "first")))
    await spin()
    assert stage.agent.is_conflict("s") and not stage.agent.is_conflict("other")
    for start in (stage.agent.run("again"), stage.agent.resume(), stage.agent.resume_point()):
        with pytest.raises(SessionBusyError, match="busy with request 'first'") as refused:
            await start
        assert (refused.value.session_id, refused.value.holder) == ("s", "first")
    held.release()
    assert (await first).content == "x"
    assert (await stage.agent.run("again")).content == "two"


async def test_two_agents_that_share_a_memory_share_its_claims() -> None:
    memory = InMemoryMessageAccumulator()
    one = await scene([text("x"), held := stall()], extensions=[memory], memory=False)
    two = await scene("two", extensions=[memory], memory=False)
    first = asyncio.create_task(one.agent.run("hi"))
    await spin()
    outcome = await two.play()
    assert isinstance(outcome.error, SessionBusyError)
    held.release()
    await first
    assert (await two.play()).story == ["user hi", "assistant x", "user hi", "assistant two"]


async def test_different_sessions_run_at_once() -> None:
    stage = await scene(*[[text("x"), stall()]] * 3)
    requests = [asyncio.create_task(stage.agent.run("hi", config=AgentRunConfig(name))) for name in "abc"]
    await spin()
    assert all(stage.agent.is_conflict(name) for name in "abc")
    with pytest.raises(AgentProtocolError, match="several requests are active"):
        stage.agent.emit_external_event(ExternalEvent("x", {}))
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
    assert not stage.agent.pending


async def test_core_64_a_config_without_a_session_means_the_initialized_one() -> None:
    stage = await scene("one", "two")
    await stage.play()
    outcome = await stage.play("two", config=AgentRunConfig(request_id="r"))
    assert outcome.story[:2] == ["user hi", "assistant one"]


async def test_initializing_binds_one_session() -> None:
    agent = Agent(ScriptedModel("done"))
    with pytest.raises(AgentProtocolError, match="not initialized"):
        await agent.run("hi")
    assert agent.emit_external_event(ExternalEvent("x", {})) == []
    assert agent.emit_external_event(ExternalEvent("x", {}), config=AgentRunConfig(request_id="r")) == []
    await agent.initialize()
    await agent.initialize()
    await agent.initialize(config=AgentRunConfig(request_id="r"))
    with pytest.raises(AgentProtocolError, match="is bound to session"):
        await agent.initialize(config=AgentRunConfig("another"))
    assert (await agent.run("hi")).content == "done"


async def test_a_session_id_is_made_when_none_is_given() -> None:
    ids: list[str | None] = []
    for _ in range(2):
        agent = await Agent.create(model := ScriptedModel("done"))
        await agent.run("hi")
        ids.append(model.requests[0].cache_key)
    assert len(set(ids)) == 2 and all(ids)


@pytest.mark.parametrize(
    "options",
    [{"metadata": {"x": {1, 2}}}, {"tags": {" ": 1}}, {"parallel_tool_call": "yes"}, {"reasoning_effort": "x"}],
)
async def test_bad_options_are_refused_before_the_session_is_claimed(options: dict[str, Any]) -> None:
    stage = await scene("done")
    with pytest.raises(ValueError):
        await stage.agent.run("hi", **options)
    assert not stage.agent.pending
    assert (await stage.play()).error is None


async def test_a_request_needs_a_model_from_somewhere() -> None:
    agent = await Agent.create(None)
    with pytest.raises(AgentProtocolError, match="there is no model"):
        await agent.run("hi")
    assert (await agent.run("hi", model=ScriptedModel("done"))).content == "done"


async def test_the_options_of_a_request_reach_the_model() -> None:
    stage = await scene("done", tools=[add])
    config = AgentRunConfig("s", cache_key="prefix")
    await stage.agent.run("hi", config=config, reasoning_effort="high", parallel_tool_call=False)  # type: ignore[arg-type]
    request = stage.model.requests[0]
    assert (request.cache_key, request.reasoning_effort, request.parallel_tool_call) == ("prefix", "high", False)
    assert [definition.name for definition in request.tools] == ["add"]
    assert request.tool_choice is None


async def test_a_message_must_be_text_or_a_user_message() -> None:
    stage = await scene()
    with pytest.raises(TypeError, match="must be a string or a UserMessage, not int"):
        await stage.agent.run(3)  # type: ignore[arg-type]
    assert not stage.agent.pending


async def test_core_45_the_state_of_a_session_is_shown_while_it_runs_and_for_a_while_after() -> None:
    stage = await scene(*["x"] * (REMEMBERED_STATES + 1))
    assert stage.agent.state.phase is AgentPhase.CREATED
    assert stage.agent.get_state("0") is None
    for n in range(REMEMBERED_STATES + 1):
        await stage.agent.run("hi", config=AgentRunConfig(str(n)))
    assert stage.agent.get_state("0") is None
    last = stage.agent.get_state(str(REMEMBERED_STATES))
    assert last is not None and last is stage.agent.state and last.phase is AgentPhase.COMPLETED
    stage.agent.forget(str(REMEMBERED_STATES))
    assert stage.agent.get_state(str(REMEMBERED_STATES)) is None


@pytest.mark.parametrize("blank", ["", " ", None])
async def test_is_conflict_refuses_a_blank_id(blank: Any) -> None:
    stage = await scene()
    with pytest.raises(ValueError, match="must not be blank"):
        stage.agent.is_conflict(blank)


class Census(AgentExtension):
    """Counts the contexts that are alive."""

    def __init__(self) -> None:
        self.contexts: weakref.WeakSet[AgentRunContext] = weakref.WeakSet()

    async def before_run(self, context: AgentRunContext) -> None:
        self.contexts.add(context)


class Asks(ExternalEventExtension):
    """Asks what nobody will answer."""

    def __init__(self) -> None:
        super().__init__(response_event_name="answer", correlation_field="id")

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        async with self._wait_for_external_event(context, call.id):
            pass


@pytest.mark.parametrize("end", ["success", "failure", "cancel", "abandoned question"])
async def test_loop_07_core_46_nothing_of_five_hundred_ended_sessions_stays_referenced(end: str) -> None:
    def answer(request: ModelRequest) -> Answer:
        match end:
            case "success":
                return "done"
            case "failure":
                return [error(ConnectionError())]
            case "abandoned question":
                return [call("add", left=1, right=1)]
            case _:
                return [stall()]

    census = Census()
    agent = await Agent.create(FunctionModel(answer), extensions=[census, asks := Asks()], tools=[add])
    for n in range(500):
        request = asyncio.ensure_future(agent.run("hi", config=AgentRunConfig(str(n))))
        if end in ("cancel", "abandoned question"):
            await spin(10)
            request.cancel()
        with suppress(ConnectionError, asyncio.CancelledError):
            await request
        del request
    await spin(3)
    gc.collect()
    assert len(census.contexts) == 0
    assert len(agent._sessions._states) == REMEMBERED_STATES
    assert agent._sessions.runs == () and asks._books == {}


async def test_one_agent_serves_two_event_loops_in_two_threads() -> None:
    def answer(request: ModelRequest) -> Answer:
        return [text(str(request.cache_key))]

    agent = await Agent.create(FunctionModel(answer), config=SESSION, tools=[add])
    answers: list[str] = []

    async def many(name: str) -> None:
        for n in range(20):
            answers.append((await agent.run("hi", config=AgentRunConfig(f"{name}{n}"))).content)

    threads = [threading.Thread(target=asyncio.run, args=(many(name),)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(answers) == sorted(f"{name}{n}" for name in "ab" for n in range(20))
    assert not agent.pending


async def test_steering_reaches_a_request_on_another_loop() -> None:
    agent = await Agent.create(
        ScriptedModel([text("x"), call("add", left=1, right=1)], "done"), config=SESSION, tools=[add], system_prompt=""
    )
    taken: list[list[str]] = []
    started, steered = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        async for event in agent.stream("hi"):
            if event.type.value == "tool_started":
                started.set()
                await asyncio.to_thread(steered.wait)

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    await asyncio.to_thread(started.wait)
    taken.append(agent.emit_external_event(ExternalEvent("steering_message", {"content": "now"})))
    steered.set()
    await asyncio.to_thread(thread.join)
    assert taken == [["SteeringExtension"]]
    assert [message.role.value for message in agent.state.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]


async def test_core_12_the_message_of_a_caller_is_copied() -> None:
    own = UserMessage(content="hello", attributes={"k": 1})
    stage = await scene("one", "two")
    await stage.agent.run(own)
    own.content = "changed"
    own.attributes["k"] = 2
    await stage.agent.run(own)
    stored = [message for message in stage.agent.state.messages if isinstance(message, UserMessage)]
    assert [(message.content, message.attributes) for message in stored] == [("hello", {"k": 1}), ("changed", {"k": 2})]
