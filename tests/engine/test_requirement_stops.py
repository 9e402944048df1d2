"""Leaving a request in every way and at every place: nothing starts, nothing stays, and the next request is valid."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.hooks_table import ASK, HANG, HOLD, Gate, HangingModel
from tests.engine.scenario import SESSION, Scene, add, named, scene, spin, story
from tests.extensions.subagents import kind, until, work
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentPhase
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.testing import EventRecorder, ScriptedModel, call, check_transcript, text
from zett_agent.tools.base import ToolExecutionMode

NOT_RUN = "failed: Not run: the request was stopped first."


class Gated(AgentExtension):
    """Has a gate in front of every call, as a policy has."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Let everything pass."""


class Layered(AgentExtension):
    """Wraps every call."""

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
        return await call_next()


@pytest.mark.parametrize("leave", ["close", "cancel", "stop"])
@pytest.mark.parametrize("extensions", [[], [Gated], [Layered], [Gated, Layered]])
@pytest.mark.parametrize(
    "options",
    [{}, {"execution_mode": ToolExecutionMode.SERIAL}, {"timeout": 60}],
    ids=["parallel", "serial", "timeout"],
)
@pytest.mark.parametrize("places", [64, 1])
async def test_cancel_01_core_47_who_leaves_at_tool_started_has_started_nothing(
    leave: str, extensions: list[type[AgentExtension]], options: dict[str, Any], places: int
) -> None:
    ran: list[int] = []

    async def act(n: int) -> None:
        ran.append(n)

    stage = await scene(
        [call("act", id="a", n=1), call("act", id="b", n=2)],
        tools=[named("act", act, **options)],
        extensions=[extension() for extension in extensions],
        max_parallel_calls=places,
    )
    if leave == "close":
        await EventRecorder().record(stage.agent.stream("hi"), until="tool_started")
    elif leave == "stop":
        await stage.play(recorder=EventRecorder().when("tool_started", lambda _: stage.agent.stop()))
    else:
        await _cancelled_at(stage, "tool_started")
    assert ran == []
    assert story(stage.agent.state.messages)[2:] == [f"tool a {NOT_RUN}", f"tool b {NOT_RUN}"]
    stage.check_messages()


async def _cancelled_at(stage: Scene, kind: str) -> None:
    """Cancel the consumer's task while it looks at an event."""

    async def consume() -> None:
        async for event in stage.agent.stream("hi"):
            if event.type.value == kind:
                looking.set()
                await asyncio.Event().wait()

    looking = asyncio.Event()
    request = asyncio.ensure_future(consume())
    await looking.wait()
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    await spin()  # the generator was dropped by the task that was cancelled, and the loop closes it
    assert not stage.agent.pending


class Effects:
    """Counts what a request does to the world: model calls, and handlers that begin."""

    def __init__(self, extensions: list[type[AgentExtension]], places: int) -> None:
        self.count = 0
        self._extensions = extensions
        self._places = places

    async def _happens(self, *arguments: Any) -> None:
        self.count += 1

    async def scene(self) -> Scene:
        async def quick() -> None:
            await self._happens()

        async def slow() -> None:
            await self._happens()
            await spin(3)

        serial = named("serial", quick, execution_mode=ToolExecutionMode.SERIAL)
        model = ScriptedModel(
            [text("a", "b"), call("quick"), call("serial"), call("slow"), call("serial"), call("nothing")],
            [call("slow"), call("quick")],
            "done",
            on_request=self._happens,
        )
        return await scene(
            model=model,
            tools=[named("quick", quick), named("slow", slow), serial],
            extensions=[extension() for extension in self._extensions],
            max_parallel_calls=self._places,
        )


@pytest.mark.parametrize("leave", ["close", "stop"])
@pytest.mark.parametrize("extensions", [[], [Gated, Layered]], ids=["bare", "gated"])
@pytest.mark.parametrize("places", [64, 1])
async def test_rule_8_core_47_nothing_begins_after_the_event_at_which_somebody_left(
    leave: str, extensions: list[type[AgentExtension]], places: int
) -> None:
    at, over = 0, False
    while not over:
        at += 1
        effects = Effects(extensions, places)
        stage = await effects.scene()
        stream: Any = stage.agent.stream("hi")
        events, then = 0, 0
        async for event in stream:
            events += 1
            if events == at:
                then, over = effects.count, event.type.value == "run_completed"
                if leave == "close":
                    await stream.aclose()
                else:
                    stage.agent.stop()
        assert effects.count == then, f"left at event {at}"
        check_transcript(stage.agent.state.messages)
    assert at > 25, "the scenario is as rich as it was"


# Leaving in every way and at every place


def _script(place: str) -> list[Any]:
    match place:
        case "model":
            return [text(HANG)]
        case "tool":
            return [HOLD]
        case "question":
            return [ASK]
        case _:
            return [call("task", **work())]


async def _close(stream: Any, gate: Callable[[], Awaitable[None]]) -> None:
    await anext(stream)
    pulling = asyncio.ensure_future(_drain(stream))
    await gate()
    pulling.cancel()
    with suppress(asyncio.CancelledError):
        await pulling
    await stream.aclose()


async def _cancel(stream: Any, gate: Callable[[], Awaitable[None]]) -> None:
    pulling = asyncio.ensure_future(_drain(stream))
    await gate()
    pulling.cancel()
    with suppress(asyncio.CancelledError):
        await pulling


