"""``Agent.stop`` in its two strengths, and ``aclose``."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.engine.scenario import SESSION, add, lines, named, scene, spin
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentPhase
from zett_agent.exceptions import AgentCancelledError
from zett_agent.extensions.base import AgentExtension
from zett_agent.testing import EventRecorder, HookRecorder, call, stall, text


async def test_ui_04_stop_now_ends_the_stream_with_run_cancelled() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene([text("partial"), stall()], extensions=[hooks])
    outcome = await stage.play(recorder=EventRecorder().when("text_delta", lambda _: stage.agent.stop()))
    assert outcome.error is None
    assert outcome.phases == lines("""
        model_started [generating]
        content_started [generating]
        text_delta partial [generating]
        content_completed [generating]
        run_cancelled [cancelled]
    """)
    assert outcome.story == ["user hi", "assistant partial [interrupted]"]
    assert hooks.hooks[-1] == "on_model_request_end"


async def test_ui_02_stop_now_within_a_tool_shows_the_end_of_the_call() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    stage = await scene([call("wait", id="w")], tools=[named("wait", wait)])
    outcome = await stage.play(recorder=EventRecorder().when("tool_started", lambda _: stage.agent.stop(SESSION)))
    assert outcome.only("tool", "run") == ["tool_started wait(w)", "tool_failed wait(w)", "run_cancelled"]
    assert outcome.recorder.of("tool_failed")[0].message == outcome.messages[-1]


async def test_run_raises_a_typed_error_after_stop() -> None:
    stage = await scene([text("partial"), stall()])
    request = asyncio.create_task(stage.agent.run("hi"))
    await spin()
    assert stage.agent.stop() is True
    with pytest.raises(AgentCancelledError):
        await request
    assert stage.agent.stop() is False


async def test_stop_after_turn_lets_the_batch_end() -> None:
    hooks = HookRecorder(notifications=False)
    stage = await scene([call("add", id="a", left=1, right=1)], "never", tools=[add], extensions=[hooks])
    recorder = EventRecorder().when("tool_started", lambda _: stage.agent.stop(mode="after_turn"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.lines[-2:] == ["tool_completed add(a)", "run_cancelled"]
    assert outcome.story == ["user hi", "assistant -> add(a)", "tool a ok: 2"]
    assert hooks.hooks[-1] == "after_turn"
    assert (await stage.resume()).story[-1] == "assistant never"


async def test_stop_after_turn_lets_a_final_answer_complete_and_takes_no_further_input() -> None:
    stage = await scene("one")

    def act(event: object) -> None:
        stage.nudge("more")
        assert stage.agent.stop(mode="after_turn")

    outcome = await stage.play(recorder=EventRecorder().when("text_delta", act))
    assert outcome.lines[-1] == "run_completed"
    assert outcome.story == ["user hi", "assistant one"]
    assert outcome.recorder.custom("input_returned") != []


async def test_the_stronger_stop_follows_the_weaker_one() -> None:
    stage = await scene([text("x"), stall()])

    def act(event: object) -> None:
        stage.agent.stop(mode="after_turn")
        stage.agent.stop()

    outcome = await stage.play(recorder=EventRecorder().when("text_delta", act))
    assert outcome.lines[-1] == "run_cancelled"


async def test_stopping_twice_is_stopping_once() -> None:
    stage = await scene([text("x"), stall()])

    def act(event: object) -> None:
        assert stage.agent.stop() and stage.agent.stop()

    assert (await stage.play(recorder=EventRecorder().when("text_delta", act))).lines[-1] == "run_cancelled"


async def test_stop_names_one_request() -> None:
    stage = await scene([text("x"), stall()])
    seen: list[bool] = []

    def act(event: object) -> None:
        seen.append(stage.agent.stop(AgentRunConfig("other")))
        seen.append(stage.agent.stop(AgentRunConfig("s", "another request")))
        seen.append(stage.agent.stop(SESSION))

    await stage.play(recorder=EventRecorder().when("text_delta", act))
    assert seen == [False, False, True]


async def test_stop_refuses_an_unknown_mode_and_an_idle_session() -> None:
    stage = await scene()
    with pytest.raises(ValueError, match="after_turn"):
        stage.agent.stop(mode="later")  # type: ignore[arg-type]
    assert stage.agent.stop() is False


async def test_stop_works_from_another_thread() -> None:
    stage = await scene([text("x"), stall()])

    def act(event: object) -> None:
        thread = threading.Thread(target=stage.agent.stop)
        thread.start()
        thread.join()

    assert (await stage.play(recorder=EventRecorder().when("text_delta", act))).lines[-1] == "run_cancelled"


async def test_a_request_that_has_not_begun_is_cancelled_too() -> None:
    stage = await scene("never")
    request = asyncio.create_task(stage.agent.run("hi"))
    await asyncio.sleep(0)
    assert stage.agent.state.phase == "created"
    await stage.agent.aclose()
    with pytest.raises(AgentCancelledError):
        await request
    assert stage.agent.state.phase is AgentPhase.CANCELLED
    assert stage.model.requests == []


async def test_aclose_stops_every_request_and_closes_the_extensions() -> None:
    closed: list[str] = []

    class Closes(AgentExtension):
        async def close(self) -> None:
            closed.append(self.name)

    stage = await scene(*[[text("x"), stall()]] * 2, "again", extensions=[Closes()])
    requests = [
        asyncio.create_task(stage.agent.run("hi", config=AgentRunConfig(session_id))) for session_id in ("a", "b")
    ]
    await spin()
    await stage.agent.aclose()
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [AgentCancelledError] * 2
    assert closed == ["Closes"]
    assert (await stage.play()).story[-1] == "assistant again", "the agent stays usable"
