"""The workloads of the budget table, each for the bare loop and for the runtime."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from uuid import uuid4

from bench.bare import BareLoop
from bench.measure import Work
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.storage.base import SessionStore
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent


class ReplayModel:
    """Yields events that were made beforehand: the call's answer is chosen by whether a tool has answered last."""

    retry = RetryOptions(max_retries=0)

    def __init__(self, first: Sequence[ModelEvent], after_tools: Sequence[ModelEvent] = ()) -> None:
        self._first = tuple(first)
        self._after_tools = tuple(after_tools)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Replay."""
        last = request.messages[-1]
        for event in self._after_tools if isinstance(last, ToolMessage) else self._first:
            yield event


@tool
async def add(left: int, right: int) -> int:
    """Add two numbers.

    Args:
        left: The first.
        right: The second.
    """
    return left + right


async def _bare_add(left: int, right: int) -> int:
    return left + right


def pieces(number: int) -> list[str]:
    """The text of an answer as it is streamed."""
    return [f"word{position} " for position in range(number)]


def text_events(deltas: int) -> list[ModelEvent]:
    """A response of that many pieces."""
    response = ModelResponse(AssistantMessage(content="".join(pieces(deltas))))
    return [*map(ModelEvent.text, pieces(deltas)), ModelEvent.completed(response)]


def call_events(calls: int, tag: str = "c") -> list[ModelEvent]:
    """A response that asks for that many calls."""
    asked = [ToolCall(f"{tag}{number}", "add", {"left": number, "right": 1}) for number in range(calls)]
    return [ModelEvent.completed(ModelResponse(AssistantMessage(tool_calls=asked)))]


def bare(model: ReplayModel) -> Work:
    """One request of the bare loop in a fresh session."""
    loop = BareLoop(model, {"add": _bare_add}, [add.definition])
    numbers = itertools.count()

    async def work() -> None:
        async for _ in loop.stream(f"session-{next(numbers)}", "hello"):
            pass

    return work


async def runtime(model: ReplayModel, store: SessionStore | None = None) -> Work:
    """One request of the runtime in a fresh session, with the default extensions."""
    agent = await Agent.create(model, tools=[add], store=store)
    numbers = itertools.count()

    async def work() -> None:
        config = AgentRunConfig(session_id=f"session-{next(numbers)}")
        async for _ in agent.stream("hello", config=config):
            pass

    return work


@dataclass(frozen=True)
class Scenario:
    """What is scripted, and how often one measured round repeats it."""

    model: ReplayModel
    times: int
    #: Calls or deltas of one request that the reported figure is shared among.
    share: int = 1


def scenarios() -> dict[str, Scenario]:
    """The work that the bare loop, the runtime and its peers all do."""
    return {
        "turn": Scenario(ReplayModel(text_events(10)), 60),
        "tool": Scenario(ReplayModel(call_events(1), text_events(1)), 40),
        "batch": Scenario(ReplayModel(call_events(50), text_events(1)), 5, 50),
        "delta": Scenario(ReplayModel(text_events(10_000)), 1, 10_000),
    }


class LongSessions:
    """One more turn in sessions that have so many messages already, one session after the other.

    A session grows by two messages with each turn. Once that is a tenth, ``prepare`` makes all of them anew: a cost
    that grows with the history must not hide in a short session that has become a long one.
    """

    #: How many turns a measured round has: one in each session. Enough that the collector runs about once in a round.
    sessions = 20

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._turns = 0
        self.agent: Agent | None = None
        self._configs = [AgentRunConfig(session_id=f"long-{number}") for number in range(self.sessions)]

    async def prepare(self) -> None:
        """Make the sessions, unless they are there and have hardly grown."""
        if self.agent is not None and 2 * self._turns / self.sessions < self._messages / 10:
            return
        self._turns = 0
        self.agent = await Agent.create(ReplayModel(text_events(10)), tools=[add])
        for config in self._configs:
            for _ in range(self._messages // 2):
                await self.agent.run("hello", config=config)

    def stream(self) -> AsyncIterator[AgentEvent]:
        """The next session's turn."""
        assert self.agent is not None, "await prepare() first"
        config = self._configs[self._turns % self.sessions]
        self._turns += 1
        return self.agent.stream("hello", config=config)

    async def turn(self) -> None:
        """The work."""
        async for _ in self.stream():
            pass


async def waiting_session_bytes(sessions: int) -> float:
    """Bytes that a session costs while it waits for a person, beyond the asyncio task that reads its stream."""
    asks = ToolCall("q", "ask_user", {"question": "Which format?", "options": ["Markdown", "Plain"]})
    model = ReplayModel([ModelEvent.completed(ModelResponse(AssistantMessage(tool_calls=[asks])))], text_events(1))
    agent = await Agent.create(model, extensions=[InMemoryMessageAccumulator(), AskUserExtension()])
    names: list[str] = []

    async def wait_all() -> list[asyncio.Task[None]]:
        # Fresh sessions each time: in an old one the runtime would give the call another id, since "q" was used.
        names[:] = [f"waiting-{uuid4()}" for _ in range(sessions)]
        streams = [agent.stream("hello", config=AgentRunConfig(session_id=name)) for name in names]
        tasks = [asyncio.create_task(_read(stream)) for stream in streams]
        while len(agent.pending_waits()) < len(names):
            await asyncio.sleep(0)
        for _ in range(30):  # until every question is read, too
            await asyncio.sleep(0)
        return tasks

    async def answer_all(tasks: list[asyncio.Task[None]]) -> None:
        for name in names:
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": "Markdown"})
            agent.emit_external_event(answer, config=AgentRunConfig(session_id=name))
        await asyncio.gather(*tasks)

    await answer_all(await wait_all())
    waiting = await _bytes_of(wait_all, answer_all)
    done = asyncio.Event()

    async def read_all() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(_read(_until(done))) for _ in names]
        await asyncio.sleep(0)
        return tasks

    async def end_all(tasks: list[asyncio.Task[None]]) -> None:
        done.set()
        await asyncio.gather(*tasks)

    return (waiting - await _bytes_of(read_all, end_all)) / sessions


async def _bytes_of(
    begin: Callable[[], Awaitable[list[asyncio.Task[None]]]], end: Callable[[list[asyncio.Task[None]]], Awaitable[None]]
) -> int:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tasks = await begin()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    await end(tasks)
    return used


async def _read(stream: AsyncIterator[object]) -> None:
    async with aclosing(stream) as events:  # type: ignore[type-var]
        async for _ in events:
            pass


async def _until(done: asyncio.Event) -> AsyncIterator[None]:
    await done.wait()
    yield None
