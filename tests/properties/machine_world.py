"""The real thing, and all that can be done to it: one agent on a loop that moves only when the machine says so."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from tests.properties.machine_ledger import SESSIONS, Answer, Ledger, Record
from tests.properties.machine_plans import Turn
from tests.properties.machine_spies import FirstSpy, Grump, LastSpy
from tests.properties.machine_stage import TOOLS, CheckRequest, Stage
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import ASK_USER_RESPONSE_EVENT_NAME
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PERMISSION_RESPONSE_EVENT_NAME, PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AgentMessage, AssistantMessage
from zett_agent.waits import ExternalEvent, Wait

T = TypeVar("T")

#: Steps of the loop in which whatever can end must have ended.
MANY = 20_000
WITHOUT_END = 10**9


class Consumer:
    """Whoever reads a stream: it asks for as many events as it may, and then leaves or stays idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: AgentRunConfig, stream: AsyncIterator[AgentEvent]):
        self.session_id = config.session_id or ""
        self.request_id = config.request_id or ""
        self.events: list[AgentEvent] = []
        self.error: Exception | None = None
        #: The stream came to its own end.
        self.ended = False
        #: It waits for the next event.
        self.asking = False
        self.asked = 0
        self.cancels = 0
        self.leaving = False
        self.checked = False
        self._may_ask = 0
        self._allowed = asyncio.Event()
        self.task = loop.create_task(self._follow(stream), name=f"consumer of {self.session_id}")

    @property
    def gone(self) -> bool:
        return self.task.done()

    def allow(self, events: int) -> None:
        """Let it ask for so many events more."""
        self._may_ask += events
        self._allowed.set()

    def rest(self) -> None:
        """Let it ask for nothing more."""
        self._may_ask = 0

    def leave(self) -> None:
        """Let it close the stream before it asks again."""
        self.leaving = True
        self._allowed.set()

    def cancel(self) -> None:
        """Cancel the asyncio task that reads."""
        self.cancels += 1
        self.task.cancel()

    async def _follow(self, stream: AsyncIterator[AgentEvent]) -> None:
        try:
            async with aclosing(stream) as events:  # type: ignore[type-var]  # the streams of an agent are generators
                while await self._wants_more():
                    self.asking, self.asked = True, self.asked + 1
                    event = await anext(events, None)
                    self.asking = False
                    if event is None:
                        break
                    self.events.append(event)
            self.ended = not self.leaving
        except Exception as error:
            self.error, self.ended = error, True
        finally:
            self.asking = False

    async def _wants_more(self) -> bool:
        while not self._may_ask and not self.leaving:
            self._allowed.clear()
            await self._allowed.wait()
        self._may_ask -= 1
        return not self.leaving


