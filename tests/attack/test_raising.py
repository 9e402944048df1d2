"""Extensions and tools that raise what passes every handler: one session pays for it, nobody else."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest

from tests.engine.scenario import SESSION, Scene, add, scene, story
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent
from zett_agent.messages import ToolMessage
from zett_agent.testing import EventRecorder, ScriptedModel, call, check_transcript, error, text
from zett_agent.tools.base import tool


class Odd(BaseException):
    """What no ``except Exception`` catches."""


HOOKS = [
    *("on_tool", "on_state", "on_message", "before_run", "before_turn", "before_model", "on_model_request"),
    *("after_model", "before_tool", "after_tool", "after_turn", "after_run", "on_success", "on_event"),
]


def raising(hook: str, failure: BaseException, *, plain: bool = False) -> AgentExtension:
    async def fail(*arguments: Any) -> None:
        raise failure

    async def fail_streaming(*arguments: Any) -> Any:
        raise failure
        yield None

    def fail_at_once(*arguments: Any) -> None:
        raise failure

    extension = AgentExtension()
    streaming = hook == "on_model_request"
    setattr(extension, hook, fail_at_once if plain else fail_streaming if streaming else fail)
    return extension


async def calling(*extensions: AgentExtension) -> Scene:
    return await scene([text("a"), call("add", id="a", left=1, right=1)], "done", tools=[add], extensions=extensions)


@pytest.mark.parametrize("failure", [SystemExit(3), Odd("odd")], ids=["SystemExit", "Odd"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_rule_7_a_hook_that_would_end_the_event_loop_fails_its_request(hook: str, failure: BaseException) -> None:
    stage = await calling(raising(hook, failure))
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentProtocolError) and outcome.error.__cause__ is failure
    assert outcome.lines[-1] == "run_failed AgentProtocolError"
    assert stage.agent.state.phase is AgentPhase.FAILED and not stage.agent.pending


async def test_ctrl_c_within_a_hook_closes_the_history_and_reaches_the_caller() -> None:
    stage = await calling(raising("after_model", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        await stage.agent.run("hi")
    stage.check_messages()
    assert stage.agent.state.phase is AgentPhase.FAILED and not stage.agent.pending


def test_ctrl_c_within_a_tool_ends_the_loop_and_leaves_the_history_whole() -> None:
    @tool
    async def interrupted() -> None:
        """Is interrupted."""
        raise KeyboardInterrupt

    async def main() -> None:
        agents.append(await Agent.create(ScriptedModel([call("interrupted"), call("add")]), tools=[interrupted, add]))
        await agents[0].run("hi")

    agents: list[Agent] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    check_transcript(agents[0].state.messages)
    assert not agents[0].pending


@pytest.mark.parametrize("failure", [ValueError("second"), SystemExit(3), Odd("odd")], ids=repr)
async def test_rule_7_on_error_cannot_take_the_outcome_away(failure: BaseException) -> None:
    original = RuntimeError("first")
    stage = await scene(error(original), extensions=[raising("on_error", failure)])
    outcome = await stage.play()
    assert outcome.error is original and outcome.lines[-1] == "run_failed RuntimeError"
    assert original.__notes__ == [f"on_error failed while the request was closing: {type(failure).__name__}: {failure}"]


async def test_an_error_that_cannot_say_what_it_is_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    @tool
    async def mute() -> None:
        """Fail without words."""
        raise Mute

    stage = await scene([call("mute", id="m")], "done", tools=[mute])
    assert (await stage.play()).story[2:] == ["tool m failed: Mute", "assistant done"]


@pytest.mark.parametrize("limit", [None, 5.0])
async def test_rule_7_a_tool_that_exits_ends_itself_also_within_a_timeout(limit: float | None) -> None:
    @tool(timeout=limit)
    async def quits() -> None:
        """Exit."""
        sys.exit(3)

    @tool(timeout=limit)
    def quits_in_a_thread() -> None:
        """Exit."""
        sys.exit(4)

    @tool(timeout=limit)
    async def odd() -> None:
        """Be odd."""
        raise Odd("odd")

    calls = [call("quits", id="a"), call("quits_in_a_thread", id="b"), call("odd", id="c")]
    stage = await scene(calls, "done", tools=[quits, quits_in_a_thread, odd])
    results = [message.text for message in (await stage.play()).messages if isinstance(message, ToolMessage)]
    assert results == ["SystemExit: 3", "SystemExit: 4", "Odd: odd"]


async def test_two_calls_that_fail_at_once_leave_no_error_unseen() -> None:
    unseen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    stage = await scene(
        [call("add", id="a"), call("add", id="b")], tools=[add], extensions=[raising("after_tool", Odd())]
    )
    await stage.play()
    assert unseen == []


async def test_request_started_that_raises_does_not_keep_the_session_busy() -> None:
    extension = raising("request_started", ValueError("no"), plain=True)
    stage = await calling(extension)
    with pytest.raises(ValueError, match="no"):
        await stage.agent.run("hi")
    assert not stage.agent.pending and stage.agent.state.phase is AgentPhase.FAILED


class Books(AgentExtension):
    """Notes what it is told for its bookkeeping."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def request_finished(self, context: AgentRunContext) -> None:
        self.told.append("finished")

    def forget(self, session_id: str) -> None:
        self.told.append("forget")

    async def close(self) -> None:
        self.told.append("close")


