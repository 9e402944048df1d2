"""SyncAgent while one thread waits: answers, stops, interrupts, closes and drops from another."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from tests.sync.support import (
    SECONDS,
    Ask,
    Finished,
    Gate,
    answer,
    called,
    in_thread,
    interrupt_when,
    last_text,
    wait_for,
)
from zett_agent import (
    AgentCancelledError,
    AgentEvent,
    AgentEventDispatcher,
    AgentEventType,
    AgentRunConfig,
    SessionBusyError,
    SyncAgent,
    create_agent_sync,
)
from zett_agent.model import ModelRequest
from zett_agent.sync import SyncRuntime
from zett_agent.testing import FunctionModel, call, check_transcript
from zett_agent.testing.scripted import Piece

SESSION = AgentRunConfig(session_id="s")


def asking(request: ModelRequest) -> str | list[Piece]:
    return f"you said {last_text(request)}" if called(request) else [call("ask", id="q1")]


def waiting(gate: Gate) -> Callable[[ModelRequest], object]:
    """A model that stays in ``gate`` the first time, when its consumer waits for more; later it answers."""

    async def think() -> str:
        await gate()
        return "never"

    return lambda _: "at last" if gate.reached.is_set() else think()


def make(runtime: SyncRuntime | None, gate: Gate, finished: Finished | None = None) -> SyncAgent:
    extensions = None if finished is None else [finished]
    return create_agent_sync(FunctionModel(waiting(gate)), config=SESSION, runtime=runtime, extensions=extensions)  # type: ignore[arg-type]


def types(events: list[AgentEvent]) -> list[str]:
    return [event.type.value for event in events]


def test_another_thread_answers_while_a_stream_waits(runtime: SyncRuntime) -> None:
    agent = create_agent_sync(FunctionModel(asking), config=SESSION, extensions=[Ask()], runtime=runtime)
    asked = threading.Event()

    def consume() -> list[AgentEvent]:
        events = []
        for event in agent.stream("ask me"):
            events.append(event)
            if event.name == "question":
                asked.set()
        return events

    consumer = in_thread(consume)
    wait_for(asked)
    assert [wait.id for wait in agent.pending_waits()] == ["q1"]
    assert agent.emit_external_event(answer("q2", "wrong id"), config=SESSION) == []
    assert agent.emit_external_event(answer("q1", "blue"), config=SESSION) == ["Ask"]
    assert agent.emit_external_event(answer("q1", "too late"), config=SESSION) == []
    events = consumer.result(SECONDS)
    assert events[-1].message is not None
    assert events[-1].message.content == "you said blue"
    assert agent.pending_waits() == ()


def test_the_consumer_itself_may_answer_between_two_events(runtime: SyncRuntime) -> None:
    agent = create_agent_sync(FunctionModel(asking), config=SESSION, extensions=[Ask()], runtime=runtime)
    for event in agent.stream("ask me"):
        if event.name == "question":
            assert agent.emit_external_event(answer("q1", "red"), config=SESSION) == ["Ask"]
    state = agent.get_state("s")
    assert state is not None
    assert state.messages[-1].content == "you said red"


def test_stop_from_another_thread_ends_the_stream_with_run_cancelled(runtime: SyncRuntime) -> None:
    gate = Gate()
    agent = make(runtime, gate)
    consumer = in_thread(lambda: list(agent.stream("hi")))
    wait_for(gate.reached)
    assert agent.stop(SESSION)
    assert types(consumer.result(SECONDS))[-1] == "run_cancelled"
    assert not agent.stop(SESSION)
    assert agent.run("go on").content == "at last"


def test_stop_from_another_thread_makes_run_raise_agent_cancelled_error(runtime: SyncRuntime) -> None:
    gate = Gate()
    agent = make(runtime, gate)
    running = in_thread(lambda: agent.run("hi"))
    wait_for(gate.reached)
    assert agent.stop()
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)


def test_a_busy_session_is_refused_at_once_and_its_request_goes_on(runtime: SyncRuntime) -> None:
    gate = Gate()
    agent = make(runtime, gate)
    running = in_thread(lambda: agent.run("hi"))
    wait_for(gate.reached)
    with pytest.raises(SessionBusyError):
        agent.run("me too")
    assert not running.done()
    assert agent.run("elsewhere", config=AgentRunConfig(session_id="other")).content == "at last"
    agent.stop(SESSION)
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
def test_ctrl_c_stops_the_request_and_the_session_is_free_and_valid(runtime: SyncRuntime, streamed: bool) -> None:
    gate = Gate()
    agent = make(runtime, gate)
    interrupt_when(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        if streamed:
            list(agent.stream("hi"))
        else:
            agent.run("hi")
    assert gate.cancelled.is_set()
    assert not agent.wrapped.is_conflict("s")
    assert agent.run("go on").content == "at last"
    state = agent.get_state("s")
    assert state is not None
    check_transcript(state.messages)


def test_ctrl_c_within_the_block_of_an_agent_closes_it_all() -> None:
    gate = Gate()
    with pytest.raises(KeyboardInterrupt), make(None, gate) as agent:
        interrupt_when(gate.reached)
        agent.run("hi")
    assert agent.runtime.closed
    assert gate.cancelled.is_set()


def test_a_stream_that_is_dropped_stops_its_request(runtime: SyncRuntime) -> None:
    gate, finished = Gate(), Finished()
    agent = make(runtime, gate, finished)
    stream = agent.stream("hi")
    assert next(stream).type is AgentEventType.MODEL_STARTED
    assert agent.wrapped.is_conflict("s")
    del stream
    gc.collect()
    wait_for(finished.event)
    assert not agent.wrapped.is_conflict("s")


def test_breaking_out_of_the_loop_stops_the_request(runtime: SyncRuntime) -> None:
    gate, finished = Gate(), Finished()
    agent = make(runtime, gate, finished)
    for _ in agent.stream("hi"):
        break
    gc.collect()
    wait_for(finished.event)
    assert not agent.wrapped.pending


def test_closing_a_stream_from_another_thread_stops_its_request_and_ends_the_loop(runtime: SyncRuntime) -> None:
    gate, finished = Gate(), Finished()
    agent = make(runtime, gate, finished)
    stream = agent.stream("hi")
    consumer = in_thread(lambda: list(stream))
    wait_for(gate.reached)
    stream.close()
    assert finished.event.is_set()
    assert types(consumer.result(SECONDS)) == ["model_started"]


def test_close_ends_running_requests_of_an_agent_with_a_typed_outcome() -> None:
    agent = create_agent_sync(FunctionModel(lambda _: "never"))
    gates = [Gate(), Gate()]

    def model(gate: Gate) -> FunctionModel:
        return FunctionModel(waiting(gate))  # type: ignore[arg-type]

    running = in_thread(lambda: agent.run("a", model=model(gates[0]), config=AgentRunConfig(session_id="a")))
    streaming = in_thread(lambda: list(agent.stream("b", model=model(gates[1]), config=AgentRunConfig(session_id="b"))))
    for gate in gates:
        wait_for(gate.reached)
    agent.close()
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)
    assert types(streaming.result(SECONDS))[0] == "model_started"
    assert agent.runtime.closed


def test_close_lets_a_stopped_run_tell_its_outcome_however_long_the_dispatcher_takes() -> None:
    class Slow(AgentEventDispatcher):
        async def on_run_cancelled_event(self, event: AgentEvent) -> None:
            await asyncio.sleep(0.1)

    gate = Gate()
    agent = make(None, gate)
    agent.event_dispatcher = Slow()
    running = in_thread(lambda: agent.run("hi"))
    wait_for(gate.reached)
    agent.close()
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)


def test_close_does_not_wait_for_a_stream_that_nobody_reads() -> None:
    agent = make(None, Gate())
    stream = agent.stream("hi")
    next(stream)
    agent.close()
    assert list(stream) == []


def test_closing_the_runtime_itself_ends_a_run_with_cancelled_error() -> None:
    runtime, gate, finished = SyncRuntime(), Gate(), Finished()
    agent = make(runtime, gate, finished)
    running = in_thread(lambda: agent.run("hi"))
    wait_for(gate.reached)
    runtime.close()
    with pytest.raises(CancelledError):
        running.result(SECONDS)
    assert finished.event.is_set()


def test_an_agent_that_is_dropped_ends_its_thread() -> None:
    agent = create_agent_sync(FunctionModel(lambda _: "hi"))
    thread = agent.runtime.call(threading.current_thread)
    assert agent.run("hi").content == "hi"
    del agent
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_stream_keeps_the_runtime_of_its_agent_alive() -> None:
    stream = create_agent_sync(FunctionModel(lambda _: "hi")).stream("hi")
    gc.collect()
    assert types(list(stream))[-1] == "run_completed"