class World:
    """The agent with three sessions, who reads them, and what can be done from outside."""

    def __init__(self, check: CheckRequest, *, pauses: bool, grumpy: bool, wake: bool, loud: bool) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self.faults: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.faults.append(context))
        self.ledger = Ledger()
        spies: list[AgentExtension] = [
            FirstSpy(self.ledger, "first", -10_000_000, pauses=pauses),
            LastSpy(self.ledger, "last", 10_000_000, pauses=pauses),
        ]
        self.stage = Stage(self.ledger, check, spies)
        self.memory = InMemoryMessageAccumulator()
        rules = [PermissionRule("danger", "ask"), PermissionRule("denied", "deny"), PermissionRule("*", "allow")]
        self.gate = PermissionExtension(rules)
        self.background = AsyncSubAgentExtension(self.stage.children, wake_parent=wake, forward_events=loud)
        self.wakes = wake
        family: list[SubAgentExtension] = [SubAgentExtension(self.stage.children, forward_events=loud)]
        self.families = [*family, self.background, *self.stage.below]
        grump = [Grump()] if grumpy else []
        self.agent = Agent(
            self.stage.model,
            system_prompt="",
            tools=TOOLS,
            extensions=[*spies, self.memory, self.gate, self.stage.asking, *self.families[:2], *grump],
        )
        self.consumers: dict[str, Consumer] = {}
        #: Readers of streams that were refused: the session had a request.
        self.refused: list[Consumer] = []
        #: True while everything that can go on without the machine has done so.
        self.settled = False
        self._requests = 0
        self._errors = _Errors()
        self._errors.listen()
        self.run(self.agent.initialize(config=AgentRunConfig(session_id="default")))

    # the loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work``, which must come to its end without the machine's help."""
        task = self.loop.create_task(work, name="machine")
        self.settle()
        assert task.done(), f"does not come to an end: {work}"
        return task.result()

    def settle(self) -> None:
        """Let everything go on that can."""
        self.loop.run_until_complete(self._settle())
        self.settled = True

    def steps(self, count: int) -> None:
        """Let the loop go a few steps, and stop in the midst of whatever it does."""
        self.settled = False
        if count:
            self.loop.run_until_complete(_steps(count))

    async def _settle(self) -> None:
        self.ledger.threads_may_end.set()
        for _ in range(MANY):
            await asyncio.sleep(0)
            if self.loop._ready:  # type: ignore[attr-defined]  # the only way to know that nothing is left to do
                continue
            if not self.ledger.in_threads:
                self.ledger.threads_may_end.clear()
                return
            self.ledger.thread_ended.clear()
            await self.ledger.thread_ended.wait()
        raise AssertionError("it goes on and on")

    # requests

    def start(self, session_id: str, kind: str, plan: Sequence[Turn], events: int) -> Consumer:
        """Begin to read a new request of the session."""
        config, agent = self._new_config(session_id), self.agent
        self.stage.plans[config.request_id or ""] = deque(plan)
        text = self.ledger.token(session_id, "input")
        if kind == "resume":
            stream = agent.stream_resume(config=config)
        elif kind == "internal":
            stream = agent.stream_internal(AgentMessage(content=text), config=config)
        else:
            stream = agent.stream(text, config=config)
        consumer = Consumer(self.loop, config, stream)
        consumer.allow(events)
        return consumer

    def request(self, session_id: str) -> AssistantMessage:
        """A whole request that nothing disturbs."""
        text = self.ledger.token(session_id, "input")
        return self.run(self.agent.run(text, config=self._new_config(session_id)))

    def look(self, session_id: str, *, compact: bool) -> None:
        """A pass over the session that answers nobody."""
        config = self._new_config(session_id)
        self.run(_drain(self.agent.compact(config=config)) if compact else self._look(config))

    async def _look(self, config: AgentRunConfig) -> None:
        await self.agent.resume_point(config=config)

    def _new_config(self, session_id: str) -> AgentRunConfig:
        self._requests += 1
        return AgentRunConfig(session_id=session_id, request_id=f"request-{self._requests}")

    def idle(self) -> list[str]:
        """The sessions that neither have a request nor a reader."""
        return [s for s in SESSIONS if not self.agent.is_conflict(s) and self.reader(s) is None]

    def reader(self, session_id: str) -> Consumer | None:
        """Whoever reads the session's request."""
        consumer = self.consumers.get(session_id)
        return consumer if consumer is not None and not consumer.gone else None

    def reads(self, reader: Consumer) -> bool:
        """True when the session's request is the reader's: one that never asked may wait while another one runs."""
        record = self.ledger.active.get(reader.session_id)
        return record is not None and record.context.request_id == reader.request_id

    def readers(self) -> list[Consumer]:
        """Everybody who reads."""
        return [consumer for consumer in self.consumers.values() if not consumer.gone]

    def waits(self) -> tuple[Wait, ...]:
        """The open questions, of sessions and children; each that was ever seen is remembered."""
        waits = self.agent.pending_waits()
        self.ledger.seen.update({(wait.session_id, wait.request_id, wait.id): wait for wait in waits})
        return waits

    def tasks(self) -> list[SubAgentTask]:
        """The background tasks that run, of every level."""
        boards = [one._board for one in self.families if isinstance(one, AsyncSubAgentExtension)]
        return [task for board in boards for task in board.all_tasks() if not task.finished]

    # answers

    def emit(self, session_id: str, name: str, request_id: str | None = None, **payload: Any) -> list[str]:
        """Tell the agent something from outside."""
        config = AgentRunConfig(session_id=session_id, request_id=request_id)
        return self.agent.emit_external_event(ExternalEvent(name, payload), config=config)

    def answer(self, wait: Wait, decision: str, *, request_id: str | None = None) -> bool:
        """Answer a question as it is to be answered; True when somebody took it."""
        answer, name, payload = self.reply(wait, decision)
        return self.note(wait, answer, self.emit(wait.session_id, name, request_id, **payload))

    def reply(self, wait: Wait, decision: str) -> tuple[Answer, str, dict[str, Any]]:
        """An answer that nobody has given yet, and the event it comes in."""
        text = self.ledger.token(wait.session_id, "answer")
        if ASK_USER_RESPONSE_EVENT_NAME in wait.response_events:
            return Answer(text), ASK_USER_RESPONSE_EVENT_NAME, {"tool_call_id": wait.id, "answer": text}
        bodies: dict[str, dict[str, Any]] = {
            "approve": {"decision": "approve"},
            "edit": {"decision": "approve", "arguments": {"tag": text}},
            "reject": {"decision": "reject", "message": text},
            "respond": {"decision": "respond", "result": text},
        }
        body = bodies[decision]
        return Answer(text, decision), PERMISSION_RESPONSE_EVENT_NAME, {"tool_call_id": wait.id, **body}

    def note(self, wait: Wait, answer: Answer, takers: list[str]) -> bool:
        """Write down what became of an answer."""
        assert len(takers) <= 1, takers
        if not takers:
            self.ledger.refused.add(answer.text)
            return False
        key = (wait.session_id, wait.id)
        assert key not in self.ledger.accepted, f"a second answer was taken: {key}"
        self.ledger.accepted[key] = answer
        return True

    def say(self, session_id: str, name: str) -> bool:
        """Steer the session's request, or send it an internal message; True when it was taken."""
        text = self.ledger.token(session_id, "said")
        if self.emit(session_id, name, content=text):
            self.ledger.active[session_id].inputs.append(text)
            return True
        self.ledger.refused.add(text)
        return False

    def stop(self, session_id: str, mode: Any) -> bool:
        """Stop the session's request."""
        record = self.ledger.active.get(session_id)
        stopped = self.agent.stop(AgentRunConfig(session_id=session_id), mode=mode)
        if record is not None and mode == "now":
            record.stopped |= stopped
        return stopped

    def aclose(self) -> None:
        """Close the agent, which stays usable."""
        records: list[Record] = list(self.ledger.active.values())
        self.run(self.agent.aclose())
        for record in records:
            record.stopped = True

    def let_threads_end(self) -> None:
        """Let go of the threads too that nobody waits for any more: a call was cancelled, and its function runs on."""
        self.stage.release_all()
        self.ledger.threads_may_end.set()

    def scrap(self) -> None:
        """Give everything up, after a failure."""
        self.let_threads_end()
        for _ in range(3):
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(_steps(50))
        self.close()

    def close(self) -> None:
        """The end of the loop."""
        self.let_threads_end()
        self._errors.rest()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def complaints(self) -> list[Any]:
        """What the loop or the library reports as an error."""
        return [*self.faults, *self._errors.seen]


class _Errors(logging.Handler):
    """Keeps what the library logs as an error; its warnings, of hooks that fail as they were drawn to, go nowhere."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def listen(self) -> None:
        logger = logging.getLogger("zett_agent")
        logger.addHandler(self)
        logger.propagate = False

    def rest(self) -> None:
        logger = logging.getLogger("zett_agent")
        logger.removeHandler(self)
        logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


def in_threads(*work: Callable[[], T]) -> list[T]:
    """Do each in a thread of its own, all at once, and return when they have ended."""
    done: dict[int, T] = {}
    start = threading.Barrier(len(work))

    def do(place: int, one: Callable[[], T]) -> None:
        start.wait()
        done[place] = one()

    threads = [threading.Thread(target=do, args=pair) for pair in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [done[place] for place in range(len(work))]


async def _steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _drain(stream: AsyncIterator[AgentEvent]) -> None:
    async for _ in stream:
        pass
