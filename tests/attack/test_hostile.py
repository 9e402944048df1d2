"""What a hostile or clumsy program does to a request, and what must hold all the same."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.scenario import SESSION, add, scene, story
from tests.extensions.questions import answer, asking, held, note, results, settle
from zett_agent._runtime.channel import HIGH_WATER
from zett_agent._runtime.transcript import Transcript
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentCancelledError, SessionBusyError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension
from zett_agent.messages import AssistantMessage, ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.testing import FunctionModel, ScriptedModel, call, check_event_order, check_transcript, stall
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

FORGED = AssistantMessage(tool_calls=[ToolCall("forged", "add", {})])


async def test_rule_1_a_call_that_a_hook_puts_into_the_history_gets_a_result_before_it_is_sent() -> None:
    class Forges(AgentExtension):
        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            context.add_message(FORGED)

    stage = await scene("done", extensions=[Forges()])
    assert (await stage.play()).story[1:] == [
        "assistant -> add(forged)",
        "tool forged failed: Not run: the call was put into the history and not made by the model.",
        "assistant done",
    ]


async def test_rule_1_a_call_that_a_tool_puts_into_the_history_gets_a_result_before_it_is_sent() -> None:
    @tool
    async def forge(context: AgentRunContext) -> str:
        """Forge."""
        context.add_message(FORGED)
        return "forged"

    stage = await scene([call("forge", id="f"), call("add", id="a", left=1, right=1)], "done", tools=[forge, add])
    outcome = await stage.play()
    assert outcome.error is None and "tool forged failed" in "\n".join(outcome.story)


async def test_rule_1_a_history_with_an_open_call_is_closed_when_messages_were_added_before_it_is_restored() -> None:
    earlier = Transcript([UserMessage(content="earlier"), FORGED])

    class Restores(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            context.add_message(UserMessage(content="added"))

        async def on_state(self, context: AgentRunContext) -> None:
            context.restore_messages(earlier.view())

    stage = await scene("done", extensions=[Restores()], memory=False)
    assert [message.role.value for message in (await stage.play()).messages] == (
        ["user", "assistant", "tool", "user", "user", "assistant"]
    )


async def test_rule_8_a_model_that_swallows_the_cancel_gets_no_further_effect() -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append("act")
        return "done"

    class Stubborn:
        retry = RetryOptions()

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield ModelEvent.text("a")
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            message = AssistantMessage(content="a", tool_calls=[ToolCall("x", "act", {})])
            yield ModelEvent.completed(ModelResponse(message))

    stage = await scene(model=Stubborn(), tools=[act])
    request = asyncio.ensure_future(stage.agent.run("hi"))
    await settle()
    stage.agent.stop(SESSION)
    with pytest.raises(AgentCancelledError):
        await request
    assert ran == [] and story(stage.agent.state.messages)[-1].startswith("tool x failed: Not run")


async def test_rule_8_a_hook_that_swallows_the_cancel_starts_no_further_model_call() -> None:
    class Stubborn(AgentExtension):
        async def before_turn(self, context: AgentRunContext) -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    stage = await scene("never", extensions=[Stubborn()])
    request = asyncio.ensure_future(stage.agent.run("hi"))
    await settle()
    stage.agent.stop(SESSION)
    with pytest.raises(AgentCancelledError):
        await request
    assert stage.model.requests == []


async def test_nothing_follows_the_terminal_event_whoever_kept_the_context() -> None:
    class Keeps(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            kept.append(context)

    kept: list[AgentRunContext] = []
    stage, events = await scene("done", extensions=[Keeps()]), list[AgentEvent]()
    async for event in stage.agent.stream("hi"):
        events.append(event)
        if event.type is AgentEventType.RUN_COMPLETED:
            await kept[0].emit(AgentEvent(AgentEventType.CUSTOM, "s", name="late"))
    check_event_order(events)


async def test_rule_10_a_wait_that_is_over_leaves_no_timer() -> None:
    class Asks(ExternalEventExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, call.id, timeout=86_400):
                timers.append(context.waitbook._open[call.id]._timer)
                raise ValueError("it cannot be asked")

    timers: list[Any] = []
    asks = Asks(response_event_name="reply", correlation_field="id")
    stage = await scene([call("add", id="a")], tools=[add], extensions=[asks])
    assert isinstance((await stage.play()).error, ValueError)
    assert [timer.cancelled() for timer in timers] == [True]


async def test_rule_9_two_agents_with_one_memory_are_two_writers_even_with_one_request_id() -> None:
    memory, config = InMemoryMessageAccumulator(), AgentRunConfig(session_id="s", request_id="r")
    first = await Agent.create(ScriptedModel([stall()]), config=config, extensions=[memory])
    second = await Agent.create(ScriptedModel("done"), config=config, extensions=[memory])
    request = asyncio.ensure_future(first.run("hi", config=config))
    await settle()
    with pytest.raises(SessionBusyError):
        await second.run("hi", config=config)
    await first.aclose()
    with pytest.raises(AgentCancelledError):
        await request


async def test_rule_6_an_answer_that_is_in_itself_is_refused_and_the_question_stays_open() -> None:
    stage = await asking()
    request, _ = await held(stage)
    cyclic: dict[str, Any] = {}
    cyclic["me"] = cyclic
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"in": deep}
    assert answer(stage.agent, answer=cyclic) == answer(stage.agent, answer=deep) == []
    assert answer(stage.agent, answer="a") == ["AskUserExtension"]
    await request


async def test_half_a_character_in_edited_arguments_does_not_poison_the_history() -> None:
    stage = await scene([call("note", id="n", text="x")], "done", tools=[note], extensions=[PermissionExtension()])
    request, _ = await held(stage, "permission_request")
    decision = {"tool_call_id": "n", "decision": "approve", "arguments": {"text": "half \ud83d"}}
    assert stage.agent.emit_external_event(ExternalEvent("permission_response", decision), config=SESSION)
    await request
    assert results(stage)["n"].text.encode().startswith(b"[A person changed")


async def test_aclose_within_a_tool_cancels_the_request_and_does_not_wait_for_itself() -> None:
    @tool
    async def leave() -> None:
        """Close the agent."""
        await stage.agent.aclose()

    stage = await scene([call("leave", id="x")], tools=[leave])
    async with asyncio.timeout(5):
        with pytest.raises(AgentCancelledError):
            await stage.agent.run("hi")
    stage.check_messages()


async def test_aclose_within_a_hook_cancels_the_request_and_does_not_wait_for_itself() -> None:
    class Closes(AgentExtension):
        async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
            await stage.agent.aclose()

    stage = await scene("done", extensions=[Closes()])
    async with asyncio.timeout(5):
        with pytest.raises(AgentCancelledError):
            await stage.agent.run("hi")


@pytest.mark.parametrize("attempt", range(20))
async def test_aclose_stops_a_request_on_the_loop_of_another_thread_and_waits_for_it(attempt: int) -> None:
    # More than once: that loop may be closed at any moment, since its only request has ended.
    def elsewhere() -> None:
        with suppress(AgentCancelledError):
            asyncio.run(agent.run("hi"))

    model = ScriptedModel([stall()])
    agent = await Agent.create(model)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    while not model.requests:
        await asyncio.sleep(0.001)
    async with asyncio.timeout(5):
        await agent.aclose()
    await asyncio.to_thread(thread.join, 5)
    assert not agent.pending and not thread.is_alive()


async def test_aclose_passes_over_a_request_whose_loop_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    def elsewhere() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(anext(stream))
        loop.close()

    agent = await Agent.create(ScriptedModel("done"))
    stream = aiter(agent.stream("hi"))
    await asyncio.to_thread(elsewhere)
    with caplog.at_level(logging.WARNING, "zett_agent"):
        await agent.aclose()
    assert "belongs to an event loop that is closed" in caplog.text
    await stream.aclose()  # type: ignore[attr-defined]
    assert not agent.pending


async def test_two_event_loops_in_two_threads_use_one_agent() -> None:
    def one(number: int) -> None:
        async def many() -> None:
            configs = [AgentRunConfig(session_id=f"{number}-{turn}") for turn in range(50)]
            await asyncio.gather(*(agent.run("hi", config=config) for config in configs))

        asyncio.run(many())
        done.append(number)

    def reply(request: ModelRequest) -> Any:
        return [call("add", left=1, right=1)] if isinstance(request.messages[-1], UserMessage) else "done"

    done: list[int] = []
    agent = await Agent.create(FunctionModel(reply), tools=[add])
    await asyncio.gather(*(asyncio.to_thread(one, number) for number in range(3)))
    assert sorted(done) == [0, 1, 2] and not agent.pending


async def test_rule_6_a_thousand_questions_are_answered_in_any_order_from_eight_threads_each_once() -> None:
    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return [call("ask_user", id="q", question="?")] if isinstance(last, UserMessage) else last.text  # type: ignore[union-attr]

    def shout() -> None:
        for name in random.sample(names, len(names)):
            for call_id, told in (("other", False), ("q", True)):
                reply_event = ExternalEvent("ask_user_response", {"tool_call_id": call_id, "answer": name})
                if agent.emit_external_event(reply_event, config=AgentRunConfig(session_id=name)) and told:
                    taken.append(name)

    asks, taken = AskUserExtension(), list[str]()
    agent = await Agent.create(FunctionModel(reply), extensions=[asks])
    names = [f"session-{number}" for number in range(1_000)]
    requests = [asyncio.ensure_future(agent.run("hi", config=AgentRunConfig(session_id=name))) for name in names]
    while len(agent.pending_waits()) < len(names):
        await asyncio.sleep(0)
    await asyncio.gather(*(asyncio.to_thread(shout) for _ in range(8)))
    answers = await asyncio.gather(*requests)
    assert sorted(taken) == sorted(names)
    assert all(f'"{name}"' in message.content for name, message in zip(names, answers, strict=True))
    assert not asks._books and not asks._staged


async def test_a_tool_that_takes_the_tools_and_the_history_away_harms_its_own_request_only() -> None:
    @tool
    async def wreck(context: AgentRunContext) -> str:
        """Wreck."""
        context.tools.clear()
        context.transcript.replace([])
        return "wrecked"

    stage = await scene([call("wreck", id="w"), call("add", id="a", left=1, right=1)], "next", tools=[wreck, add])
    assert (await stage.play()).error is not None
    assert (await stage.play("again")).error is None
    check_transcript(stage.agent.state.messages)


async def test_a_call_that_ends_while_the_consumer_is_far_behind_waits_for_it() -> None:
    @tool
    async def flood(context: AgentRunContext) -> str:
        """Send more than anybody reads, without waiting as ``emit`` would."""
        for number in range(HIGH_WATER):
            context.event_queue.send(AgentEvent(AgentEventType.CUSTOM, "s", name=str(number)))
        return "sent"

    stage = await scene([call("flood", id="f")], "done", tools=[flood])
    outcome = await stage.play()
    assert len(outcome.only("custom")) == HIGH_WATER and outcome.lines[-1] == "run_completed"
