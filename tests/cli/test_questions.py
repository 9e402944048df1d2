from __future__ import annotations

from typing import Any

import pytest

from zett_agent.cli.questions import Approval, Choice, Question, Unclear, question_of
from zett_agent.events import AgentEvent, AgentEventType


def custom(name: str, **payload: Any) -> AgentEvent:
    return AgentEvent(AgentEventType.CUSTOM, "s", name=name, payload=payload)


def ask(*options: str, multiple: bool = False) -> Question:
    found = question_of(
        custom(
            "ask_user",
            tool_call_id="c",
            session_id="child",
            question="Which?",
            options=list(options),
            allow_multiple=multiple,
        )
    )
    assert found is not None
    return found


def approval() -> Question:
    found = question_of(
        custom(
            "permission_request",
            tool_call_id="c",
            tool="publish",
            arguments={"version": "3", "n": 1},
            reason="Careful.",
        )
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        (ask(), " blue ", "blue"),
        (ask(), "3", "3"),
        (ask("red", "blue"), "2", "blue"),
        (ask("red", "blue"), "green", "green"),
        (ask("10", "20"), "20", "20"),
        (ask("10", "20"), "2", "20"),
        (ask("10", "20"), "15", "15"),
        (ask("red", "blue", multiple=True), "1, 2", ["red", "blue"]),
        (ask("red", "blue", multiple=True), "2", ["blue"]),
        (ask("red", "blue", multiple=True), "both of them", ["both of them"]),
    ],
)
def test_a_line_answers_a_question(question: Question, line: str, answer: object) -> None:
    event = question.read(line)
    assert (event.name, event.payload) == ("ask_user_response", {"tool_call_id": "c", "answer": answer})


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("y", {"decision": "approve"}),
        ("YES", {"decision": "approve"}),
        ("n", {"decision": "reject"}),
        ("no not on a Friday", {"decision": "reject", "message": "not on a Friday"}),
        ('e {"version": "4"}', {"decision": "approve", "arguments": {"version": "4", "n": 1}}),
        ("r it is out already", {"decision": "respond", "result": "it is out already"}),
    ],
)
def test_a_line_decides_on_a_call(line: str, decision: dict[str, Any]) -> None:
    event = approval().read(line)
    assert (event.name, event.payload) == ("permission_response", {"tool_call_id": "c", **decision})


@pytest.mark.parametrize(
    ("question", "line", "hint"),
    [
        (ask(), "  ", "type an answer"),
        (ask("red", "blue"), "3", "there is no option 3; type a number, or an answer of your own"),
        (ask("red", "blue", multiple=True), "1 3", "there is no option 3; type numbers such as 1,2"),
        (approval(), "yes please", "y = yes"),
        (approval(), "r", "y = yes"),
        (approval(), "", "y = yes"),
        (approval(), "e version 4", 'such as: e {"version": "3"}'),
        (approval(), "e [1]", "a JSON object"),
    ],
)
def test_a_line_that_answers_nothing_says_what_would(question: Question, line: str, hint: str) -> None:
    with pytest.raises(Unclear) as unclear:
        question.read(line)
    assert hint in str(unclear.value)


def test_a_question_shows_what_is_asked() -> None:
    assert list(ask("red", "blue").lines) == ["Which?", "1  red", "2  blue"]
    assert list(approval().lines) == ["The agent wants to call publish", "  version = 3", "  n = 1", "Careful."]


def test_a_question_of_a_child_is_answered_in_the_child_session() -> None:
    assert (ask().session_id, approval().session_id) == ("child", "s")


def test_without_anybody_there_questions_are_declined() -> None:
    assert ask().decline().payload["answer"] is None
    assert "cannot be asked" in ask().decline().payload["note"]
    assert approval().decline().payload["decision"] == "reject"


@pytest.mark.parametrize(
    "event",
    [
        AgentEvent(AgentEventType.TEXT_DELTA, "s"),
        custom("ask_user", question="no id"),
        custom("something_else", tool_call_id="c"),
    ],
)
def test_other_events_ask_nothing(event: AgentEvent) -> None:
    assert question_of(event) is None


def test_the_kinds_are_told_apart() -> None:
    assert isinstance(ask(), Choice)
    assert isinstance(approval(), Approval)
