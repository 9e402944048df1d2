"""Agents for code that is not asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Literal, Protocol, Self, TypeVar, cast

from typing_extensions import Unpack

from zett_agent._runtime.bridge import Passthrough, SyncContext, SyncObject, SyncRuntime, SyncStream
from zett_agent._runtime.resumption import ResumePoint
from zett_agent._runtime.supervisor import STOP_BOUND, join, start_task
from zett_agent.agent import Agent, AgentOptions, RunOptions
from zett_agent.client import AgentClient
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentState
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, CompactionEvent
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage
from zett_agent.model import AgentModel, ModelEvent, ModelRequest, RetryOptions
from zett_agent.tools.threads import shared_pool
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "SyncAgent",
    "SyncContext",
    "SyncModelAdapter",
    "SyncObject",
    "SyncRuntime",
    "SyncStream",
    "create_agent_sync",
    "to_sync",
]

T = TypeVar("T")


class SyncAgent(Passthrough[Agent]):
    """An initialized agent whose methods block; any number of threads may use it at once, for different sessions.

    The agent lives on the thread of ``runtime``; without one it makes its own, which ``close()`` ends. Hooks, callbacks
    of the dispatcher and async tools run on that thread: there, use the async ``client``. Every attribute of ``Agent``
    that is not named here is there too (``tools``, ``pending``, ...), with methods that block.
    """

    __slots__ = ("_calls", "_closed", "_closing", "client")

    def __init__(
        self,
        model: AgentModel | None,
        *,
        config: AgentRunConfig | None = None,
        event_dispatcher: AgentEventDispatcher | None = None,
        runtime: SyncRuntime | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        agent = Agent(model, **options)  # before there is a thread: bad options are refused here
        super().__init__(agent, runtime=runtime)
        #: The async client of the same agent, for code on the runtime's thread.
        self.client = AgentClient(agent, event_dispatcher=event_dispatcher)
        self._calls: set[asyncio.Task[Any]] = set()  # the requests that a thread waits for
        self._closing = {os.getpid(): threading.Lock()}  # a forked child might find it locked for ever
        self._closed = False
        self.runtime.call(agent.initialize, config=config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def event_dispatcher(self) -> AgentEventDispatcher | None:
        """Whose callbacks are awaited with each event before it is returned."""
        return self.client.event_dispatcher

    @event_dispatcher.setter
    def event_dispatcher(self, dispatcher: AgentEventDispatcher | None) -> None:
        self.client.event_dispatcher = dispatcher

    def run(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """Send a message and return the last answer; raises what the request raises, AgentCancelledError if stopped.

        Ctrl-C stops the request before KeyboardInterrupt is raised, so that the session is free again.
        """
        return self._block(partial(self.client.run, message, **options))

    def stream(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> SyncStream[AgentEvent]:
        """Send a message and iterate what happens; nothing happens before the first ``next()``.

        Closing the stream, or losing it, stops the request; best within ``with agent.stream(...) as events:``.
        """
        return self.runtime.stream(partial(self.client.stream, message, **options))

    def run_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``run``, from a machine's message."""
        return self._block(partial(self.client.run_internal, message, **options))

    def stream_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> SyncStream[AgentEvent]:
        """As ``stream``, from a machine's message."""
        return self.runtime.stream(partial(self.client.stream_internal, message, **options))

    def resume(self, **options: Unpack[RunOptions]) -> AssistantMessage:
        """Go on where the session stopped and return the answer; AgentResumeError when there is nothing to go on."""
        return self._block(partial(self.client.resume, **options))

    def stream_resume(self, **options: Unpack[RunOptions]) -> SyncStream[AgentEvent]:
        """As ``resume``, iterating what happens."""
        return self.runtime.stream(partial(self.client.stream_resume, **options))

    def resume_point(self, **options: Unpack[RunOptions]) -> ResumePoint | None:
        """Where ``resume`` would go on, None when it could not; no model is called."""
        return self._block(partial(self.client.resume_point, **options))

    def compact(self, **options: Unpack[RunOptions]) -> CompactionEvent | None:
        """Compact the session now; the last summary that was applied, or None."""
        return self._block(partial(self.client.compact, **options))

    def emit_external_event(self, event: ExternalEvent, *, config: AgentRunConfig | None = None) -> list[str]:
        """Offer ``event``, such as an answer, to every extension and return the names of those that took it.

        Does not block: it may be called from any thread, the runtime's own too.
        """
        return self.client.emit_external_event(event, config=config)

    def pending_waits(self, *, config: AgentRunConfig | None = None) -> tuple[Wait, ...]:
        """The open questions of a session and its subagents, or of all sessions; does not block."""
        return self.client.pending_waits(config=config)

    def get_state(self, session_id: str) -> AgentState | None:
        """The state of the session's request, active or ended; does not block."""
        return self.client.get_state(session_id)

    def stop(self, config: AgentRunConfig | None = None, *, mode: Literal["now", "after_turn"] = "now") -> bool:
        """Stop the session's request; False when it has none. Does not block: the stream ends with RUN_CANCELLED."""
        return self.client.stop(config, mode=mode)

    def close(self) -> None:
        """Stop every request, close the extensions, and end the runtime if it was made here; idempotent.

        A ``run`` that is stopped so raises AgentCancelledError in its thread; streams end. In a forked child only what
        was begun there is stopped.
        """
        self.runtime.refuse_own_thread()
        with self._closing.setdefault(os.getpid(), threading.Lock()):
            if self._closed or self.runtime.closed:
                return
            try:
                self.runtime.call(self._aclose)
            finally:
                if self._owned:
                    self.runtime.close()
            self._closed = True

    def _block(self, request: Callable[[], Awaitable[T]]) -> T:
        return self.runtime.call(self._track, request)

    async def _track(self, request: Callable[[], Awaitable[T]]) -> T:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._calls.add(task)
        try:
            return await request()
        finally:
            self._calls.discard(task)

    async def _aclose(self) -> None:
        loop = asyncio.get_running_loop()
        stopped = [call for call in self._calls if call.get_loop() is loop]  # others are of the process before a fork
        await self.client.aclose()
        await join(stopped, STOP_BOUND)  # each tells its thread how it ended, before the runtime goes


