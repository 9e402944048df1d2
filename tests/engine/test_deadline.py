"""A deadline cancels whatever is in progress and is told as a limit; waiting for people does not count by default.

All in virtual time: the seconds are exact, and none passes.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.scenario import SESSION, Outcome, Scene, add, boom, lines, scene, spin
from tests.engine.virtual_time import in_virtual_time
from zett_agent._runtime.clock import CURRENT_CLOCK
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentDeadlineError, AgentLimitError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.extensions.goal import GoalExtension
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AssistantMessage
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import FunctionModel, ScriptedModel, call, error, stall, text, usage
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

ASK = call("ask_user", id="q", question="Which?")


@tool
async def sleep(seconds: float) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


def reply(agent: Agent, session: str = "s", wait: str = "q") -> list[str]:
    return agent.emit_external_event(
        ExternalEvent("ask_user_response", {"tool_call_id": wait, "answer": "this"}),
        config=AgentRunConfig(session_id=session),
    )


def reached(outcome: Outcome) -> AgentDeadlineError:
    """The outcome is the deadline, told once and last, and raised."""
    found = outcome.error
    assert isinstance(found, AgentDeadlineError) and isinstance(found, TimeoutError)
    assert outcome.lines[-1] == "run_failed AgentDeadlineError"
    assert outcome.recorder.events[-1].error is found
    assert (found.limit, found.value) == ("deadline", 0.3)
    return found


def test_ends_05_a_model_that_stalls_is_cut_off_and_its_text_is_kept() -> None:
    async def main() -> tuple[Scene, Outcome]:
        stage = await scene([text("Half a"), stall()], "whole", deadline=0.3)
        return stage, await stage.play()

    (stage, outcome), took = in_virtual_time(main)
    assert took == 0.3
    assert reached(outcome).text == "Half a"
    assert outcome.story == ["user hi", "assistant Half a [interrupted]"]
    assert outcome.lines[-3:] == ["text_delta Half a", "content_completed", "run_failed AgentDeadlineError"]
    assert not stage.agent.pending


def test_ends_05_a_tool_that_sleeps_is_cancelled_and_others_keep_their_results() -> None:
    async def main() -> Outcome:
        calls = [usage(10, 2), call("add", left=1, right=1), call("sleep", seconds=5)]
        stage = await scene(calls, "done", tools=[add, sleep])
        outcome = await stage.play(deadline=0.3)
        resumed = await stage.resume()
        assert resumed.error is None and resumed.story[-1] == "assistant done"
        return outcome

    outcome, took = in_virtual_time(main)
    found = reached(outcome)
    assert took == 0.3
    assert outcome.story == lines("""
        user hi
        assistant -> add(call_1), sleep(call_2)
        tool call_1 ok: 2
        tool call_2 failed: Stopped while it ran: what it had done by then, or still does, is not known.
    """)
    assert found.messages == outcome.messages
    assert found.usage.total_tokens == 12


def test_ends_05_a_plain_function_in_a_thread_is_left_alone() -> None:
    gate = threading.Event()

    @tool
    def block() -> None:
        """Block."""
        gate.wait(20)

    async def main() -> Outcome:
        stage = await scene([call("block")], tools=[block], deadline=0.3)
        try:
            return await stage.play()
        finally:
            gate.set()

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3


def test_ends_05_a_child_ends_with_its_parent() -> None:
    async def main() -> Outcome:
        child = SubAgentDefinition("child", "c", "c", ScriptedModel([text("I"), stall()]))
        task = call("task", description="d", prompt="p", subagent_type="child")
        stage = await scene([task], extensions=[SubAgentExtension([child])], deadline=0.3)
        return await stage.play()

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3


def test_ends_05_a_background_task_goes_on() -> None:
    async def main() -> Outcome:
        slow = FunctionModel(lambda request: _later())
        background = AsyncSubAgentExtension([SubAgentDefinition("child", "c", "c", slow)])
        start = call("task_start", description="d", prompt="p", subagent_type="child")
        stage = await scene([start], [stall()], extensions=[background], deadline=0.3)
        outcome = await stage.play()
        (task,) = background.tasks("s")
        await background.wait(task)
        assert task.content == "report"
        await stage.agent.aclose()
        return outcome

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 7.0


async def _later() -> AsyncIterator[Any]:
    assert CURRENT_CLOCK.get() is None
    await asyncio.sleep(7)
    yield text("report")


def test_ends_05_what_swallows_the_cancel_is_caught_at_the_next_step() -> None:
    @tool
    async def stubborn() -> str:
        """Go on."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        return "went on"

    class Stubborn(AgentExtension):
        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(5)

    async def main() -> tuple[Outcome, Outcome]:
        by_tool = await scene([call("stubborn")], "never asked", tools=[stubborn], deadline=0.3)
        by_hook = await scene(
            [call("add", left=1, right=1)], "never", tools=[add], extensions=[Stubborn()], deadline=0.3
        )
        return await by_tool.play(), await by_hook.play()

    (by_tool, by_hook), took = in_virtual_time(main)
    assert reached(by_tool).text == reached(by_hook).text == ""
    assert by_tool.story[-1] == "tool call_1 ok: went on"
    assert len(by_hook.recorder.of("model_started")) == 1
    assert took == 0.6


