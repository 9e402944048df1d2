"""The behaviour that every extension must have, as checks that run under any test framework.

With pytest::

    @pytest.mark.parametrize("check", EXTENSION_CHECKS)
    async def test_my_extension(check):
        await check(MyExtension)

The argument makes a new extension each time. A check runs requests with it, through ``Agent.stream``.
"""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ToolMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing.function_model import Answer, FunctionModel
from zett_agent.testing.recorder import EventRecorder
from zett_agent.testing.scripted import Stall, call, error, stall, text
from zett_agent.testing.transcripts import check_event_order, check_transcript
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

MakeExtension = Callable[[], AgentExtension]
ExtensionCheck = Callable[[MakeExtension], Awaitable[None]]

_STRANGE = ExternalEvent("zett_agent.testing.unrelated", {"content": "nobody waits for this", "tool_call_id": "none"})
_TOOL = "zett_agent_testing_echo"
_ORDER = re.compile("<<(.*?)>>")


class _Broken(Exception):
    """What the model of a failing request raises."""


async def check_extension(make_extension: MakeExtension) -> None:
    """Run every check, one after another; AssertionError says what does not hold."""
    for check in EXTENSION_CHECKS:
        await check(make_extension)


async def check_sessions_do_not_mix(make_extension: MakeExtension) -> None:
    """One instance serves two sessions at once, twice each, and neither sees a word of the other."""
    async with _bench(make_extension) as bench:
        bench.meeting = asyncio.Barrier(2)
        for _ in range(2):
            async with asyncio.TaskGroup() as both:  # when one fails, the other must not wait for it
                both.create_task(bench.echo("red"))
                both.create_task(bench.echo("blue"))
        for session_id, other in (("red", "blue"), ("blue", "red")):
            for request in bench.requests_of(session_id):
                if f"word-{other}" in repr(list(request.messages)):
                    raise AssertionError(f"a request of session {session_id} holds messages of session {other}")


async def check_requests_stay_whole(make_extension: MakeExtension) -> None:
    """Events are balanced and every call has its result, in a request that runs a tool."""
    async with _bench(make_extension) as bench:
        check_event_order((await bench.echo("red")).events)
        for request in bench.requests_of("red"):
            check_transcript(request.messages)


async def check_pending_follows_the_requests(make_extension: MakeExtension) -> None:
    """``pending`` is True while a request runs and False after a success, a failure and a cancel."""
    async with _bench(make_extension) as bench:
        for end in bench.ends:
            was_pending = await end()
            if not was_pending:
                raise AssertionError(f"pending was False while a request ran ({end.__name__})")
            if bench.extension.pending:
                raise AssertionError(f"pending is still True after a request ended ({end.__name__})")


async def check_nothing_of_a_request_is_kept(make_extension: MakeExtension) -> None:
    """After a success, a failure and a cancel nothing refers to the request's context any more."""
    async with _bench(make_extension) as bench:
        for end in bench.ends:
            await end()
            for _ in range(3):  # what the loop itself still holds is gone after a turn or two
                await asyncio.sleep(0)
            gc.collect()
            if any(context() is not None for context in bench.probe.contexts):
                raise AssertionError(f"the context of an ended request is still referenced ({end.__name__})")


async def check_a_cancel_leaves_no_asyncio_task(make_extension: MakeExtension) -> None:
    """A request that is cancelled while the model talks has ended all that it started."""
    async with _bench(make_extension) as bench:
        before = asyncio.all_tasks()
        await bench.cancelled()
        left = asyncio.all_tasks() - before
        if left:
            raise AssertionError(f"asyncio tasks are left after a cancel: {sorted(task.get_name() for task in left)}")


async def check_strange_events_are_refused(make_extension: MakeExtension) -> None:
    """An external event that the extension knows nothing of is refused, before, during and after a request."""
    async with _bench(make_extension) as bench:
        bench.refuse_strange_events()
        await bench.cancelled()
        bench.refuse_strange_events()


