"""The demo's model decides by what it was told, so each conversation below is one that a person can have with it."""

from __future__ import annotations

import json
from typing import Any

from zett_agent.cli.demo_model import PlannedModel, Step, Told, release, research
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, SystemMessage, ToolMessage, UserMessage
from zett_agent.model import ModelEventType, ModelRequest, ModelUsage
from zett_agent.testing import check_transcript


def result(name: str, value: Any, *, success: bool = True) -> ToolMessage:
    text = value if isinstance(value, str) else json.dumps(value)
    return ToolMessage(tool_call_id=f"{name}-1", name=name, content=text, success=success)


GOAL = UserMessage(content="release it")
SEEN: list[AnyMessage] = [
    GOAL,
    result("run_tests", {"passed": 9, "failed": 1}),
    result("read_changelog", {"added": ["x"], "breaking": ["y"]}),
    result("task_start", {"task_id": "task-7"}),
]
ASKED = [*SEEN, result("ask_user", {"payload": {"answer": "2.4.0"}})]
DRAFTED = [*ASKED, result("draft_announcement", {"text": "news", "wish": ""})]
READ = [*DRAFTED, result("task_output", {"content": "low: a\nhigh: b"})]


def step(*messages: AnyMessage) -> Step:
    return release(Told(messages))


def calls(*messages: AnyMessage) -> list[tuple[str, dict[str, Any]]]:
    return list(step(*messages).calls)


def test_it_looks_around_asks_drafts_reads_and_publishes() -> None:
    assert [name for name, _ in calls(GOAL)] == ["run_tests", "read_changelog", "task_start"]
    assert calls(*SEEN)[0][0] == "ask_user"
    assert "9 tests pass, 1 fail" in step(*SEEN).text and "y." in step(*SEEN).text
    assert calls(*ASKED) == [("draft_announcement", {"version": "2.4.0", "sections": 5})]
    assert calls(*DRAFTED) == [("task_output", {"task_id": "task-7", "wait_seconds": 30})]
    assert calls(*READ) == [("publish", {"version": "2.4.0", "channel": "stable"})]


def test_a_question_that_nobody_answered_has_a_sensible_answer() -> None:
    assert Told([*SEEN, result("ask_user", {"payload": {"answer": None}})]).version == "3.0.0"
    assert Told([*SEEN, result("ask_user", "no JSON")]).version == "3.0.0"
    assert Told([*SEEN, result("ask_user", "[1]")]).version == "3.0.0"


def test_what_was_skipped_is_asked_for_again() -> None:
    skipped = result("run_tests", "Not run: a newer message of the user came first.", success=False)
    assert [name for name, _ in calls(GOAL, skipped)] == ["run_tests", "read_changelog", "task_start"]


def test_steering_changes_the_announcement_whenever_it_comes() -> None:
    wish = UserMessage(content="keep it short")
    wanted = [("draft_announcement", {"version": "2.4.0", "sections": 1, "wish": "keep it short"})]
    for history in (ASKED, DRAFTED, READ):
        assert calls(*history, wish) == wanted
    assert calls(*READ, wish, result("draft_announcement", {"wish": "keep it short"}))[0][0] == "publish"


def test_it_reads_the_report_when_it_is_told_that_there_is_one() -> None:
    told = AgentMessage(content="task-7 has finished")
    assert calls(*DRAFTED, told) == [("task_output", {"task_id": "task-7"})]
    assert "just told" in step(*DRAFTED, told).text


def test_the_end_says_what_came_of_it() -> None:
    published = result("publish", "[changed by a person]\n" + json.dumps({"version": "2.4.0", "channel": "beta"}))
    text = step(*READ, published).text
    assert "Lantern 2.4.0 is published on the channel beta." in text
    assert "9 passed" in text and "low: a; high: b" in text and "news" in text
    assert "You also said" not in text
    assert "You also said “thanks”" in step(*READ, published, UserMessage(content="thanks")).text
    refused = step(*READ, result("publish", "Rejected: not on a Friday", success=False)).text
    assert "Lantern 2.4.0 is not published. You said: Rejected: not on a Friday" in refused


def test_the_researcher_reports_what_it_found() -> None:
    assert list(research(Told([GOAL])).calls) == [("list_issues", {"label": "risk"})]
    found = result("list_issues", {"issues": [{"severity": "low", "title": "a"}, {"severity": "high", "title": "b"}]})
    assert research(Told([GOAL, found])).text == "low: a\nhigh: b"
    assert research(Told([GOAL, result("list_issues", {})])).text == "No open risks."


async def test_the_stream_adds_up_to_the_response() -> None:
    model = PlannedModel(release, pause=0)
    history: list[AnyMessage] = [SystemMessage(content="s"), GOAL]
    events = [event async for event in model.stream(ModelRequest(history))]
    response = events[-1].response
    assert response is not None and events[-1].type is ModelEventType.RESPONSE
    message = response.message
    assert "".join(e.delta for e in events if e.type is ModelEventType.TEXT_DELTA) == message.content
    assert "".join(e.delta for e in events if e.type is ModelEventType.REASONING_DELTA) == message.reasoning
    pieces = [event.tool_call_delta for event in events if event.tool_call_delta is not None]
    arguments = ["".join(p.arguments_delta for p in pieces if p.index == at) for at in range(3)]
    assert [json.loads(text) for text in arguments] == [call.arguments for call in message.tool_calls]
    assert response.usage.output_tokens > 0 and response.usage.input_tokens == ModelUsage(2).input_tokens
    history += [message, *(ToolMessage(tool_call_id=c.id, name=c.name, content="{}") for c in message.tool_calls)]
    following = [event async for event in model.stream(ModelRequest(history))][-1].response
    assert following is not None
    ids = [call.id for m in (message, following.message) for call in m.tool_calls]
    assert len(set(ids)) == len(ids) and isinstance(message, AssistantMessage)
    check_transcript(history)
