"""The agent: what it is made of, which sessions are busy, and how an application gets in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from typing import Any, Literal, Self, TypedDict

from typing_extensions import Unpack

from zett_agent._checks import boolean, instance, time_limit, whole_number
from zett_agent._runtime.assembly import RequestOptions, assemble
from zett_agent._runtime.bridge import SyncObject, SyncRuntime
from zett_agent._runtime.equipment import Lineup, checked_model, checked_store, default_extensions, tools_by_name
from zett_agent._runtime.execute import finished, leaving, produce, stop_requests
from zett_agent._runtime.hooks import HookChain, tell
from zett_agent._runtime.opening import Compaction, FreshInput, Inspection, InternalInput, Resumption, Start
from zett_agent._runtime.phase import PhaseMachine
from zett_agent._runtime.resumption import ResumePoint
from zett_agent._runtime.run import Run
from zett_agent._runtime.sessions import Sessions
from zett_agent._runtime.transcript import Transcript
from zett_agent.config import AgentRunConfig, checked_config
from zett_agent.context import AgentRunContext, AgentState
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentCancelledError, AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage, copy_user_message
from zett_agent.model import AgentModel, ReasoningEffort
from zett_agent.storage.base import SessionStore
from zett_agent.tools.base import AgentTool
from zett_agent.waits import ExternalEvent, Wait

__all__ = ["Agent", "AgentRunConfig", "AgentRunContext", "AgentState", "RunOptions"]

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."


class RunOptions(TypedDict, total=False):
    """The keyword options of every request; what is left out or None comes from the agent.

    ``on_wait="hold"``: a request whose calls wait stays in memory until they are answered. ``deadline=math.inf`` lifts
    the agent's. What a limit leaves is told by AgentLimitError, and ``resume`` goes on.
    """

    config: AgentRunConfig | None
    model: AgentModel | None
    reasoning_effort: ReasoningEffort | None
    parallel_tool_call: bool | None
    metadata: Mapping[str, Any] | None
    tags: Mapping[str, Any] | None
    on_wait: Literal["hold"]
    max_iterations: int | None
    max_total_iterations: int | None
    deadline: float | None
    deadline_counts_waits: bool | None
    final_turn: bool | None


class AgentOptions(TypedDict, total=False):
    """The keyword options of ``Agent``."""

    system_prompt: str
    tools: Sequence[AgentTool]
    extensions: Sequence[AgentExtension] | None
    reasoning_effort: ReasoningEffort
    parallel_tool_call: bool
    max_iterations: int
    max_internal_messages: int
    max_total_iterations: int | None
    max_parallel_calls: int
    max_repeats: int | None
    max_result_chars: int
    deadline: float | None
    deadline_counts_waits: bool
    final_turn: bool
    store: SessionStore | None


class Agent:
    """A model with tools and extensions; one object serves any number of sessions at once.

    ``max_iterations`` bounds the model calls for one input, ``max_total_iterations`` those of a whole request
    (default four times as many), ``max_internal_messages`` the internal messages a request takes (0 refuses them),
    ``max_parallel_calls`` the handlers that run at once, ``max_repeats`` how often a call may come back without
    progress, ``max_result_chars`` the text of one tool result. A request gets ``deadline`` seconds, while it waits for
    people only with ``deadline_counts_waits``; ``final_turn`` gives the model a last word at another limit.
    ``extensions=None`` means memory and tool guidelines; a sequence replaces those. With a ``store`` requests are
    logged there, and sessions restored from it. Bad options raise ValueError.
    """

    #: Times in a row that a paused answer is continued within its turn.
    max_pause_continuations = 5

    def __init__(
        self,
        model: AgentModel | None,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        tools: Sequence[AgentTool] = (),
        extensions: Sequence[AgentExtension] | None = None,
        reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM,
        parallel_tool_call: bool = True,
        max_iterations: int = 36,
        max_internal_messages: int = 8,
        max_total_iterations: int | None = None,
        max_parallel_calls: int = 64,
        max_repeats: int | None = None,
        max_result_chars: int = 200_000,
        deadline: float | None = None,
        deadline_counts_waits: bool = False,
        final_turn: bool = False,
        store: SessionStore | None = None,
    ) -> None:
        self.model = checked_model(model)
        self.system_prompt = instance("system_prompt", system_prompt, str)
        self.reasoning_effort = ReasoningEffort(reasoning_effort)
        self.parallel_tool_call = boolean("parallel_tool_call", parallel_tool_call)
        self.max_iterations = whole_number("max_iterations", max_iterations, 1)
        self.max_internal_messages = whole_number("max_internal_messages", max_internal_messages, 0)
        total = 4 * max_iterations if max_total_iterations is None else max_total_iterations
        self.max_total_iterations = whole_number("max_total_iterations", total, 1)
        self._total_follows = max_total_iterations is None
        self.max_parallel_calls = whole_number("max_parallel_calls", max_parallel_calls, 1)
        self.max_repeats = None if max_repeats is None else whole_number("max_repeats", max_repeats, 1)
        self.max_result_chars = whole_number("max_result_chars", max_result_chars, 1)
        self.deadline = time_limit("deadline", deadline)
        self.deadline_counts_waits = boolean("deadline_counts_waits", deadline_counts_waits)
        self.final_turn = boolean("final_turn", final_turn)
        self.tools = tools_by_name(tools)
        self._store = checked_store(store)
        self._sessions = Sessions()
        own = default_extensions(has_store=store is not None) if extensions is None else extensions
        self._lineup = Lineup(self, own, self._sessions.inbox)
        #: The state of the request that was started last; with several sessions at once use ``get_state``.
        self.state = AgentState(Transcript(), PhaseMachine())

    @property
    def hooks(self) -> HookChain:
        """Its extensions, with their hooks bound."""
        return self._lineup.hooks

    @property
    def extensions(self) -> tuple[AgentExtension, ...]:
        """The extensions in the order in which they are called."""
        return self.hooks.extensions

    @classmethod
    async def create(
        cls, model: AgentModel | None, *, config: AgentRunConfig | None = None, **options: Unpack[AgentOptions]
    ) -> Self:
        """Construct and initialize; ``options`` are those of the constructor."""
        agent = cls(model, **options)
        await agent.initialize(config=config)
        return agent

    async def initialize(self, *, config: AgentRunConfig | None = None) -> None:
        """Bind the default session (a new one unless ``config`` names it); AgentProtocolError when another is bound."""
        self._sessions.bind(checked_config(config))

    @property
    def pending(self) -> bool:
        """True while any request is active."""
        return bool(self._sessions.active)

    def is_conflict(self, session_id: str) -> bool:
        """True while the session has a request; ValueError for a blank id."""
        return self._sessions.is_busy(session_id)

    def get_state(self, session_id: str) -> AgentState | None:
        """The state of the session's request, active or (for the last 64) ended."""
        return self._sessions.state(session_id)

    def sync(self, *, runtime: SyncRuntime | None = None) -> SyncObject:
        """The same object with methods that block, for code without ``async``; see ``zett_agent.sync``."""
        return SyncObject(self, runtime=runtime)

    def add_extension(self, extension: AgentExtension) -> None:
        """Call ``extension``, too, from the next request on; ValueError as in the constructor, nothing changed then."""
        self._lineup.add(extension)

    def remove_extension(self, name: str) -> AgentExtension:
        """Call the extension of that name no more, and return it: closing it is the caller's.

        ValueError when there is none or it is built in; AgentProtocolError while a request is active, or while it has
        open questions, since their answers could not reach it.
        """
        return self._lineup.remove(name)

    def forget(self, session_id: str) -> None:
        """Drop what the agent and its extensions keep of a session, not its log; SessionBusyError when it is busy."""
        self._sessions.forget(session_id)
        with ExitStack() as forgetting:  # each is told, whatever another one raises
            for extension in reversed(self.extensions):
                forgetting.callback(extension.forget, session_id)

    def stream(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """Send a message and yield what happens; an async generator, nothing happens before its first step.

        Closing it, or cancelling the task that iterates it, stops the request and waits for what it started.
        SessionBusyError when the session has a request; a failure of the request is raised after RUN_FAILED.
        """
        return self._events(message, _options(options))

    async def run(self, message: str | UserMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``stream``, returning the last answer; AgentCancelledError after ``stop()``."""
        return await drain(self.stream(message, **options))

    def stream_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """As ``stream``, from a machine's message: a way to wake an idle session."""
        return self._events(InternalInput(message), _options(options))

    async def run_internal(self, message: AgentMessage, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``run``, from a machine's message."""
        return await drain(self.stream_internal(message, **options))

    def stream_resume(self, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """Go on where the session stopped; AgentResumeError when there is nothing to go on with."""
        return self._events(Resumption(), _options(options))

    async def resume(self, **options: Unpack[RunOptions]) -> AssistantMessage:
        """As ``stream_resume``, returning the answer."""
        return await drain(self.stream_resume(**options))

    async def resume_point(self, **options: Unpack[RunOptions]) -> ResumePoint | None:
        """Where ``resume`` would go on, None when it could not; no model is called and nothing is stored."""
        look = Inspection()
        async for _ in self._events(look, _options(options)):
            pass
        return look.point

    def compact(self, **options: Unpack[RunOptions]) -> AsyncIterator[AgentEvent]:
        """Let the extensions compact the session now; yields their events, and nothing when there was nothing to do."""
        return self._events(Compaction(), _options(options))

    def emit_external_event(self, event: ExternalEvent, *, config: AgentRunConfig | None = None) -> list[str]:
        """Offer ``event`` to every extension and return the names of those that took it; safe from any thread.

        Without a config the one active request is meant (AgentProtocolError when there are several), else the session.
        """
        instance("event", event, ExternalEvent)
        route = self._sessions.route(checked_config(config))
        return [extension.name for extension in self.extensions if extension.accept(route, event)]

    def pending_waits(self, *, config: AgentRunConfig | None = None) -> tuple[Wait, ...]:
        """The open questions of a session and its subagents, or of all sessions; safe from any thread."""
        given = None if checked_config(config) is None else self._sessions.resolve(config).session_id
        runs = [run for run in self._sessions.active if given in (None, run.session_id)]
        found = [wait for run in runs for wait in run.waitbook.pending()]
        found += [wait for extension in self.extensions for wait in extension.open_waits(given)]
        return tuple({(wait.session_id, wait.id): wait for wait in found}.values())

    def stop(self, config: AgentRunConfig | None = None, *, mode: Literal["now", "after_turn"] = "now") -> bool:
        """Stop the session's request; False when it has none, or its outcome stands. Safe from any thread.

        Returns at once. ``now`` cancels what runs; ``after_turn`` lets the turn end first, and a final answer complete.
        The stream ends with RUN_CANCELLED and ``run()`` raises AgentCancelledError.
        """
        if mode not in ("now", "after_turn"):
            raise ValueError(f"mode must be 'now' or 'after_turn', not {mode!r}")
        run = self._sessions.find(checked_config(config))
        return run is not None and run.stop(after_turn=mode == "after_turn")

    async def aclose(self) -> None:
        """Stop every request and close every extension that has something to close; the agent stays usable.

        Requests on the event loops of other threads are stopped there. A tool or a hook of the agent that calls this is
        cancelled with its request.
        """
        async with AsyncExitStack() as closing:  # each is closed, whatever another one raises
            for extension in reversed(self.extensions):
                closing.push_async_callback(extension.close)
            await stop_requests(self._sessions.runs)

    async def _events(
        self, start: Start | str | UserMessage, options: RequestOptions
    ) -> AsyncGenerator[AgentEvent, None]:
        beginning = start if isinstance(start, Start) else _fresh(start)
        config = self._sessions.resolve(options.config)
        holder = self._sessions.holder(config)
        if holder is not None:
            await leaving(holder)
        run = self._open(config, beginning, options)
        channel = run.channel
        produce(run, beginning, self._store)  # owned by this generator: see ``finished``
        event: AgentEvent | None
        try:
            while await channel.more():
                for event in channel.take():
                    yield event
                event = None  # the wait for the next one may be long
        finally:
            try:
                await finished(run, beginning, self._store)
            finally:
                if run.lost or not run.elsewhere:
                    self._release(run)

    def _open(self, config: AgentRunConfig, start: Start, options: RequestOptions) -> Run:
        """Check everything, then claim the session."""
        run = assemble(self, config, start, options)
        lost = self._sessions.holder(config)
        if lost is not None and lost.lost:
            self._release(lost)
        self._sessions.claim(run)
        run.released = self._release
        self.state = run.context.state
        try:
            for started in run.hooks.request_started:
                started(run.context)
        except BaseException:
            run.phase.move(AgentPhase.FAILED)
            self._release(run)
            raise
        return run

    def _release(self, run: Run) -> None:
        """The request is over, or can never be: give the session free. A second time does nothing."""
        if not self._sessions.release(run):
            return
        ended = run.phase.ended
        if not ended:
            run.phase.move(AgentPhase.CANCELLED)
        tell(run.hooks.request_finished, run.context)
        if ended:
            run.let_go()


async def drain(stream: AsyncIterator[AgentEvent]) -> AssistantMessage:
    """Iterate a stream to its end; its terminal event is the outcome."""
    answer: AssistantMessage | None = None
    async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see ``stream``
        async for event in events:
            if event.type is AgentEventType.RUN_COMPLETED and isinstance(event.message, AssistantMessage):
                answer = event.message
            elif event.type is AgentEventType.RUN_CANCELLED:
                raise AgentCancelledError("the request was stopped")
    if answer is None:
        raise AgentProtocolError("the stream ended without an outcome")
    return answer


def _fresh(message: str | UserMessage) -> FreshInput:
    if isinstance(message, str):
        return FreshInput(UserMessage(content=message))
    if not isinstance(message, UserMessage):
        raise TypeError(f"message must be a string or a UserMessage, not {type(message).__name__}")
    return FreshInput(copy_user_message(message))


def _options(given: RunOptions) -> RequestOptions:
    unknown = given.keys() - RunOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(RunOptions.__annotations__)
        raise TypeError(f"a request has no option {', '.join(sorted(unknown))}; it takes {known}")
    return RequestOptions(**given)
