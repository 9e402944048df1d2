"""Other loops, several loops, and the cancel scopes of asyncio and anyio around a request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import Any

import anyio
import pytest

from tests.attack.crowd import Crowd, Family
from tests.attack.rich import LIMIT, Cast, Rich, Stepping
from tests.attack.test_cancel_everywhere import LEAST_STEPS, STOPS, Scene, let_wait_for_be_over
from tests.attack.whole import check
from tests.loops import base, prepared
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentCancelledError, AgentProtocolError, SessionBusyError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ToolMessage
from zett_agent.model import ModelRequest
from zett_agent.sync import SyncAgent
from zett_agent.testing import FunctionModel, ScriptedModel, call, check_transcript, stall, text
from zett_agent.tools.base import tool

#: Whoever asks for a loop by ``--loop`` has every step of it tried, others every so manieth.
STRIDE = 23


@tool
async def waits(n: int) -> str:
    """Work."""
    await asyncio.sleep(0)
    return f"waited {n}"


@tool
def blocks(n: int) -> str:
    """Work in a thread."""
    return f"blocked {n}"


def busy(request: ModelRequest) -> Any:
    """A model that calls a tool of each kind, and then repeats what it was told."""
    check_transcript(request.messages)
    last = request.messages[-1]
    if last.role != "tool":
        return [text("let me see"), call("waits", n=1), call("blocks", n=2)]
    return ", ".join(message.text for message in request.messages if isinstance(message, ToolMessage))


TOLD = "waited 1, blocked 2"


async def busy_agent(*extensions: AgentExtension) -> Agent:
    return await Agent.create(
        FunctionModel(busy), system_prompt="", tools=[waits, blocks], extensions=extensions, config=AgentRunConfig("s")
    )


class Places:
    """Tries one place after another on a loop that acts there, until what is tried ends before."""

    def __init__(self, name: str, stride: int) -> None:
        self.name = name
        self.stride = stride
        # Any: the loop of asyncio or that of uvloop, and it counts its steps.
        self.kind: Any = type("SteppingLoop", (Stepping, base(name)), {})

    def try_each(self, attempt: Callable[[int, Any], Awaitable[bool]]) -> int:
        """``attempt(at, loop)`` says whether the loop acted; returns the number of places where it did."""
        for points, at in enumerate(count(1, self.stride)):
            try:
                if not self._on_a_loop(partial(attempt, at)):
                    return points
            except BaseException as error:
                error.add_note(f"at step {at} of {self.name}")
                raise
        raise AssertionError("unreachable")

    def _on_a_loop(self, attempt: Callable[[Any], Awaitable[bool]]) -> bool:
        loop, faults = prepared(self.name, self.kind()), list[Any]()
        loop.set_exception_handler(lambda _, context: faults.append(context))

        async def test() -> bool:
            task = asyncio.current_task()
            assert task is not None
            task.set_name("test")
            return await attempt(loop)

        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            struck = runner.run(test())
        assert not faults
        return struck


@pytest.fixture
def places(each_loop: str, pytestconfig: pytest.Config) -> Places:
    chosen = pytestconfig.getoption("--loop", "asyncio") == each_loop != "asyncio"
    return Places(each_loop, 1 if chosen else STRIDE)


@pytest.mark.timeout(90, func_only=True)  # on a busy machine each attempt may take a tenth of a second
@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop is not let_wait_for_be_over])
def test_rule_8_a_stop_at_a_step_of_any_loop_leaves_everything_whole(
    stop: Callable[[Scene], None], places: Places
) -> None:
    cast = Cast()

    async def attempt(at: int, loop: Any) -> bool:
        rich = Rich(cast)
        await rich.open()
        scene = Scene(rich, loop, asyncio.ensure_future(rich.play()))
        await asyncio.sleep(0)
        loop.arm(at, partial(stop, scene))
        await asyncio.wait({scene.consumer}, timeout=LIMIT)
        struck: bool = loop.disarm()
        assert scene.consumer.done()
        with suppress(asyncio.CancelledError, AgentProtocolError):
            await scene.consumer
        await asyncio.gather(*scene.started)
        await check(rich)
        return struck

    assert places.try_each(attempt) >= LEAST_STEPS // 2 // places.stride  # eager tasks save every second step


@pytest.mark.parametrize(("kind", "size"), [(Crowd, 150), (Family, 60)])
def test_rule_6_answers_from_another_thread_reach_their_waits_on_any_loop(
    each_loop: str, kind: type[Crowd], size: int
) -> None:
    async def main() -> None:
        crowd = kind(size, seed=size)
        await crowd.play()
        crowd.check_nothing_is_left()

    asyncio.run(main())


def test_loop_01_threads_share_an_agent_that_blocks_on_any_loop(each_loop: str) -> None:
    with SyncAgent(FunctionModel(busy), system_prompt="", tools=[waits, blocks], extensions=[]) as agent:

        def run(number: int) -> str:
            return agent.run("hi", config=AgentRunConfig(f"s{number}")).content

        def stream(number: int) -> list[str]:
            with agent.stream("hi", config=AgentRunConfig(f"t{number}")) as events:
                return [event.type.value for event in events]

        def leave(number: int) -> str:
            with agent.stream("hi", config=AgentRunConfig(f"u{number}")) as events:
                return next(event.type.value for event in events)

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(run, range(24))) == {TOLD}
            assert {seen[-1] for seen in threads.map(stream, range(24))} == {"run_completed"}
            assert set(threads.map(leave, range(24))) == {"model_started"}
        assert not agent.client.agent.pending
    assert not [thread for thread in threading.enumerate() if thread.name == "zett-agent-sync"]


def test_cancel_04_a_stream_is_closed_by_another_task_on_any_loop(each_loop: str) -> None:
    async def attempt(agent: Agent, events_before: int) -> None:
        stream = agent.stream("hi")
        for _ in range(events_before):
            await anext(stream)
        await asyncio.create_task(stream.aclose())  # type: ignore[attr-defined]  # an async generator, see Agent.stream
        assert not agent.pending and asyncio.all_tasks() == {asyncio.current_task()}
        check_transcript(agent.state.messages)

    async def main() -> None:
        agent = await busy_agent()
        for events_before in range(14):
            await attempt(agent, events_before)
        assert (await agent.run("hi")).content == TOLD

    asyncio.run(main())


def test_loop_01_one_agent_serves_one_loop_after_another(each_loop: str) -> None:
    agent = asyncio.run(busy_agent())
    assert {asyncio.run(agent.run("hi")).content for _ in range(5)} == {TOLD}
    assert not agent.pending


def test_loop_01_one_agent_and_two_serve_several_loops_at_once(each_loop: str) -> None:
    agents = [asyncio.run(busy_agent()) for _ in range(2)]
    together = threading.Barrier(4)

    async def main(thread: int) -> set[str]:
        together.wait()
        sessions = (
            agent.run("hi", config=AgentRunConfig(f"s{thread}-{number}")) for number in range(20) for agent in agents
        )
        return {answer.content for answer in await asyncio.gather(*sessions)}

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda thread: asyncio.run(main(thread)), range(4))) == [{TOLD}] * 4
    assert not any(agent.pending for agent in agents)


def test_rule_9_a_session_has_one_request_across_loops(each_loop: str) -> None:
    """Of many threads that want the same session at the same time one gets it, and the others are told who has it."""
    held = threading.Event()

    @tool
    def hold() -> str:
        """Wait until everybody has tried."""
        assert held.wait(10)
        return "held"

    model = FunctionModel(lambda request: [call("hold")] if request.messages[-1].role == "user" else "done")
    agent = asyncio.run(Agent.create(model, system_prompt="", tools=[hold], extensions=[], config=AgentRunConfig("s")))
    together, refused = threading.Barrier(6), threading.Semaphore(0)

    def want(_: int) -> str:
        together.wait()
        try:
            return asyncio.run(agent.run("hi")).content
        except SessionBusyError as busy:
            refused.release()
            return busy.session_id

    def release() -> None:
        for _ in range(5):
            refused.acquire(timeout=10)
        held.set()

    with ThreadPoolExecutor(7) as threads:
        threads.submit(release)
        assert sorted(threads.map(want, range(6))) == ["done", *["s"] * 5]


def test_cancel_05_a_hook_of_the_very_first_step_can_stop_its_request(each_loop: str) -> None:
    class Stops(AgentExtension):
        def __init__(self) -> None:
            self.stopped: list[bool] = []

        async def on_tool(self, context: AgentRunContext) -> None:
            self.stopped.append(context.agent.stop(context.config))  # type: ignore[attr-defined]

    async def main() -> None:
        stops = Stops()
        agent = await busy_agent(stops)
        with pytest.raises(AgentCancelledError):
            await agent.run("hi")
        assert stops.stopped == [True]
        assert agent.state.phase.value == "cancelled"

    asyncio.run(main())


async def with_timeout(loop: Any, at: int, work: Awaitable[Any]) -> bool:
    """Whether the request was cut off; whatever else is raised than the scope's own TimeoutError fails the test."""

    def strike() -> None:
        with suppress(RuntimeError):  # the scope is over
            scope.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as scope:
            loop.arm(at, strike)
            await work
    except TimeoutError:
        return True
    return False