@pytest.mark.parametrize("failure", [ValueError("x"), asyncio.CancelledError(), SystemExit(3)], ids=repr)
async def test_rule_7_request_finished_that_raises_changes_no_outcome_and_keeps_nobody_uninformed(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    books = Books()
    stage = await calling(raising("request_finished", failure, plain=True), books)
    with caplog.at_level(logging.WARNING, "zett_agent"):
        assert (await stage.agent.run("hi")).content == "done"
    assert books.told == ["finished"] and "must not" in caplog.text


async def test_closing_and_forgetting_reach_every_extension_whatever_one_of_them_raises() -> None:
    books = Books()
    stage = await calling(raising("close", ValueError("no")), books)
    with pytest.raises(ValueError, match="no"):
        await stage.agent.aclose()
    forgetful, books.name = raising("forget", ValueError("neither"), plain=True), "books"
    stage = await calling(forgetful, books)
    with pytest.raises(ValueError, match="neither"):
        stage.agent.forget("s")
    assert books.told == ["close", "forget"]


async def test_a_listener_that_raises_while_a_request_is_cancelled_still_lets_it_end_once() -> None:
    class Breaks(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: Any) -> None:
            if not isinstance(event, MessageAppendedEvent):
                return
            if isinstance(event.message, ToolMessage):
                raise Odd("late")

    @tool
    async def stopped() -> None:
        """Stop the request."""
        stage.agent.stop(SESSION)
        await asyncio.Event().wait()

    stage = await scene([call("stopped", id="x")], tools=[stopped], extensions=[Breaks()])
    recorder = await EventRecorder().record(stage.agent.stream("hi"))
    assert recorder.events[-1].type is AgentEventType.RUN_CANCELLED
    assert len(story(stage.agent.state.messages)) == 3


async def test_rule_1_a_call_that_somebody_cancels_before_its_first_step_fails_the_request_and_is_closed() -> None:
    @tool
    async def alone() -> str:
        """Cancel the others."""
        for task in asyncio.all_tasks():
            if task.get_name() == "zett call b":
                task.cancel()
        return "alone"

    stage = await scene([call("alone", id="a"), call("add", id="b", left=1, right=1)], "never", tools=[alone, add])
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentProtocolError) and "CancelledError" in str(outcome.error)
    assert outcome.story[-2:] == ["tool a ok: alone", "tool b failed: Not run: the request was stopped first."]