EXTENSION_CHECKS: tuple[ExtensionCheck, ...] = (
    check_sessions_do_not_mix,
    check_requests_stay_whole,
    check_pending_follows_the_requests,
    check_nothing_of_a_request_is_kept,
    check_a_cancel_leaves_no_asyncio_task,
    check_strange_events_are_refused,
)
"""Every check, one per behaviour."""


class _Probe(AgentExtension):
    """Remembers the contexts of requests without keeping them."""

    def __init__(self) -> None:
        self.name = "zett_agent.testing probe"
        self.contexts: list[weakref.ref[AgentRunContext]] = []

    async def before_run(self, context: AgentRunContext) -> None:
        self.contexts.append(weakref.ref(context))


@dataclass(eq=False)
class _Bench:
    """An agent with the extension under test, whose model obeys the last user message."""

    extension: AgentExtension
    probe: _Probe
    agent: Agent
    model: FunctionModel
    held: Stall
    #: Where the tool calls of two sessions meet, so that both requests run at once.
    meeting: asyncio.Barrier | None = None

    @property
    def ends(self) -> tuple[Callable[[], Awaitable[bool]], ...]:
        """A request to each outcome; each says whether the extension was pending meanwhile."""
        return self.succeeded, self.failed, self.cancelled

    async def echo(self, session_id: str) -> EventRecorder:
        """A request that runs a tool."""
        message = f"<<echo word-{session_id}>>"
        return await EventRecorder().record(self.agent.stream(message, config=AgentRunConfig(session_id)))

    async def succeeded(self) -> bool:
        return await self._watched("<<echo word>>")

    async def failed(self) -> bool:
        return await self._watched("<<fail>>")

    async def cancelled(self) -> bool:
        request = asyncio.ensure_future(self._watched("<<stall>>"))
        reached = asyncio.ensure_future(self.held.reached.wait())
        await asyncio.wait({request, reached}, return_when=asyncio.FIRST_COMPLETED)
        if not reached.done():
            reached.cancel()
            raise AssertionError("the model was never sent what the user said")
        self.refuse_strange_events()
        pending = self.extension.pending
        request.cancel()
        with suppress(asyncio.CancelledError):
            await request
        self.held.reached.clear()
        return pending

    async def _watched(self, message: str) -> bool:
        seen: list[bool] = []
        recorder = EventRecorder().when("model_started", lambda _: seen.append(self.extension.pending))
        with suppress(_Broken):
            await recorder.record(self.agent.stream(message, config=AgentRunConfig("watched")))
        return all(seen)

    def requests_of(self, session_id: str) -> list[ModelRequest]:
        """The model requests of a session."""
        return [request for request in self.model.requests if request.cache_key == session_id]

    def refuse_strange_events(self) -> None:
        """Offer an event that means nothing to the extension."""
        for config in (None, AgentRunConfig("watched"), AgentRunConfig("nobody")):
            if self.extension.accept(config, _STRANGE):
                raise AssertionError(f"accept() took an event that is none of the extension's, for {config}")


@asynccontextmanager
async def _bench(make_extension: MakeExtension) -> AsyncIterator[_Bench]:
    @tool(name=_TOOL)
    async def echo(word: str) -> str:
        """Repeat a word."""
        if bench.meeting is not None:
            await bench.meeting.wait()
        return word

    held = stall()
    extension, probe = make_extension(), _Probe()
    model = FunctionModel(lambda request: _obey(request, held))
    agent = await Agent.create(model, tools=[echo], extensions=[probe, extension])
    bench = _Bench(extension, probe, agent, model, held)
    try:
        yield bench
    finally:
        await agent.aclose()


def _obey(request: ModelRequest, held: Stall) -> Answer:
    if isinstance(request.messages[-1], ToolMessage):
        return "done"
    said = " ".join(message.text for message in request.messages if isinstance(message, UserMessage))
    orders = _ORDER.findall(said)  # anywhere: an extension may add words of its own
    match orders[-1].split() if orders else []:
        case ["echo", word]:
            return [call(_TOOL, word=word)]
        case ["fail"]:
            return [text("I"), error(_Broken("on purpose"))]
        case ["stall"]:
            return [text("I"), held]
        case _:
            return "done"