async def with_wait_for(loop: Any, at: int, work: Awaitable[Any]) -> bool:
    limited = asyncio.ensure_future(asyncio.wait_for(work, LIMIT))
    await asyncio.sleep(0)  # a task that is cancelled before it begins asks for nothing
    loop.arm(at, limited.cancel)
    try:
        await limited
    except asyncio.CancelledError:
        return True
    return False


async def with_task_group(loop: Any, at: int, work: Awaitable[Any]) -> bool:
    """A sibling fails: the group cancels the one that runs the request, and raises what the sibling raised alone."""
    failing: asyncio.Future[None] = loop.create_future()

    async def fail() -> None:
        await failing

    def strike() -> None:
        if not failing.done():
            failing.set_exception(LookupError("sibling"))

    try:
        async with asyncio.TaskGroup() as group:
            sibling = group.create_task(fail())
            loop.arm(at, strike)
            await work
            if failing.done():
                await asyncio.Event().wait()  # when it strikes at their end, older groups count wrongly
            sibling.cancel()
    except ExceptionGroup as raised:
        assert [str(error) for error in raised.exceptions] == ["sibling"]
        return True
    return False


async def with_anyio_scope(loop: Any, at: int, work: Awaitable[Any]) -> bool:
    with anyio.CancelScope() as scope:
        loop.arm(at, scope.cancel)
        await work
    return scope.cancelled_caught


