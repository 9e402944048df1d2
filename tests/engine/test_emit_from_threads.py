"""Events of plain functions, which run in threads and cannot await (LOOP-03)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.engine.scenario import named
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentProtocolError
from zett_agent.testing import EventRecorder, ScriptedModel, call


def waiting(context: ToolContext) -> str:
    """Awaits emit on an event loop of its own."""
    for number in range(3):
        asyncio.run(context.emit("progress", {"done": number}))
    return "done"


def hurrying(context: ToolContext) -> str:
    """Emits without waiting."""
    for number in range(3):
        context.emit_nowait("progress", {"done": number})
    return "done"


@pytest.mark.parametrize("work", [waiting, hurrying])
@pytest.mark.parametrize("debug", [False, True])
def test_loop_03_a_plain_function_shows_events_in_order_before_its_end(work: object, debug: bool) -> None:
    async def main() -> None:
        model = ScriptedModel([call("work", id="c")], "ok")
        agent = await Agent.create(model, tools=[named("work", work)])  # type: ignore[arg-type]
        shown = (await EventRecorder().record(agent.stream("hi"))).events
        about = [event for event in shown if event.name == "progress" or event.type is AgentEventType.TOOL_COMPLETED]
        assert [(event.payload or {}).get("done", "end") for event in about] == [0, 1, 2, "end"]
        assert {(event.payload or {}).get("tool_call_id", "c") for event in about} == {"c"}
        assert {event.phase for event in about[:3]} == {"running_tool"}

    asyncio.run(main(), debug=debug)


def test_loop_03_what_is_emitted_after_the_end_or_the_loop_is_shown_to_nobody() -> None:
    kept: list[ToolContext] = []

    async def keep(context: ToolContext) -> str:
        """Keeps its context."""
        kept.append(context)
        return "kept"

    async def main() -> None:
        agent = await Agent.create(ScriptedModel([call("keep")], "ok"), tools=[named("keep", keep)])
        await agent.run("hi")
        kept[0].emit_nowait("late")

    asyncio.run(main())
    kept[0].emit_nowait("later")
    asyncio.run(kept[0].emit("later"))


async def test_loop_03_only_custom_events_of_the_own_session_are_taken_without_waiting() -> None:
    refused: list[str] = []

    async def wrong(context: AgentRunContext) -> None:
        """Emits what it may not."""
        for event in (
            AgentEvent(AgentEventType.CUSTOM, "another", name="x"),
            AgentEvent(AgentEventType.COMPACTION_STARTED, context.session_id),
        ):
            with pytest.raises(AgentProtocolError) as caught:
                context.emit_nowait(event)
            refused.append(str(caught.value))

    agent = await Agent.create(ScriptedModel([call("wrong")], "ok"), tools=[named("wrong", wrong)])
    recorder = await EventRecorder().record(agent.stream("hi"))
    assert len(refused) == 2
    assert not [event for event in recorder.events if event.name == "x"]


async def test_loop_03_events_of_many_threads_all_arrive() -> None:
    def crowd(context: ToolContext) -> str:
        """Emits from eight threads."""

        def emit(n: int) -> None:
            for k in range(50):
                context.emit_nowait("p", {"n": n, "k": k})

        threads = [threading.Thread(target=emit, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "done"

    agent = await Agent.create(ScriptedModel([call("crowd")], "ok"), tools=[named("crowd", crowd)])
    recorder = await EventRecorder().record(agent.stream("hi"))
    seen = [event.payload for event in recorder.events if event.name == "p" and event.payload]
    assert len(seen) == 400
    assert all([p["k"] for p in seen if p["n"] == n] == list(range(50)) for n in range(8))
