"""The client and its dispatcher."""

from __future__ import annotations

import pytest

from tests.engine.scenario import SESSION, add, named
from zett_agent.client import AgentClient, create_agent
from zett_agent.context import AgentRunContext
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase, CompactionEvent
from zett_agent.exceptions import AgentCancelledError, AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AgentMessage
from zett_agent.testing import EventRecorder, ScriptedModel, call, error, stall, text
from zett_agent.waits import ExternalEvent


class Notes(AgentEventDispatcher):
    """Notes every event that is dispatched, and what was dispatched before it was yielded."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def dispatch(self, event: AgentEvent) -> None:
        await super().dispatch(event)
        self.seen.append(event.type.value)


async def test_every_event_is_dispatched_once_before_it_is_yielded() -> None:
    notes = Notes()
    client = await create_agent(
        ScriptedModel([call("add", left=1, right=1)], "done"), tools=[add], event_dispatcher=notes
    )
    yielded: list[str] = []
    async for event in client.stream("hi"):
        yielded.append(event.type.value)
        assert notes.seen == yielded
    assert yielded[-1] == "run_completed"


async def test_there_is_a_callback_for_every_type_of_event() -> None:
    dispatcher, agent_events = AgentEventDispatcher(), 0
    for kind in AgentEventType:
        assert callable(getattr(dispatcher, f"on_{kind.value}_event"))
        await dispatcher.dispatch(AgentEvent(kind, "s", name="custom"))
        agent_events += 1
    callbacks = [name for name in vars(AgentEventDispatcher) if name.startswith("on_")]
    assert len(callbacks) == agent_events


async def test_the_callback_of_an_event_gets_that_event() -> None:
    class Texts(AgentEventDispatcher):
        text = ""

        async def on_text_delta_event(self, event: AgentEvent) -> None:
            self.text += event.delta

    client = await create_agent(ScriptedModel("hello world"))
    client.event_dispatcher = texts = Texts()
    assert (await client.run("hi")).content == texts.text == "hello world"


async def test_a_failing_callback_stops_the_request() -> None:
    class Fails(AgentEventDispatcher):
        async def on_text_delta_event(self, event: AgentEvent) -> None:
            raise RuntimeError("callback")

    client = await create_agent(ScriptedModel([text("x"), stall()]), event_dispatcher=Fails())
    with pytest.raises(RuntimeError, match="callback"):
        await client.run("hi")
    assert client.agent.state.phase is AgentPhase.CANCELLED
    assert not client.agent.pending


async def test_a_callback_that_fails_at_the_outcome_leaves_the_request_completed() -> None:
    class Fails(AgentEventDispatcher):
        async def on_run_completed_event(self, event: AgentEvent) -> None:
            raise RuntimeError("callback")

    client = await create_agent(ScriptedModel("x"), event_dispatcher=Fails())
    with pytest.raises(RuntimeError, match="callback"):
        await client.run("hi")
    assert client.agent.state.phase is AgentPhase.COMPLETED


async def test_core_63_the_client_has_the_doors_of_the_agent() -> None:
    notes = Notes()
    model = ScriptedModel([error(ConnectionError())], "resumed", "woken", [text("x"), stall()])
    async with await create_agent(model, config=SESSION, event_dispatcher=notes, system_prompt="") as client:
        with pytest.raises(ConnectionError):
            await client.run("hi")
        assert notes.seen == ["model_started", "run_failed"]
        notes.seen.clear()
        point = await client.resume_point()
        assert point is not None and point.kind == "call_model"
        assert notes.seen == []
        assert (await client.resume()).content == "resumed"
        assert (await client.run_internal(AgentMessage(content="wake"))).content == "woken"
        assert client.emit_external_event(ExternalEvent("unknown", {}), config=SESSION) == []
        assert client.pending_waits() == ()
        assert client.get_state("s") is client.agent.state
        recorder = EventRecorder().when("text_delta", lambda _: client.stop())
        await recorder.record(client.stream("hi"))
        assert notes.seen[-1] == "run_cancelled"
        assert client.stop() is False
    assert isinstance(client, AgentClient)


class Compacts(AgentExtension):
    """Compacts to one line."""

    def __init__(self, *, applied: bool = True, fails: bool = False) -> None:
        self.applied = applied
        self.fails = fails

    async def on_compact(self, context: AgentRunContext) -> None:
        await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, context.session_id))
        await context.emit(AgentEvent(AgentEventType.COMPACTION_TEXT_DELTA, context.session_id, delta="short"))
        if self.fails:
            raise AgentProtocolError("blank summary")
        compaction = CompactionEvent(1, 2, 3, 3, "short") if self.applied else None
        await context.emit(
            AgentEvent(
                AgentEventType.COMPACTION_COMPLETED, context.session_id, applied=self.applied, compaction=compaction
            )
        )


async def test_compact_returns_the_summary_that_was_applied() -> None:
    notes = Notes()
    client = await create_agent(ScriptedModel(), extensions=[Compacts()], event_dispatcher=notes)
    assert await client.compact() == CompactionEvent(1, 2, 3, 3, "short")
    assert notes.seen == ["compaction_started", "compaction_text_delta", "compaction_completed"]
    assert client.agent.state.phase is AgentPhase.COMPLETED


async def test_compact_returns_none_when_nothing_was_applied() -> None:
    client = await create_agent(ScriptedModel(), extensions=[Compacts(applied=False)])
    assert await client.compact() is None
    assert await (await create_agent(ScriptedModel())).compact() is None


async def test_core_1_an_error_of_the_pass_is_not_swallowed() -> None:
    notes = Notes()
    client = await create_agent(ScriptedModel(), extensions=[Compacts(fails=True)], event_dispatcher=notes)
    with pytest.raises(AgentProtocolError, match="blank summary"):
        await client.compact()
    assert notes.seen[-1] == "run_failed"
    assert client.agent.state.phase is AgentPhase.FAILED


async def test_core_50_steering_during_a_compaction_is_refused() -> None:
    refused: list[list[str]] = []

    class Steered(AgentExtension):
        async def on_compact(self, context: AgentRunContext) -> None:
            refused.append(client.emit_external_event(ExternalEvent("steering_message", {"content": "x"})))

    client = await create_agent(ScriptedModel(), extensions=[Steered()])
    await client.compact()
    assert refused == [[]]


async def test_run_after_stop_raises_through_the_client() -> None:
    async def stop() -> None:
        client.stop()

    client = await create_agent(ScriptedModel([call("stop")], "never"), tools=[named("stop", stop)])
    with pytest.raises(AgentCancelledError):
        await client.run("hi")


async def test_the_type_of_create_agent_is_a_client() -> None:
    client = await create_agent(ScriptedModel("done"), config=SESSION)
    assert (await client.run("hi")).content == "done"
    assert client.agent.get_state("s") is client.agent.state
