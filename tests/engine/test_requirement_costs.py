"""What costs nothing: schemas, the history, extensions that have nothing to do. Counted in calls and callbacks."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import pytest

from tests.engine.scenario import SESSION, add, named, scene
from zett_agent.agent import Agent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call, text
from zett_agent.tools.base import AgentTool


class Rare(ExtensionEvent):
    """A notification that nobody publishes."""


class Idle(AgentExtension):
    """Listens to something rare, and has hooks that no delta and no turn needs."""

    subscribes = (Rare,)

    async def on_event(self, context: Any, event: ExtensionEvent) -> None:
        """Is never called."""

    async def on_compact(self, context: Any) -> None:
        """Is never called."""


def idle(count: int) -> list[AgentExtension]:
    """Extensions that have nothing to do."""
    made = [Idle() for _ in range(count)]
    for number, extension in enumerate(made):
        extension.name = f"Idle{number}"
    return list(made)


class Counter:
    """Counts the calls of Python and C functions, and the callbacks of the loop, while something is awaited."""

    def __init__(self) -> None:
        self.calls = 0
        self.callbacks = 0

    async def watch(self, work: Awaitable[object]) -> Counter:
        gc.collect()
        gc.disable()  # the finalizers of earlier tests are not what is counted
        sys.setprofile(self._count)
        try:
            await work
        finally:
            sys.setprofile(None)
            gc.enable()
        return self

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")
        self.callbacks += event == "call" and frame.f_code.co_name == "_run" and "asyncio" in frame.f_code.co_filename


async def costs_of_deltas(deltas: int, *, extensions: int) -> Counter:
    async def consume() -> None:
        async for _ in stage.agent.stream("hi"):
            pass

    stage = await scene([text(*["x"] * deltas)], extensions=idle(extensions))
    return await Counter().watch(consume())


async def test_core_51_a_delta_costs_the_same_with_twenty_idle_extensions_as_with_none() -> None:
    async def per_thousand(extensions: int) -> int:
        many, few = [await costs_of_deltas(deltas, extensions=extensions) for deltas in (1_500, 500)]
        return many.calls - few.calls

    # Not quite the same: a class is asked once in a process whether it is an abstract one's.
    assert await per_thousand(20) == pytest.approx(await per_thousand(0), rel=0.01)


async def test_core_51_deltas_take_no_turn_of_the_loop_each() -> None:
    few, many = [await costs_of_deltas(deltas, extensions=0) for deltas in (10, 1_000)]
    assert many.callbacks - few.callbacks < 20


async def test_core_53_a_turn_costs_the_same_with_twenty_idle_extensions_as_with_none() -> None:
    async def calls_of_a_turn(extensions: int) -> int:
        costs: list[int] = []
        for turns in (2, 12):
            steps = [*[[call("add", left=1, right=1)]] * turns, "done"]
            stage = await scene(*steps, tools=[add], extensions=idle(extensions))
            costs.append((await Counter().watch(stage.agent.run("hi"))).calls)
        return costs[1] - costs[0]

    assert await calls_of_a_turn(20) == pytest.approx(await calls_of_a_turn(0), rel=0.01)


def wide_tools(count: int, properties: int) -> list[AgentTool]:
    """Tools whose schemas are as big as those of generated interfaces."""
    source = ", ".join(f"p{n}: int = 0" for n in range(properties))
    made: list[AgentTool] = []
    for number in range(count):
        space: dict[str, Any] = {}
        exec(f"async def wide({source}) -> str:\n    return 'x'", space)
        made.append(named(f"wide{number}", space["wide"]))
    return made


async def test_core_52_a_request_does_not_look_into_the_schemas_of_its_tools() -> None:
    async def calls_of_a_request(properties: int) -> int:
        stage = await scene("warm", "done", tools=wide_tools(20, properties))
        await stage.agent.run("hi")
        return (await Counter().watch(stage.agent.run("hi"))).calls

    assert await calls_of_a_request(properties=100) == pytest.approx(await calls_of_a_request(properties=1), rel=0.1)


async def test_core_52_every_request_offers_the_very_schemas_that_the_tools_have() -> None:
    tools = wide_tools(2, 3)
    stage = await scene([call("wide0")], "one", "two", tools=tools)
    for _ in range(2):
        await stage.agent.run("hi")
    for request in stage.model.requests:
        offered = {definition.name: definition.parameters for definition in request.tools}
        assert all(offered[tool.name] is tool.definition.parameters for tool in tools)


async def test_core_53_the_tools_of_a_request_are_gathered_once_whatever_the_turns_and_extensions() -> None:
    stage = await scene(*[[call("wide0")]] * 5, "done", tools=wide_tools(3, 1), extensions=idle(5))
    await stage.agent.run("hi")
    assert len(stage.model.requests) == 6
    assert len({id(request.tools) for request in stage.model.requests}) == 1


async def held_bytes(look: Callable[[], object]) -> int:
    """Bytes that a hundred results of ``look`` take."""
    look()
    tracemalloc.start()
    kept = [look() for _ in range(100)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == 100
    return taken


async def test_rule_11_core_53_looking_at_the_messages_copies_no_history() -> None:
    async def bytes_of_a_look(messages: int) -> int:
        history = [UserMessage(content="u"), AssistantMessage(content="a")] * (messages // 2)

        class Long(AgentExtension):
            async def on_state(self, context: Any) -> None:
                context.restore_messages(history)

        agent = await Agent.create(ScriptedModel("done"), config=SESSION, extensions=[Long()])
        await agent.run("hi")
        assert len(agent.state.messages) >= messages
        return await held_bytes(lambda: agent.state.messages)

    # A number above 256 is an object of its own, so not quite the same; a copy would be a hundred times as much.
    assert await bytes_of_a_look(4_000) < 2 * await bytes_of_a_look(40)


async def test_rule_11_the_requests_of_a_session_share_their_messages() -> None:
    def answer(request: ModelRequest) -> str:
        return f"answer {len(request.messages)}"

    model = FunctionModel(answer)
    agent = await Agent.create(model, config=SESSION, extensions=[InMemoryMessageAccumulator()])
    for _ in range(3):
        await agent.run("hi")
    first, *later = model.requests
    for request in later:
        assert all(mine is its for mine, its in zip(list(request.messages)[1:], list(first.messages)[1:], strict=False))