def test_ends_05_a_deadline_holds_for_compaction_too() -> None:
    class Slow(AgentExtension):
        async def on_compact(self, context: AgentRunContext) -> None:
            await asyncio.sleep(5)

    async def main() -> None:
        stage = await scene(extensions=[Slow()])
        async for _ in stage.agent.compact(deadline=0.3):
            pass

    with pytest.raises(AgentDeadlineError):
        in_virtual_time(main)


def test_ends_05_a_request_in_time_does_not_notice() -> None:
    async def main() -> Outcome:
        stage = await scene([call("sleep", seconds=0.2)], "done", tools=[sleep], deadline=0.3)
        return await stage.play()

    outcome, took = in_virtual_time(main)
    assert outcome.error is None and took == 0.2


def test_ends_05_a_request_may_lift_the_deadline_of_its_agent() -> None:
    async def main() -> Outcome:
        stage = await scene([call("sleep", seconds=9)], "done", tools=[sleep], deadline=0.3)
        return await stage.play(deadline=math.inf)

    outcome, took = in_virtual_time(main)
    assert outcome.error is None and took == 9.0


def test_ends_05_no_clock_is_made_without_a_deadline() -> None:
    seen: list[object] = []

    @tool
    async def look() -> None:
        """Look."""
        seen.append(CURRENT_CLOCK.get())

    async def main() -> Outcome:
        return await (await scene([call("look")], "done", tools=[look])).play()

    outcome, _ = in_virtual_time(main)
    assert seen == [None] and outcome.error is None


@pytest.mark.parametrize("order", [("deadline", "stop"), ("stop", "deadline")])
@pytest.mark.parametrize("how", ["stop", "producer"])
def test_ends_05_whoever_strikes_first_decides_when_both_do(order: tuple[str, str], how: str) -> None:
    """In the same step of the loop: there is one outcome, and the second to strike changes nothing."""

    async def main() -> Outcome:
        stage = await scene([stall()], deadline=0.3)
        loop = asyncio.get_running_loop()
        (playing,) = [asyncio.ensure_future(stage.play())]
        await spin()
        (run,) = stage.agent._sessions.runs
        assert run.producer is not None
        acts = {"deadline": run.strike, "stop": run.cancel if how == "stop" else run.producer.cancel}
        for what in order:
            loop.call_soon(acts[what])
        return await playing

    outcome, took = in_virtual_time(main)
    assert took == 0
    if order[0] == "deadline":
        reached(outcome)
    else:
        assert outcome.lines[-1] == "run_cancelled"


def test_ends_05_a_hook_that_hangs_at_the_end_is_cut_before_the_outcome_and_not_after() -> None:
    class Hangs(AgentExtension):
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds
            self.told: list[str] = []

        async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
            await asyncio.sleep(self.seconds)

        async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
            await asyncio.sleep(3)
            assert isinstance(error, AgentLimitError)
            self.told.append(error.text)

    async def main() -> tuple[Outcome, Hangs]:
        hangs = Hangs(5)
        return await (await scene("done", extensions=[hangs], deadline=0.3)).play(), hangs

    (outcome, hangs), took = in_virtual_time(main)
    assert reached(outcome).text == "done"
    assert hangs.told == ["done"] and took == 3.3