async def _time_out(stream: Any, gate: Callable[[], Awaitable[None]]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            pulling = asyncio.ensure_future(_drain(stream))
            await gate()
            limit.reschedule(asyncio.get_running_loop().time())
            await pulling


async def _break_and_drop(stream: Any, gate: Callable[[], Awaitable[None]]) -> None:
    """As ``async for event in stream: break`` does without ``aclosing``: the loop closes what was dropped."""
    async for _ in stream:
        break
    del stream


async def _drain(stream: Any) -> None:
    async for _ in stream:
        pass


LEAVES = {"aclose": _close, "cancel": _cancel, "timeout": _time_out, "break": _break_and_drop}


@pytest.mark.parametrize("place", ["model", "tool", "question", "child"])
@pytest.mark.parametrize("leave", LEAVES)
async def test_cancel_04_cancel_01_leaving_leaves_no_task_no_noise_and_a_valid_history(leave: str, place: str) -> None:
    noise: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    before, gate = asyncio.all_tasks(), Gate()
    model = HangingModel([_script(place), "again"], gate)

    async def hang() -> None:
        await gate()

    agent = await Agent.create(
        model,
        config=SESSION,
        tools=[named(HANG, hang)],
        extensions=[
            InMemoryMessageAccumulator(),
            AskUserExtension(),
            SubAgentExtension([kind(HangingModel([[text(HANG)]], gate))]),
        ],
    )

    async def reached() -> None:
        await until(lambda: gate.reached.is_set() or agent.pending_waits())

    await LEAVES[leave](agent.stream("hi"), reached)
    gc.collect()
    await until(lambda: not agent.pending)
    await spin()
    assert asyncio.all_tasks() == before
    assert agent.state.phase is AgentPhase.CANCELLED
    assert agent.pending_waits() == ()
    if leave == "break":
        model.script = ScriptedModel("again")
    assert (await agent.run("go on")).content == "again"
    for request in model.script.requests:
        check_transcript(request.messages)
    gc.collect()
    assert noise == []


async def test_core_47_a_consumer_that_stops_pulling_can_be_stopped_and_comes_back_to_the_end() -> None:
    stage = await scene("again")
    stream: Any = stage.agent.stream("hi")
    seen: list[AgentEvent] = [await anext(stream)]
    await spin()
    assert stage.agent.stop()
    await spin()
    assert stage.agent.state.phase is AgentPhase.CANCELLED, "it need not pull for the request to end"
    seen += [event async for event in stream]
    assert [event.type.value for event in seen] == ["model_started", "run_cancelled"]
    assert (await stage.agent.run("go on")).content == "again"


# The end of a turn that a hook brings about


class FailsAfter(AgentExtension):
    """Ends the request at the first result."""

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        if call.id == "a":
            raise RuntimeError("stop here")


async def test_cancel_03_core_19_a_hook_that_ends_the_turn_leaves_results_before_what_the_user_said() -> None:
    started = asyncio.Event()

    async def first() -> str:
        await started.wait()
        return "1"

    async def second() -> str:
        assert stage.steer("wait!") == ["SteeringExtension"]
        started.set()
        await asyncio.Event().wait()
        return "2"

    stage = await scene(
        [call("first", id="a"), call("second", id="b"), call("add", id="c", left=1, right=1)],
        "done",
        tools=[named("first", first), named("second", second), add],
        extensions=[FailsAfter()],
    )
    outcome = await stage.play()
    assert str(outcome.error) == "stop here"
    assert [line.split(":")[0] for line in outcome.story] == [
        "user hi",
        "assistant -> first(a), second(b), add(c)",
        "tool a failed",
        "tool b failed",
        "tool c ok",
    ]
    (returned,) = outcome.recorder.custom("input_returned")
    assert "wait!" in str(returned.payload)
    again = await stage.play("wait!")
    assert again.story[5:] == ["user wait!", "assistant done"]


# A CancelledError that comes from inside


async def _raises() -> str:
    raise asyncio.CancelledError


async def _awaits_a_cancelled_future() -> str:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


async def _cancels_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def _cancels_its_group() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(_raises())
        task = group.create_task(asyncio.Event().wait())
        task.cancel()
    return "the group has ended"


def _raises_in_a_thread() -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "timeout"])
@pytest.mark.parametrize("layers", [[], [Layered]], ids=["bare", "wrapped"])
@pytest.mark.parametrize(
    "body", [_raises, _awaits_a_cancelled_future, _cancels_itself, _cancels_its_group, _raises_in_a_thread]
)
async def test_parallel_02_core_16_whatever_is_cancelled_inside_a_tool_ends_that_call_only(
    body: Any, layers: list[type[AgentExtension]], options: dict[str, Any]
) -> None:
    stage = await scene(
        [call("odd", id="o"), call("add", id="a", left=1, right=1)],
        "done",
        tools=[named("odd", body, **options), add],
        extensions=[layer() for layer in layers],
    )
    outcome = await stage.play()
    assert outcome.error is None
    assert outcome.lines[-1] == "run_completed"
    assert outcome.story[3:] == ["tool a ok: 2", "assistant done"]
    if body is not _cancels_its_group:
        assert outcome.story[2].startswith("tool o failed: CancelledError")
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
