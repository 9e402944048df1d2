"""The transcript: results at their place whatever order they come in, and views that never change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.engine.scenario import lines, story
from zett_agent._runtime.transcript import OUTCOME_UNKNOWN, Transcript
from zett_agent.exceptions import AgentProtocolError
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.testing import check_transcript


def user(content: str = "hi") -> UserMessage:
    return UserMessage(content=content)


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(call_id, "t") for call_id in ids))


def result(call_id: str) -> ToolMessage:
    return ToolMessage(tool_call_id=call_id, name="t", content=call_id)


def told(transcript: Transcript) -> list[str]:
    return [line.split(":")[0] for line in story(transcript.view())]


def test_results_stand_in_call_order_whatever_order_they_come_in() -> None:
    transcript = Transcript([user()])
    transcript.append(calls("a", "b", "c"))
    for call_id in "cab":
        assert call_id in [call.id for call in transcript.open_calls]
        transcript.append(result(call_id))
    assert told(transcript) == ["user hi", "assistant -> t(a), t(b), t(c)", "tool a ok", "tool b ok", "tool c ok"]
    assert transcript.open_calls == ()
    assert len(transcript) == 5


def test_what_arrives_while_calls_are_open_follows_their_results() -> None:
    transcript = Transcript([calls("a", "b")])
    transcript.append(user("steer"))
    transcript.append(AgentMessage(content="note"))
    transcript.append(result("b"))
    assert told(transcript) == ["assistant -> t(a), t(b)", "tool b ok"]
    transcript.append(result("a"))
    assert told(transcript)[1:] == ["tool a ok", "tool b ok", "user steer", "agent note"]


def test_a_batch_that_arrives_while_calls_are_open_is_opened_after_them() -> None:
    transcript = Transcript([calls("a")])
    transcript.append(calls("b"))
    transcript.append(result("a"))
    assert [call.id for call in transcript.open_calls] == ["b"]
    transcript.append(result("b"))
    check_transcript(transcript.view())


@pytest.mark.parametrize("call_id", ["zz", "a"])
def test_a_result_that_no_open_call_waits_for_is_refused(call_id: str) -> None:
    transcript = Transcript([calls("a"), result("a")])
    with pytest.raises(AgentProtocolError, match=f"no open call has the id '{call_id}'"):
        transcript.append(result(call_id))
    assert len(transcript) == 2


def test_calls_with_the_same_id_are_refused() -> None:
    with pytest.raises(AgentProtocolError, match="distinct ids"):
        Transcript().append(calls("a", "a"))


def test_rule_1_what_is_refused_has_changed_nothing() -> None:
    transcript = Transcript([user()])
    poisoned = user()
    poisoned.content = ["a"]  # type: ignore[list-item]
    broken = calls("a", "a")
    for message in (poisoned, broken, "text"):
        for change in (transcript.append, lambda given: transcript.insert(0, given)):
            with pytest.raises((TypeError, AgentProtocolError)):
                change(message)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        transcript.replace([user(), poisoned])
    assert told(transcript) == ["user hi"] and not transcript.open_calls and not transcript.rewritten


def test_the_ids_of_calls_are_remembered() -> None:
    transcript = Transcript([calls("a"), result("a")])
    assert transcript.knows_call("a") and not transcript.knows_call("b")


def test_a_view_never_changes() -> None:
    transcript = Transcript([user()])
    transcript.append(calls("a", "b"))
    views = [transcript.view()]
    for change in (result("b"), result("a"), user("next")):
        transcript.append(change)
        views.append(transcript.view())
    transcript.insert(0, SystemMessage(content="S"))
    transcript.replace([user("new")])
    assert [len(view) for view in views] == [2, 3, 4, 5]
    assert story(views[1])[2] == "tool b ok: b"
    assert story(views[0])[0] == "user hi"


def test_a_view_is_a_sequence() -> None:
    transcript = Transcript([user("0"), user("1"), user("2")])
    view = transcript.view()
    transcript.append(user("3"))
    assert isinstance(view, Sequence)
    assert [message.content for message in view] == ["0", "1", "2"]
    assert view[0] == user("0") and view[-1] == user("2") and view[1:] == (user("1"), user("2"))
    assert view[::-1][0] == user("2")
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"message {index} of 3"):
            view[index]
    assert view == [user("0"), user("1"), user("2")] and view == tuple(view) and view == transcript.view()[:3]
    assert view != [user("0")] and view != [user("0"), user("1"), user("x")] and view != "text"
    assert user("1") in view and next(reversed(view)) == user("2")
    assert repr(view).startswith("History([UserMessage(")
    with pytest.raises(TypeError):
        hash(view)


def test_the_last_message() -> None:
    assert Transcript().last is None
    assert Transcript([user("a"), user("b")]).last == user("b")


@pytest.mark.parametrize(("index", "at"), [(0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5), (99, 5), (-1, 4), (-99, 0)])
def test_an_inserted_message_never_parts_a_call_from_its_results(index: int, at: int) -> None:
    transcript = Transcript([user(), calls("a", "b"), result("a"), result("b"), AssistantMessage(content="x")])
    transcript.insert(index, user("new"))
    assert told(transcript).index("user new") == at
    check_transcript(transcript.view())


def test_a_message_inserted_at_the_end_waits_for_open_calls() -> None:
    transcript = Transcript([user()])
    transcript.append(calls("a"))
    transcript.insert(2, user("new"))
    transcript.insert(0, SystemMessage(content="S"))
    transcript.append(result("a"))
    assert told(transcript) == ["system S", "user hi", "assistant -> t(a)", "tool a ok", "user new"]


@pytest.mark.parametrize("message", [result("a"), calls("a")])
def test_calls_and_results_cannot_be_inserted(message: AnyMessage) -> None:
    with pytest.raises(AgentProtocolError, match="can only be appended"):
        Transcript().insert(0, message)


@pytest.mark.parametrize(
    ("messages", "repaired"),
    [
        ([result("x"), user()], ["user hi"]),
        ([calls("a"), user()], ["assistant -> t(a)", "tool a failed", "user hi"]),
        ([calls("a", "b"), result("b"), user()], ["assistant -> t(a), t(b)", "tool a failed", "tool b ok", "user hi"]),
        (
            [calls("a"), calls("b"), result("b")],
            ["assistant -> t(a)", "tool a failed", "assistant -> t(b)", "tool b ok"],
        ),
        ([calls("a"), result("a"), result("a")], ["assistant -> t(a)", "tool a ok"]),
        ([calls("a", "a"), result("a")], ["assistant -> t(a)", "tool a ok"]),
        ([calls("a"), SystemMessage(content="S"), result("a")], ["assistant -> t(a)", "tool a ok", "system S"]),
    ],
)
def test_persist_06_a_history_of_unknown_origin_is_repaired(messages: list[AnyMessage], repaired: list[str]) -> None:
    assert told(Transcript(messages)) == repaired
    transcript = Transcript([user("old")])
    transcript.replace(messages)
    assert told(transcript) == repaired


def test_the_first_of_two_calls_with_the_same_id_is_kept() -> None:
    twice = AssistantMessage(tool_calls=(ToolCall("a", "one"), ToolCall("b", "t"), ToolCall("a", "two")))
    assert told(Transcript([twice])) == ["assistant -> one(a), t(b)"]


def test_calls_left_open_at_the_end_stay_open() -> None:
    transcript = Transcript([user(), calls("a", "b"), result("b")])
    assert [call.id for call in transcript.open_calls] == ["a"]
    closed = transcript.settle_open(OUTCOME_UNKNOWN)
    assert [message.text for message in closed] == [OUTCOME_UNKNOWN]
    assert told(transcript)[2:] == ["tool a failed", "tool b ok"]
    assert transcript.settle_open("again") == []


def test_restored_messages_stand_behind_the_system_messages() -> None:
    transcript = Transcript([SystemMessage(content="S"), SystemMessage(content="T"), user("new")])
    transcript.restore(Transcript([user("old"), AssistantMessage(content="x")]).view())
    assert told(transcript) == ["system S", "system T", "user old", "assistant x", "user new"]
    assert story(transcript.since_restored()) == ["user new"]
    assert not transcript.rewritten


@pytest.mark.parametrize(
    ("earlier", "open_ids"),
    [
        ([user(), calls("a", "b"), result("b")], ["a"]),
        ([user(), calls("a", "b")], ["a", "b"]),
        ([user(), calls("a"), result("a")], []),
        ([user(), AssistantMessage(content="x")], []),
        ([user()], []),
        ([], []),
    ],
)
def test_calls_without_a_result_are_found_again_in_a_restored_history(
    earlier: list[AnyMessage], open_ids: list[str]
) -> None:
    transcript = Transcript([SystemMessage(content="S")])
    transcript.restore(earlier)
    assert [call.id for call in transcript.open_calls] == open_ids
    transcript.settle_open("closed")
    transcript.append(user("next"))
    check_transcript(transcript.view())
    assert transcript.knows_call("a") is any(
        isinstance(message, AssistantMessage) and message.tool_calls for message in earlier
    )


def test_restoring_leaves_the_source_as_it_was() -> None:
    memory = Transcript([user("one"), calls("a")])
    transcript = Transcript()
    transcript.restore(memory.view())
    transcript.settle_open("closed")
    transcript.append(user("two"))
    assert told(memory) == ["user one", "assistant -> t(a)"]


@pytest.mark.parametrize(
    ("earlier", "left"),
    [
        ([user("a")], []),
        ([user("a"), user("b")], []),
        ([user("a"), AgentMessage(content="n"), user("b")], ["agent n"]),
        ([user("a"), AssistantMessage(content="x")], ["user a", "assistant x"]),
        ([AssistantMessage(content="x"), user("b")], ["assistant x"]),
        ([], []),
    ],
)
def test_core_18_input_that_no_model_answered_is_dropped_from_the_restored_part(
    earlier: list[AnyMessage], left: list[str]
) -> None:
    transcript = Transcript()
    transcript.restore(earlier)
    transcript.append(user("new"))
    before = transcript.view()
    transcript.drop_unanswered_input()
    assert told(transcript) == [*left, "user new"]
    assert len(before) == len(earlier) + 1
    assert story(transcript.since_restored()) == ["user new"]


def test_rule_1_dropping_unanswered_input_leaves_the_results_of_open_calls_in_call_order() -> None:
    transcript = Transcript()
    transcript.restore([user("never answered")])
    transcript.append(calls("a", "b"))
    transcript.drop_unanswered_input()
    transcript.append(result("b"))
    transcript.append(result("a"))
    check_transcript(transcript.view())


def test_what_is_marked_as_restored_is_no_addition() -> None:
    transcript = Transcript([user("a")])
    assert told(transcript) == story(transcript.since_restored()) == ["user a"]
    transcript.mark_restored()
    transcript.append(user("b"))
    assert story(transcript.since_restored()) == ["user b"]


def test_an_insertion_into_the_restored_part_is_known() -> None:
    transcript = Transcript()
    transcript.restore([user("a"), AssistantMessage(content="x")])
    transcript.append(user("b"))
    transcript.insert(0, SystemMessage(content="S"))
    assert story(transcript.since_restored()) == ["user b"]
    assert told(transcript) == lines("""
        system S
        user a
        assistant x
        user b
    """)


def test_rule_1_what_is_taken_over_follows_after_the_results_of_open_calls() -> None:
    transcript = Transcript([user(), calls("a")])
    transcript.take_over([user("next")], {"b"})
    assert [type(message).__name__ for message in transcript.view()][1:] == [
        "AssistantMessage",
        "ToolMessage",
        "UserMessage",
    ]
    assert transcript.knows_call("a") and transcript.knows_call("b")