def create_agent_sync(
    model: AgentModel | None,
    *,
    config: AgentRunConfig | None = None,
    event_dispatcher: AgentEventDispatcher | None = None,
    runtime: SyncRuntime | None = None,
    **options: Unpack[AgentOptions],
) -> SyncAgent:
    """Make and initialize an agent for blocking code; as ``create_agent``, on ``runtime`` or on a thread of its own."""
    return SyncAgent(model, config=config, event_dispatcher=event_dispatcher, runtime=runtime, **options)


def to_sync(wrapped: object, *, runtime: SyncRuntime | None = None) -> SyncObject:
    """Any asynchronous object of this package, or another one, with methods that block; see ``SyncObject``."""
    return SyncObject(wrapped, runtime=runtime)


class BlockingModel(Protocol):
    """A model whose stream is a plain iterator."""

    def stream(self, request: ModelRequest) -> Iterable[ModelEvent]:
        """Answer ``request``, as ``AgentModel.stream`` does."""
        ...


_END: Final = object()


class SyncModelAdapter:
    """A blocking model as an AgentModel: each of its steps runs in a worker thread, and the event loop stays free.

    The steps of one answer run one after another in one context, not always in the same thread. A cancelled request
    waits at most ``stop_seconds`` for the step that runs, then closes the iterator. ``retry`` is the model's own, else
    it makes none.
    """

    def __init__(self, model: BlockingModel, *, stop_seconds: float = STOP_BOUND) -> None:
        self.model = model
        self.stop_seconds = stop_seconds
        self.retry: RetryOptions = getattr(model, "retry", RetryOptions(max_retries=0))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer ``request`` with what the blocking model yields."""
        context = copy_context()
        iterator = await self._in_thread(partial(context.run, lambda: iter(self.model.stream(request))))
        try:
            step = partial(context.run, next, iterator, _END)
            while (event := await self._in_thread(step)) is not _END:
                yield cast(ModelEvent, event)
        finally:
            close = getattr(iterator, "close", None)
            stuck = getattr(iterator, "gi_running", False)  # a generator whose step did not end cannot be closed
            if close is not None and not stuck:
                await self._in_thread(partial(context.run, close))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        work = start_task(_kept(shared_pool().run(function)), "a step of a blocking model")
        try:
            result, ended = await asyncio.shield(work)
        except asyncio.CancelledError:
            await join([work], self.stop_seconds)
            raise
        finally:
            work.cancel()
        if ended is not None:
            raise ended
        return cast(T, result)


async def _kept(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """What came of ``work``: an asyncio task that ended with one of these would end the loop, or who awaits it."""
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        return None, error
