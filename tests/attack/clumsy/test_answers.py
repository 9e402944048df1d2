"""Answers that no model can be told, questions that somebody edits, and goals that are taken back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import CONFIG, Says, history, made, played
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.goal import GoalExtension
from zett_agent.testing import EventRecorder, ScriptedModel, call, text
from zett_agent.waits import ExternalEvent


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
UNTELLABLE: dict[str, Any] = {
    **{str(depth): nested(depth) for depth in (150, 500)},
    "object": object(),
    "nan": float("nan"),
    "tuple": (1,),
    "cycle": CYCLE,
}


@pytest.mark.parametrize("value", UNTELLABLE.values(), ids=UNTELLABLE)
async def test_rule_6_an_answer_that_no_model_can_be_told_is_refused_and_the_question_stays_open(value: Any) -> None:
    agent = await made(
        ScriptedModel([call("ask_user", id="q", question="?")], [text("x")]), extensions=[AskUserExtension()]
    )
    taken: list[list[str]] = []

    def reply(event: AgentEvent) -> None:
        for said in (value, "yes"):
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": said})
            taken.append(agent.emit_external_event(answer, config=CONFIG))

    await EventRecorder().when("custom", reply).record(agent.stream("go", config=CONFIG))
    assert taken == [[], ["AskUserExtension"]] and "yes" in history(agent)[-2].text


@pytest.mark.parametrize("copy_of", ["event", "wait"])
async def test_strict_options_are_those_of_the_model_whatever_a_consumer_adds_to_what_it_shows(copy_of: str) -> None:
    question = call("ask_user", id="q", question="?", options=["red"])
    extension = AskUserExtension(strict_options=True)
    agent = await made(ScriptedModel([question], [text("x")]), extensions=[extension])
    taken: list[list[str]] = []

    def reply(event: AgentEvent) -> None:
        shown: Any = event.payload if copy_of == "event" else agent.pending_waits()[0].question
        with suppress(TypeError, AttributeError):  # a view that cannot be changed is as good
            shown["options"].append("other")
        for value in ("other", "red"):
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": value})
            taken.append(agent.emit_external_event(answer, config=CONFIG))

    await EventRecorder().when("custom", reply).record(agent.stream("go", config=CONFIG))
    assert taken == [[], ["AskUserExtension"]] and not extension._choices


async def test_a_question_that_a_consumer_edits_is_shown_to_others_as_it_was() -> None:
    question = call("ask_user", id="q", question="?", options=["red"])
    agent = await made(ScriptedModel([question], [text("x")]), extensions=[AskUserExtension()])
    shown: list[Any] = []

    def reply(event: Any) -> None:
        event.payload["options"].append("other")
        shown.append(agent.pending_waits()[0].question)
        agent.emit_external_event(ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": 1}), config=CONFIG)

    await EventRecorder().when("custom", reply).record(agent.stream("go", config=CONFIG))
    assert shown[0]["options"] == ["red"]


async def test_a_goal_that_is_switched_off_before_its_request_is_none() -> None:
    agent = await made(Says(), extensions=[GoalExtension()])

    def goal_mode(**payload: Any) -> list[str]:
        return agent.emit_external_event(ExternalEvent("goal_mode", payload), config=CONFIG)

    assert goal_mode(enabled=False) == []
    assert goal_mode() == goal_mode(enabled=False) == ["GoalExtension"]
    seen, failure = await played(agent)
    assert failure is None and "custom" not in seen.types
