"""The consumer sets the pace: nothing starts before it asks, and deltas do not wait for it."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime

from tests.engine.scenario import named, scene, spin
from zett_agent._runtime.channel import HIGH_WATER
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.messages import AssistantMessage
from zett_agent.testing import EventRecorder, HookRecorder, call, text


async def test_core_47_no_tool_starts_before_the_consumer_asks() -> None:
    ran: list[str] = []

    async def act() -> None:
        ran.append("act")

    stage = await scene([call("act")], "done", tools=[named("act", act)])
    async with aclosing(stage.agent.stream("hi")) as events:  # type: ignore[type-var]
        async for event in events:
            await spin()
            if event.type is AgentEventType.TOOL_STARTED:
                assert ran == []
            if event.type is AgentEventType.TOOL_COMPLETED:
                assert ran == ["act"]
                assert len(stage.model.requests) == 1, "the next model call waits too"
    stage.model.assert_done()


async def test_no_model_call_starts_before_the_consumer_asks() -> None:
    stage = await scene("done")
    stream = stage.agent.stream("hi")
    first = await anext(stream)
    await spin()
    assert first.type is AgentEventType.MODEL_STARTED
    assert stage.model.requests == []
    await stream.aclose()  # type: ignore[attr-defined]


async def test_the_outcome_is_not_committed_before_the_consumer_has_read_the_answer() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene("done", extensions=[hooks])
    async with aclosing(stage.agent.stream("hi")) as events:  # type: ignore[type-var]
        async for event in events:
            await spin()
            if event.type is AgentEventType.MODEL_COMPLETED:
                assert "after_run" not in hooks.hooks


async def test_deltas_flow_ahead_of_a_slow_consumer_up_to_the_high_water_mark() -> None:
    words = text(*["x"] * (3 * HIGH_WATER))
    stage = await scene([words], extensions=[hooks := HookRecorder(notifications=False)])
    stream = stage.agent.stream("hi")
    await anext(stream)
    await anext(stream)
    await spin()
    queue = stage.agent._sessions.runs[0].channel.queue
    assert len(queue) <= HIGH_WATER
    assert "on_model_request_end" not in hooks.hooks
    rest = await EventRecorder().record(stream)
    assert len(rest.of("text_delta")) == 3 * HIGH_WATER
    assert rest.types[-1] == "run_completed"


async def test_core_47_the_consumers_delay_is_not_counted_as_the_models() -> None:
    asked: list[datetime] = []
    began: list[datetime] = []

    class Timing(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, MessageAppendedEvent) and isinstance(event.message, AssistantMessage):
                began.append(event.timing.started_at)

    async def dawdle(event: AgentEvent) -> None:
        await spin()
        asked.append(datetime.now(UTC))

    stage = await scene("done", extensions=[Timing()])
    await stage.play(recorder=EventRecorder().when("model_started", dawdle))
    assert asked[0] <= began[0]


async def test_events_are_the_consumers_own_objects() -> None:
    def spoil(event: AgentEvent) -> None:
        event.delta = "spoiled"

    stage = await scene("done")
    outcome = await stage.play(recorder=EventRecorder().when("text_delta", spoil))
    assert outcome.story[-1] == "assistant done"