async def with_anyio_group(loop: Any, at: int, work: Awaitable[Any]) -> bool:
    ended = False

    async def inner() -> None:
        nonlocal ended
        await work
        ended = True

    async with anyio.create_task_group() as group:
        loop.arm(at, group.cancel_scope.cancel)
        group.start_soon(inner)
    return not ended


SCOPES = [with_timeout, with_wait_for, with_task_group, with_anyio_scope, with_anyio_group]


@pytest.mark.timeout(90, func_only=True)  # as above
@pytest.mark.parametrize("scope", SCOPES)
def test_cancel_04_a_cancel_scope_around_a_stream_keeps_its_own_account(
    scope: Callable[..., Awaitable[bool]], places: Places
) -> None:
    """At whichever step it strikes: the scope's own outcome and no CancelledError, and no cancel left on the task."""
    cast = Cast()

    async def attempt(at: int, loop: Any) -> bool:
        rich, task = Rich(cast), asyncio.current_task()
        assert task is not None
        await rich.open()
        cut_off = await scope(loop, at, rich.play())
        struck: bool = loop.disarm()
        assert task.cancelling() == 0 and (struck or not cut_off)
        await check(rich)
        return struck

    assert places.try_each(attempt) >= LEAST_STEPS // 2 // places.stride


@pytest.mark.parametrize("scope", SCOPES)
def test_cancel_04_a_cancel_scope_around_run_keeps_its_own_account(
    scope: Callable[..., Awaitable[bool]], each_loop: str
) -> None:
    async def attempt(at: int, loop: Any) -> bool:
        agent, task = await busy_agent(), asyncio.current_task()
        assert task is not None
        cut_off = await scope(loop, at, agent.run("hi"))
        struck: bool = loop.disarm()
        assert task.cancelling() == 0 and (struck or not cut_off)
        assert not agent.pending and asyncio.all_tasks() == {task}
        check_transcript(agent.state.messages)
        assert (await agent.run("hi")).content == TOLD
        return struck

    assert Places(each_loop, 1).try_each(attempt) >= 15


def test_cancel_04_a_cancel_from_outside_passes_a_timeout_within(each_loop: str) -> None:
    """Both in one step of the loop: the outer cancel wins, as around any other await, and stays counted."""

    async def main() -> None:
        agent = await Agent.create(ScriptedModel([text("x"), stall()]), system_prompt="", extensions=[])
        reached, counts = asyncio.Event(), list[int]()

        async def limited() -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                async with asyncio.timeout(None) as scope:
                    async with aclosing(agent.stream("hi")) as events:  # type: ignore[type-var]
                        async for event in events:
                            if event.type == "text_delta":
                                scope.reschedule(asyncio.get_running_loop().time())
                                task.cancel()
                                reached.set()
            finally:
                counts.append(task.cancelling())

        outer = asyncio.ensure_future(limited())
        await reached.wait()
        with pytest.raises(asyncio.CancelledError):
            await outer
        assert counts == [1] and not agent.pending

    asyncio.run(main())
