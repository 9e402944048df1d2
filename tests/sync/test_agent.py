"""SyncAgent: the methods, their types of result, and the dispatcher (LOOP-01, LOOP-02, LOOP-05, core-63)."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from tests.sync.support import called, last_text
from zett_agent import (
    Agent,
    AgentEvent,
    AgentEventDispatcher,
    AgentEventType,
    AgentExtension,
    AgentMessage,
    AgentRunConfig,
    AgentRunContext,
    AssistantMessage,
    SyncAgent,
    ToolContext,
    create_agent_sync,
    tool,
)
from zett_agent.events import CompactionEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.model import ModelRequest
from zett_agent.sync import SyncRuntime, SyncStream
from zett_agent.testing import FunctionModel, ScriptedModel, call, error, text

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def echo(request: ModelRequest) -> AssistantMessage:
    return AssistantMessage(content=f"echo {last_text(request)}")


@pytest.fixture
def agent(runtime: SyncRuntime) -> Iterator[SyncAgent]:
    with create_agent_sync(FunctionModel(echo), runtime=runtime) as agent:
        yield agent


def session(name: str) -> AgentRunConfig:
    return AgentRunConfig(session_id=name)


def test_loop_01_run_works_three_times_in_a_row(agent: SyncAgent) -> None:
    assert [agent.run(word, config=session("s")).content for word in "abc"] == ["echo a", "echo b", "echo c"]
    state = agent.get_state("s")
    assert state is not None
    assert [message.role.value for message in state.messages] == ["system", *["user", "assistant"] * 3]


def test_loop_01_one_async_agent_works_in_loop_after_loop() -> None:
    agent = Agent(FunctionModel(echo))

    async def once(word: str) -> str:
        await agent.initialize()
        return (await agent.run(word)).content

    assert [asyncio.run(once(word)) for word in "ab"] == ["echo a", "echo b"]


def test_loop_01_a_sync_run_inside_a_coroutine_works(agent: SyncAgent) -> None:
    async def notebook() -> str:
        return agent.run("cell").content

    assert asyncio.run(notebook()) == "echo cell"


def test_loop_01_four_threads_share_an_agent(agent: SyncAgent) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda name: agent.run(name, config=session(name)).content, "abcd")
    assert list(answers) == ["echo a", "echo b", "echo c", "echo d"]


def test_loop_01_agents_with_runtimes_of_their_own_do_not_meet() -> None:
    with SyncAgent(FunctionModel(echo)) as one, SyncAgent(FunctionModel(echo)) as other:
        assert one.runtime is not other.runtime
        assert (one.run("a").content, other.run("b").content) == ("echo a", "echo b")


def test_loop_02_hooks_and_tools_see_the_callers_context_and_siblings_do_not_mix(runtime: SyncRuntime) -> None:
    hooked: list[str] = []

    class Hook(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            hooked.append(f"{context.session_id}:{WHO.get()}")

    def peek() -> str:
        """Look, then spoil it for others."""
        found = WHO.get()
        WHO.set("spoilt")
        return found

    async def apeek() -> str:
        """Look, then spoil it for others."""
        return peek()

    tools = [tool(function, guidelines="Look.") for function in (peek, apeek)]

    def model(request: ModelRequest) -> object:
        if called(request):
            return " ".join(last_text_of.text for last_text_of in request.messages[-4:])  # type: ignore[union-attr]
        return [call("peek"), call("apeek"), call("peek"), call("apeek")]

    agent = create_agent_sync(FunctionModel(model), tools=tools, extensions=[Hook()], runtime=runtime)  # type: ignore[arg-type]
    together = threading.Barrier(2)

    def user(name: str) -> str:
        WHO.set(name)
        together.wait()
        content = agent.run("who?", config=session(name)).content
        assert WHO.get() == name
        return content

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(user, ["u1", "u2"]))
    assert answers == ["u1 u1 u1 u1", "u2 u2 u2 u2"]
    assert sorted(hooked) == ["u1:u1", "u2:u2"]


def test_loop_05_fifty_runs_from_eight_threads_keep_their_own_session(runtime: SyncRuntime) -> None:
    @tool(guidelines="Say who you are.")
    async def whoami(context: ToolContext) -> str:
        """The session."""
        await asyncio.sleep(random.random() / 100)
        return context.session_id

    def model(request: ModelRequest) -> object:
        return last_text(request) if called(request) else [call("whoami")]

    agent = create_agent_sync(FunctionModel(model), tools=[whoami], runtime=runtime)  # type: ignore[arg-type]
    names = [f"session {number}" for number in range(50)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: agent.run("who?", config=session(name)).content, names))
    assert answers == names
    assert not agent.wrapped.pending


def test_stream_yields_the_events_of_the_async_stream(agent: SyncAgent) -> None:
    stream = agent.stream("hi")
    assert isinstance(stream, SyncStream)
    events = list(stream)
    assert "".join(event.delta for event in events) == "echo hi"
    assert (events[0].type, events[-1].type) == (AgentEventType.MODEL_STARTED, AgentEventType.RUN_COMPLETED)


def test_run_options_reach_the_request(agent: SyncAgent) -> None:
    other = ScriptedModel([text("other")])
    assert agent.run("hi", model=other, metadata={"a": 1}, config=session("s")).content == "other"
    with pytest.raises(ValueError, match="tags"):
        agent.run("hi", tags={" ": 1})


def test_an_error_of_the_model_keeps_its_type_and_traceback_in_run_and_stream(runtime: SyncRuntime) -> None:
    class Broken(Exception):
        pass

    failures = [Broken("one"), Broken("two")]
    agent = create_agent_sync(ScriptedModel([error(failures[0])], [text("half"), error(failures[1])]), runtime=runtime)
    with pytest.raises(Broken) as caught:
        agent.run("hi")
    assert caught.value is failures[0]
    assert "play" in [entry.name for entry in caught.traceback]
    seen: list[AgentEventType] = []
    with pytest.raises(Broken, match="two"):
        seen.extend(event.type for event in agent.stream("hi"))
    assert not agent.wrapped.pending


def test_resume_goes_on_where_the_session_stopped(runtime: SyncRuntime) -> None:
    model = ScriptedModel([error(LookupError("down"))], [text("up again")], [error(LookupError("down"))], [text("yes")])
    with model, create_agent_sync(model, runtime=runtime) as agent:
        assert agent.resume_point() is None
        with pytest.raises(LookupError):
            agent.run("hi")
        assert agent.resume_point() is not None
        assert agent.resume().content == "up again"
        with pytest.raises(LookupError):
            agent.run("and now?")
        assert [event.type for event in agent.stream_resume()][-1] is AgentEventType.RUN_COMPLETED


def test_internal_messages_start_requests_too(agent: SyncAgent) -> None:
    agent.run("hi")
    with agent.stream_internal(AgentMessage(content="wake up"), model=ScriptedModel([text("awake")])) as events:
        assert [event.type for event in events][-1] is AgentEventType.RUN_COMPLETED
    answer = agent.run_internal(AgentMessage(content="again"), model=ScriptedModel([text("still awake")]))
    assert answer.content == "still awake"


class Compacting(AgentExtension):
    """Compacts when it is asked to."""

    async def on_compact(self, context: AgentRunContext) -> None:
        done = CompactionEvent(1, 2, 3, 2, "in short")
        await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, context.session_id))
        await context.emit(
            AgentEvent(AgentEventType.COMPACTION_COMPLETED, context.session_id, compaction=done, applied=True)
        )


class Listener(AgentEventDispatcher):
    """Notes what is dispatched, and where."""

    def __init__(self) -> None:
        self.seen: list[AgentEventType] = []
        self.threads: set[str] = set()

    async def dispatch(self, event: AgentEvent) -> None:
        self.seen.append(event.type)
        self.threads.add(threading.current_thread().name)
        await super().dispatch(event)


def test_core_63_compact_goes_through_the_dispatcher_and_returns_the_last_summary(runtime: SyncRuntime) -> None:
    listener = Listener()
    extensions = [InMemoryMessageAccumulator(), Compacting()]
    agent = create_agent_sync(FunctionModel(echo), extensions=extensions, event_dispatcher=listener, runtime=runtime)
    agent.run("hi")
    listener.seen.clear()
    done = agent.compact()
    assert done is not None
    assert done.summary == "in short"
    assert listener.seen == [AgentEventType.COMPACTION_STARTED, AgentEventType.COMPACTION_COMPLETED]


def test_core_63_compact_returns_none_when_there_was_nothing_to_do(agent: SyncAgent) -> None:
    assert agent.compact() is None


def test_the_dispatcher_gets_each_event_before_the_consumer_on_the_runtimes_thread(runtime: SyncRuntime) -> None:
    listener = Listener()
    agent = create_agent_sync(FunctionModel(echo), runtime=runtime)
    assert agent.event_dispatcher is None
    agent.event_dispatcher = listener
    for number, event in enumerate(agent.stream("hi"), 1):
        assert listener.seen[number - 1] is event.type
        assert len(listener.seen) == number
    assert listener.threads == {"zett-agent-sync"}


def test_a_failing_dispatcher_stops_the_request_and_its_error_is_raised(runtime: SyncRuntime) -> None:
    class Failing(AgentEventDispatcher):
        async def on_text_delta_event(self, event: AgentEvent) -> None:
            raise LookupError("listener")

    agent = create_agent_sync(FunctionModel(echo), event_dispatcher=Failing(), runtime=runtime)
    with pytest.raises(LookupError, match="listener"):
        agent.run("hi")
    assert not agent.wrapped.pending


def test_a_sync_tool_may_run_another_session_of_its_own_agent(runtime: SyncRuntime) -> None:
    agents: list[SyncAgent] = []

    @tool(guidelines="Delegate.")
    def delegate() -> str:
        """Ask the same agent, in another session."""
        return agents[0].run("inner", config=session("inner")).content

    def model(request: ModelRequest) -> object:
        if called(request) or last_text(request) == "inner":
            return f"<{last_text(request)}>"
        return [call("delegate")]

    agents.append(create_agent_sync(FunctionModel(model), tools=[delegate], runtime=runtime))  # type: ignore[arg-type]
    assert agents[0].run("outer").content == "<<inner>>"


def test_an_async_tool_that_blocks_on_its_own_agent_is_told_what_to_do_instead(runtime: SyncRuntime) -> None:
    agents: list[SyncAgent] = []

    @tool(guidelines="Delegate.")
    async def delegate() -> str:
        """Ask the same agent in a way that cannot work."""
        return agents[0].run("inner", config=session("inner")).content

    def model(request: ModelRequest) -> object:
        return last_text(request) if called(request) else [call("delegate")]

    agents.append(create_agent_sync(FunctionModel(model), tools=[delegate], runtime=runtime))  # type: ignore[arg-type]
    assert "await the async object instead" in agents[0].run("outer").content


def test_attributes_of_the_agent_pass_through_both_ways(agent: SyncAgent) -> None:
    other = FunctionModel(lambda _: "other")
    assert agent.max_iterations == 36  # type: ignore[attr-defined]
    agent.model = other  # type: ignore[attr-defined]
    assert agent.wrapped.model is other
    assert agent.run("hi").content == "other"
    assert agent.is_conflict("s") is False  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no_such_thing"):
        agent.no_such_thing  # type: ignore[attr-defined]  # noqa: B018


def test_bad_options_are_refused_before_there_is_a_thread() -> None:
    threads = threading.active_count()
    with pytest.raises(ValueError, match="max_iterations"):
        create_agent_sync(None, max_iterations=0)
    assert threading.active_count() == threads


def test_the_config_names_the_default_session(runtime: SyncRuntime) -> None:
    agent = create_agent_sync(FunctionModel(echo), config=session("mine"), runtime=runtime)
    assert {event.session_id for event in agent.stream("hi")} == {"mine"}


def test_a_closed_agent_with_a_runtime_of_its_own_refuses_to_run() -> None:
    agent = create_agent_sync(FunctionModel(echo))
    agent.close()
    agent.close()
    with pytest.raises(RuntimeError, match="closed"):
        agent.run("hi")


def test_closing_an_agent_leaves_a_shared_runtime_open_and_closes_the_extensions(runtime: SyncRuntime) -> None:
    closed: list[str] = []

    class Held(AgentExtension):
        async def close(self) -> None:
            closed.append(threading.current_thread().name)

    agent = create_agent_sync(FunctionModel(echo), extensions=[Held()], runtime=runtime)
    agent.close()
    agent.close()
    assert closed == ["zett-agent-sync"]
    assert not runtime.closed


def test_an_agent_whose_runtime_was_closed_has_nothing_left_to_close() -> None:
    runtime = SyncRuntime()
    agent = create_agent_sync(FunctionModel(echo), runtime=runtime)
    runtime.close()
    agent.close()


def test_closing_from_a_hook_is_refused(runtime: SyncRuntime) -> None:
    agent = create_agent_sync(FunctionModel(echo), runtime=runtime)
    with pytest.raises(RuntimeError, match="own thread"):
        runtime.call(agent.close)
    assert agent.run("hi").content == "echo hi"


def test_an_extension_that_closes_its_agent_while_that_closes_is_refused_and_nothing_hangs() -> None:
    agents: list[SyncAgent] = []

    class Eager(AgentExtension):
        async def close(self) -> None:
            agents[0].close()

    agents.append(create_agent_sync(FunctionModel(echo), extensions=[Eager()]))
    with pytest.raises(RuntimeError, match="own thread"):
        agents[0].close()
    assert agents[0].runtime.closed


def test_an_error_of_an_extension_that_closes_is_raised_and_the_runtime_is_ended_all_the_same() -> None:
    class Held(AgentExtension):
        async def close(self) -> None:
            raise LookupError("cannot close")

    agent = create_agent_sync(FunctionModel(echo), extensions=[Held()])
    with pytest.raises(LookupError, match="cannot close"):
        agent.close()
    assert agent.runtime.closed