def test_ends_05_a_request_that_has_failed_for_another_reason_is_not_struck() -> None:
    class Slow(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, MessageAppendedEvent) and isinstance(event.message, AssistantMessage):
                await asyncio.sleep(5)  # the partial text, while the request is closing

    async def main() -> Outcome:
        steps = [text("Half"), error(ValueError("no"))]
        return await (await scene(steps, extensions=[Slow()], deadline=0.3)).play()

    outcome, took = in_virtual_time(main)
    assert isinstance(outcome.error, ValueError) and not hasattr(outcome.error, "__notes__")
    assert outcome.story[-1] == "assistant Half [interrupted]" and took == 5.0


def test_ends_05_with_a_store_the_log_tells_the_outcome_and_the_session_goes_on() -> None:
    async def main() -> tuple[Outcome, list[Any]]:
        store = MemorySessionStore()
        stage = await scene([call("sleep", seconds=5)], "done", tools=[sleep], memory=False, store=store, deadline=0.3)
        outcome = await stage.play()
        records = list(await store.load("s"))
        assert (await stage.resume()).error is None
        return outcome, records

    (outcome, records), took = in_virtual_time(main)
    reached(outcome)
    assert records[-1].body["outcome"] == "failed" and "AgentDeadlineError" in str(records[-1].body)
    assert took == 0.3


# ---- people


def test_hitl_16_waiting_for_a_person_does_not_count() -> None:
    async def main() -> Outcome:
        stage = await scene([ASK], [call("sleep", seconds=0.2)], "done", tools=[sleep], extensions=[AskUserExtension()])
        playing = asyncio.ensure_future(stage.play(deadline=0.3))
        await asyncio.sleep(3600)
        assert reply(stage.agent) == ["AskUserExtension"]
        return await playing

    outcome, took = in_virtual_time(main)
    assert outcome.error is None
    assert took == pytest.approx(3600.2)


def test_hitl_16_the_time_goes_on_where_it_stood() -> None:
    async def main() -> Outcome:
        calls = [call("sleep", seconds=0.2)]
        stage = await scene(calls, [ASK], calls, "never", tools=[sleep], extensions=[AskUserExtension()], deadline=0.3)
        playing = asyncio.ensure_future(stage.play())
        await asyncio.sleep(10)
        reply(stage.agent)
        return await playing

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == pytest.approx(10.1)


def test_hitl_16_a_model_that_stalls_after_the_answer_is_cut_off() -> None:
    async def main() -> Outcome:
        stage = await scene([ASK], [stall()], extensions=[AskUserExtension()], deadline=0.3)
        return await answered_after(stage, 10)

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == pytest.approx(10.3)


def test_ends_05_a_sibling_that_works_keeps_the_time_going() -> None:
    async def main() -> Outcome:
        stage = await scene(
            [ASK, call("sleep", seconds=5)], tools=[sleep], extensions=[AskUserExtension()], deadline=0.3
        )
        outcome = await stage.play()
        assert reply(stage.agent) == []
        return outcome

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3
    assert [line[:13] for line in outcome.story[2:]] == ["tool q failed", "tool call_1 f"]


def test_hitl_16_the_time_stands_once_the_siblings_have_ended() -> None:
    async def main() -> Outcome:
        calls = [ASK, call("sleep", seconds=0.2), call("boom")]
        stage = await scene(calls, "done", tools=[sleep, boom], extensions=[AskUserExtension()], deadline=0.3)
        playing = asyncio.ensure_future(stage.play())
        await asyncio.sleep(50)
        reply(stage.agent)
        return await playing

    outcome, took = in_virtual_time(main)
    assert outcome.error is None and took == 50.0


def test_ui_08_a_deadline_that_counts_waits_cancels_an_open_ask() -> None:
    async def main() -> tuple[Outcome, list[str], tuple[Any, ...]]:
        stage = await scene([ASK], extensions=[AskUserExtension()], deadline=0.3, deadline_counts_waits=True)
        outcome = await stage.play()
        return outcome, reply(stage.agent), stage.agent.pending_waits()

    (outcome, taken, waits), took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3
    assert taken == [] and waits == ()
    assert outcome.story[-1] == "tool q failed: Not run: the request was stopped first."


def test_ui_08_a_request_may_count_waits_though_its_agent_does_not() -> None:
    async def main() -> Outcome:
        stage = await scene([ASK], extensions=[AskUserExtension()])
        return await stage.play(deadline=0.3, deadline_counts_waits=True)

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3


def asking_family(*more: Any) -> tuple[SubAgentExtension, Any]:
    """A family whose child asks, and the call that starts it."""
    model = ScriptedModel([ASK, *more], "report")
    child = SubAgentDefinition("child", "c", "c", model, tools=[sleep], extensions=[AskUserExtension()])
    return SubAgentExtension([child]), call("task", id="t", description="d", prompt="p", subagent_type="child")


