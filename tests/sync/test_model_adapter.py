"""SyncModelAdapter: a model that blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar

import pytest

from tests.sync.support import SECONDS, Finished, in_thread, wait_for
from zett_agent import AgentCancelledError, AgentRunConfig, AssistantMessage, create_agent_sync
from zett_agent.model import AgentModel, ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.sync import SyncModelAdapter, SyncRuntime

WHO: ContextVar[str] = ContextVar("who", default="nobody")
SESSION = AgentRunConfig(session_id="s")


def response(text: str) -> ModelEvent:
    return ModelEvent.completed(ModelResponse(AssistantMessage(content=text)))


class Blocking:
    """A blocking model made of a generator function."""

    def __init__(self, function: Callable[[], Iterable[ModelEvent]]) -> None:
        self.function = function

    def stream(self, request: ModelRequest) -> Iterable[ModelEvent]:
        return self.function()


def test_a_blocking_model_answers_from_worker_threads_in_one_context(runtime: SyncRuntime) -> None:
    threads: set[str] = set()

    def answer() -> Iterator[ModelEvent]:
        for word in ("so ", "it ", "is"):
            threads.add(threading.current_thread().name)
            yield ModelEvent.text(word)
            WHO.set(WHO.get() + word)
        yield response(f"so it is {WHO.get()}")

    token = WHO.set("u1:")
    adapter = SyncModelAdapter(Blocking(answer))
    assert isinstance(adapter, AgentModel)
    assert create_agent_sync(adapter, runtime=runtime).run("hi").content == "so it is u1:so it is"
    assert WHO.get() == "u1:"
    WHO.reset(token)
    assert threads
    assert "zett-agent-sync" not in threads


def test_the_loop_stays_free_while_a_step_blocks(runtime: SyncRuntime) -> None:
    inside, unblock = threading.Event(), threading.Event()

    def answer() -> Iterator[ModelEvent]:
        inside.set()
        wait_for(unblock)
        yield response("done")

    running = in_thread(lambda: create_agent_sync(SyncModelAdapter(Blocking(answer)), runtime=runtime).run("hi"))
    wait_for(inside)
    assert runtime.call(asyncio.sleep, 0, "free") == "free"
    unblock.set()
    assert running.result(SECONDS).content == "done"


def test_what_is_no_generator_need_not_be_closed(runtime: SyncRuntime) -> None:
    adapter = SyncModelAdapter(Blocking(lambda: [response("listed")]))
    assert create_agent_sync(adapter, runtime=runtime).run("hi").content == "listed"


def test_an_error_of_the_model_is_the_errors_of_the_run(runtime: SyncRuntime) -> None:
    def answer() -> Iterator[ModelEvent]:
        yield ModelEvent.text("half")
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken") as caught:
        create_agent_sync(SyncModelAdapter(Blocking(answer)), runtime=runtime).run("hi")
    assert caught.traceback[-1].name == "answer"


def test_retry_is_the_models_own_or_none() -> None:
    plain, own = Blocking(list), Blocking(list)
    own.retry = RetryOptions(max_retries=7)  # type: ignore[attr-defined]
    assert SyncModelAdapter(plain).retry.max_retries == 0
    assert SyncModelAdapter(own).retry.max_retries == 7


def test_a_stopped_request_waits_for_the_step_that_runs_and_closes_the_iterator(runtime: SyncRuntime) -> None:
    inside, unblock, notes = threading.Event(), threading.Event(), list[str]()

    def answer() -> Iterator[ModelEvent]:
        try:
            inside.set()
            wait_for(unblock)
            notes.append("step")
            yield response("never")
        finally:
            notes.append(f"closed in a worker: {threading.current_thread().name != 'zett-agent-sync'}")

    finished = Finished()
    model = SyncModelAdapter(Blocking(answer))
    agent = create_agent_sync(model, config=SESSION, extensions=[finished], runtime=runtime)
    running = in_thread(lambda: agent.run("hi"))
    wait_for(inside)
    assert agent.stop()
    runtime.call(asyncio.sleep, 0)
    assert not finished.event.is_set()
    unblock.set()
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)
    assert notes == ["step", "closed in a worker: True"]


def test_a_step_that_does_not_end_is_left_behind_after_the_bound(
    runtime: SyncRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    inside, unblock = threading.Event(), threading.Event()

    def answer() -> Iterator[ModelEvent]:
        inside.set()
        wait_for(unblock)
        yield response("never")

    model = SyncModelAdapter(Blocking(answer), stop_seconds=0.02)
    agent = create_agent_sync(model, config=SESSION, runtime=runtime)
    running = in_thread(lambda: agent.run("hi"))
    wait_for(inside)
    assert agent.stop()
    with pytest.raises(AgentCancelledError):
        running.result(SECONDS)
    assert "a step of a blocking model did not stop within 0.02 seconds" in caplog.text
    unblock.set()
