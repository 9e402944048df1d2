"""What happens around the end of a request: who is answered, who is kept, who is told."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from tests.engine.scenario import add, named, scene, spin
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentCancelledError, AgentProtocolError, InputRefusedError, SessionBusyError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InputReturnedEvent, InternalMessageEvent, PhaseTransitionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AgentMessage, ToolCall, UserMessage
from zett_agent.testing import EventRecorder, ScriptedModel, call, error, text
from zett_agent.waits import ExternalEvent

SESSION = AgentRunConfig(session_id="s")


async def test_rule_9_code_within_a_request_that_is_stopped_does_not_wait_for_itself() -> None:
    refused: list[BaseException] = []

    async def again() -> str:
        """Asks its own session when it is stopped."""
        try:
            agent.stop()
            await asyncio.Event().wait()
        finally:
            try:
                await agent.run("again")
            except SessionBusyError as busy:
                refused.append(busy)
        return "never"

    agent = await Agent.create(ScriptedModel([call("again")]), config=SESSION, tools=[named("again", again)])
    with pytest.raises(AgentCancelledError):
        await asyncio.wait_for(agent.run("hi"), 5)
    assert len(refused) == 1


async def test_rule_4_an_answer_that_comes_after_a_stop_took_effect_is_refused() -> None:
    agent = await Agent.create(
        ScriptedModel([call("ask_user", id="q", question="?")]), config=SESSION, extensions=[AskUserExtension()]
    )
    answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": "late"})
    reader = asyncio.create_task(agent.run("hi"))
    await spin()
    agent.stop()
    while agent.pending:
        taken = agent.emit_external_event(answer) if agent.stop() is False or not agent.pending_waits() else []
        assert taken == []
        await asyncio.sleep(0)
    with pytest.raises(AgentCancelledError):
        await reader


async def test_core_17_an_answer_that_was_shown_whole_is_kept_when_a_stop_comes_before_it_is_appended() -> None:
    class Stopping(AgentExtension):
        subscribes = (PhaseTransitionEvent,)

        async def on_event(self, context: AgentRunContext, event: Any) -> None:
            if event.current_phase is AgentPhase.READY and event.previous_phase is AgentPhase.GENERATING:
                stage.agent.stop()
                await asyncio.Event().wait()

    stage = await scene("a whole answer", extensions=[Stopping()])
    await stage.play()
    assert stage.agent.state.messages[-1].content == "a whole answer"


async def test_a_call_that_a_gate_renames_is_the_other_tools_whoever_else_looks_at_calls() -> None:
    class Renaming(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.name = "add"

    model = ScriptedModel([call("boom", left=1, right=2)], "done")

    async def boom(left: int, right: int) -> str:
        """Must not run."""
        raise AssertionError

    agent = await Agent.create(model, tools=[named("boom", boom), add], extensions=[Renaming()])
    await agent.run("hi")
    assert model.requests[1].messages[-1].content == "3"


async def test_a_session_that_is_busy_is_not_forgotten_by_half() -> None:
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(ScriptedModel("one", "two"), config=SESSION, extensions=[memory])
    await agent.run("first")
    async for event in agent.stream("second"):
        if event.type is AgentEventType.MODEL_STARTED:
            with pytest.raises(SessionBusyError):
                agent.forget("s")
    assert len(memory.messages("s")) == 4
    agent.forget("s")
    assert memory.messages("s") == ()


async def test_the_end_of_a_request_waits_for_no_consumer_however_much_a_hook_emits() -> None:
    class Loud(AgentExtension):
        done = False

        async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
            for _ in range(3_000):
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="n"))
            self.done = True

    loud = Loud()
    agent = await Agent.create(ScriptedModel([text("x"), error(OSError("gone"))]), config=SESSION, extensions=[loud])
    stream = agent.stream("hi")
    while not loud.done:
        await anext(stream)
        await spin(3)
        if agent.state.phase is AgentPhase.FAILED:
            await spin()
            break
    assert loud.done
    await stream.aclose()  # type: ignore[attr-defined]


async def test_hooks_02_a_bookkeeper_without_a_name_that_fails_keeps_nobody_from_being_told() -> None:
    def fails(word: str, context: AgentRunContext) -> None:
        raise ValueError(word)

    first = AgentExtension()
    first.request_finished = functools.partial(fails, "no")  # type: ignore[method-assign]
    memory = InMemoryMessageAccumulator()
    agent = await Agent.create(ScriptedModel("one", "two"), config=SESSION, extensions=[first, memory])
    await agent.run("hi")
    await agent.run("again")
    assert len(memory.messages("s")) == 4


async def test_loop_03_an_event_that_an_async_tool_does_not_wait_for_is_shown_before_its_end() -> None:
    async def hurried(context: ToolContext) -> str:
        """Emits at once."""
        context.emit_nowait("now")
        return "done"

    agent = await Agent.create(ScriptedModel([call("hurried")], "ok"), tools=[named("hurried", hurried)])
    events = (await EventRecorder().record(agent.stream("hi"))).events
    shown = [event.name or event.type.value for event in events]
    assert shown.index("tool_started") < shown.index("now") < shown.index("tool_completed")


def lost_request(memory: InMemoryMessageAccumulator) -> tuple[Agent, Any]:
    async def begin() -> tuple[Agent, Any]:
        agent = await Agent.create(ScriptedModel("one", "two"), config=SESSION, extensions=[memory])
        stream = agent.stream("hi")
        await anext(stream)
        return agent, stream

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(begin())
    finally:
        loop.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_request_that_can_never_end_counts_for_nobody() -> None:
    class Keeping(InMemoryMessageAccumulator):
        context: AgentRunContext

        def request_started(self, context: AgentRunContext) -> None:
            self.context = context

    memory = Keeping()
    agent, stream = await asyncio.to_thread(lost_request, memory)
    with pytest.raises(AgentProtocolError, match="the event loop of the request is closed"):
        await memory.context.emit(AgentEvent(AgentEventType.CUSTOM, "s", name="late"))
    assert not agent.pending and not agent.is_conflict("s") and agent.stop() is False
    other = await Agent.create(ScriptedModel("hello"), config=SESSION, extensions=[memory])
    assert (await other.run("hi")).content == "hello"
    assert (await agent.run("again")).content in ("one", "two")
    assert agent.emit_external_event(ExternalEvent("steering_message", {"content": "x"})) == []
    await agent.aclose()
    await stream.aclose()


def tracing(hook: Any) -> Any:
    @functools.wraps(hook)
    def traced(*arguments: Any) -> Any:
        return hook(*arguments)

    return traced


async def test_a_hook_behind_a_plain_decorator_is_a_hook() -> None:
    class Traced(AgentExtension):
        subscribes = [PhaseTransitionEvent]  # type: ignore[assignment]  # noqa: RUF012 - what people write
        turns = 0

        @tracing
        async def before_turn(self, context: AgentRunContext) -> None:
            self.turns += 1

    extension = Traced()
    await (await Agent.create(ScriptedModel("done"), extensions=[extension])).run("hi")
    assert extension.turns == 1

    class Promising(AgentExtension):
        @tracing
        async def accept(self, *given: Any) -> bool:
            return True

    with pytest.raises(TypeError, match="accept of Promising"):
        Agent(None, extensions=[Promising()])


def test_ends_05_a_deadline_that_no_clock_can_count_is_refused() -> None:
    with pytest.raises(ValueError, match="deadline"):
        Agent(None, deadline=10**400)


def test_a_stream_that_is_read_on_a_second_loop_says_so_and_is_stopped_where_it_began() -> None:
    async def begin() -> tuple[Agent, Any]:
        agent = await Agent.create(ScriptedModel("one"), config=SESSION)
        stream = agent.stream("hi")
        await anext(stream)
        return agent, stream

    async def read(stream: Any) -> None:
        with pytest.raises(AgentProtocolError, match="on the event loop where its first event was asked for"):
            await anext(stream)

    async def settle() -> None:
        await spin()

    home = asyncio.new_event_loop()
    agent, stream = home.run_until_complete(begin())
    asyncio.run(read(stream))
    assert agent.pending
    home.run_until_complete(settle())
    assert not agent.pending
    assert agent.state.phase is AgentPhase.CANCELLED
    home.close()


async def test_what_is_said_in_a_context_whose_request_is_over_reaches_nobody() -> None:
    kept: list[AgentRunContext] = []

    class Keeping(AgentExtension):
        heard = 0

        async def before_run(self, context: AgentRunContext) -> None:
            kept.append(context)

        async def on_event(self, context: AgentRunContext, event: Any) -> None:
            if isinstance(event, InputReturnedEvent):
                self.heard += 1

    keeping = Keeping()
    agent = await Agent.create(ScriptedModel("one"), config=SESSION, extensions=[keeping])
    await agent.run("hi")
    context = kept[0]
    event = AgentEvent(AgentEventType.CUSTOM, "s", name="late")
    await context.emit(event)
    context.emit_nowait(event)
    await context.publish(InputReturnedEvent(()))
    await context.append_message(UserMessage(content="late"))
    await context.record_wait(None)  # type: ignore[arg-type]  # whatever it is
    assert keeping.heard == 0 and not context.lost
    with pytest.raises(InputRefusedError):
        await context.publish(InternalMessageEvent(AgentMessage(content="late")))