async def answered_after(stage: Scene, seconds: float) -> Outcome:
    playing = asyncio.ensure_future(stage.play())
    await asyncio.sleep(seconds)
    for wait in stage.agent.pending_waits():
        reply(stage.agent, wait.session_id)
    return await playing


def test_hitl_16_a_child_that_only_waits_lets_the_time_of_its_parent_stand() -> None:
    async def main() -> Outcome:
        family, task = asking_family()
        stage = await scene([task], "done", extensions=[family], deadline=0.3)
        return await answered_after(stage, 99)

    outcome, took = in_virtual_time(main)
    assert outcome.error is None and took == 99.0


@pytest.mark.parametrize("where", ["beside the child", "in the child"])
def test_bg_07_work_beside_the_question_of_a_child_uses_up_the_time_of_the_parent(where: str) -> None:
    async def main() -> Outcome:
        busy = call("sleep", id="z", seconds=5)
        family, task = asking_family(*([busy] if where == "in the child" else []))
        calls = [task] if where == "in the child" else [task, busy]
        stage = await scene(calls, tools=[sleep], extensions=[family], deadline=0.3)
        return await stage.play()

    outcome, took = in_virtual_time(main)
    reached(outcome)
    assert took == 0.3


def test_bg_07_a_child_with_a_deadline_of_its_own_fails_its_call_only() -> None:
    @tool
    async def inner(prompt: str) -> str:
        """Ask an agent."""
        agent = await Agent.create(ScriptedModel([stall()]), deadline=0.1)
        return (await agent.run(prompt)).content

    async def main() -> Outcome:
        stage = await scene([call("inner", prompt="p")], "done", tools=[inner], deadline=0.3)
        return await stage.play()

    outcome, took = in_virtual_time(main)
    assert outcome.error is None and took == 0.1
    assert outcome.story[2].startswith(
        "tool call_1 failed: AgentDeadlineError: the request reached its deadline of 0.1 s"
    )


def test_ends_05_a_goal_is_exhausted_by_a_deadline() -> None:
    async def main() -> Outcome:
        stage = await scene([stall()], extensions=[GoalExtension()], deadline=0.3)
        stage.agent.emit_external_event(ExternalEvent("goal_mode", {}), config=SESSION)
        return await stage.play("Do it")

    outcome, _ = in_virtual_time(main)
    reached(outcome)
    (finished,) = outcome.recorder.custom("goal_finished")
    assert finished.payload is not None and finished.payload["state"] == "exhausted"


def test_ends_05_a_final_turn_is_cut_off_by_the_deadline() -> None:
    async def main() -> Outcome:
        steps: list[Any] = [[call("add", left=1, right=1)], [text("So far"), stall()], "whole"]
        stage = await scene(*steps, tools=[add], max_iterations=1, final_turn=True, deadline=0.3)
        outcome = await stage.play()
        assert isinstance(outcome.error, AgentDeadlineError)
        point = await stage.agent.resume_point()
        assert point is not None and point.kind == "continue_work"
        return outcome

    outcome, _ = in_virtual_time(main)
    assert reached(outcome).text == "So far"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"deadline": 0}, "deadline.* must be None or a finite number of seconds above 0, not 0"),
        ({"deadline": -1.0}, "deadline"),
        ({"deadline": True}, "deadline"),
        ({"deadline": "1"}, "deadline"),
        ({"deadline": math.nan}, "deadline"),
        ({"deadline_counts_waits": 1}, "deadline_counts_waits must be True or False, not 1"),
        ({"final_turn": "yes"}, "final_turn must be True or False"),
    ],
)
async def test_a_bad_bound_is_named_before_anything_happens(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Agent(ScriptedModel(), **options)
    stage = await scene("never")
    with pytest.raises(ValueError, match=says):
        await stage.agent.run("hi", **options)
    assert not stage.agent.pending and not stage.model.requests


def test_an_agent_has_no_infinite_deadline() -> None:
    with pytest.raises(ValueError, match="deadline"):
        Agent(None, deadline=math.inf)


async def test_a_request_that_names_a_bad_deadline_hears_of_the_infinite_one() -> None:
    stage = await scene("never")
    with pytest.raises(ValueError, match="math.inf"):
        await stage.agent.run("hi", deadline=0)
