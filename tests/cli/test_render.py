from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from zett_agent.cli.questions import Choice
from zett_agent.cli.render import Renderer, make_console
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelResponse, ModelUsage, ServerToolCall, ServerToolResult
from zett_agent.stop import StopInfo, StopReason

T = AgentEventType


class Shown:
    def __init__(self, *, width: int = 80) -> None:
        self.renderer = Renderer(Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False))

    def show(self, kind: AgentEventType, **fields: Any) -> None:
        self.renderer.show(AgentEvent(kind, "s", **fields))

    @property
    def text(self) -> str:
        file = self.renderer.console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines()]


def result(content: str, name: str = "add") -> dict[str, Any]:
    call = ToolCall("c", name, {"left": 1, "text": "a\x1b[31m", "long": "x" * 80})
    return {"tool_calls": [call], "message": ToolMessage(tool_call_id="c", name=name, content=content)}


def test_text_and_reasoning_stream_and_are_told_apart() -> None:
    shown = Shown()
    for piece in ("Let me ", "think."):
        shown.show(T.REASONING_DELTA, delta=piece)
    for piece in ("Hello", ", wor", "ld"):
        shown.show(T.TEXT_DELTA, delta=piece)
    shown.show(T.MODEL_COMPLETED)
    assert shown.lines == ["  ┆ Let me think.", "Hello, world"]


def test_a_call_shows_its_arguments_and_its_result_on_lines_of_their_own() -> None:
    shown = Shown(width=200)
    shown.show(T.TEXT_DELTA, delta="Adding ")
    shown.show(T.TOOL_STARTED, **result(""))
    shown.show(T.TOOL_COMPLETED, **result('{"sum":3,"items":[1],"session_id":"s","note":null}'))
    shown.show(T.TOOL_FAILED, **result("no such number\nreally"))
    shown.show(T.TOOL_SKIPPED, **result("Not run"))
    started = shown.lines[1]
    assert started.startswith('  ● add(left=1, text="a\\u001b[31m", long="xxx') and started.endswith("…)")
    assert len(started) <= 100
    assert shown.lines[2:] == [
        "  ✔ add  sum=3, items=[1]",
        "  ✘ add",
        "      no such number",
        "      really",
        "  ⤼ add skipped  Not run",
    ]


def test_the_answer_of_a_user_is_shown_without_its_envelope() -> None:
    shown = Shown()
    shown.show(T.TOOL_COMPLETED, **result('{"name":"ask_user_response","payload":{"answer":"blue"}}', "ask_user"))
    shown.show(T.TOOL_COMPLETED, **result('{"payload":1}', "ask_user"))
    shown.show(T.TOOL_COMPLETED, **result("[1]", "ask_user"))
    assert shown.lines == ["  ✔ ask_user  blue", "  ✔ ask_user  payload=1", "  ✔ ask_user  [1]"]


def test_a_long_result_is_shortened() -> None:
    shown = Shown()
    shown.show(T.TOOL_COMPLETED, **result("word " * 200))
    assert "more characters)" in shown.text


def test_what_a_provider_runs_itself_is_shown_too() -> None:
    shown = Shown()
    shown.show(T.SERVER_TOOL_STARTED, server_tool_call=ServerToolCall("c", "web", {"q": "x"}))
    shown.show(T.SERVER_TOOL_STARTED, server_tool_call=ServerToolCall("d", "web"))
    shown.show(T.SERVER_TOOL_COMPLETED, server_tool_result=ServerToolResult("c", "web", ["hit"]))
    shown.show(T.SERVER_TOOL_COMPLETED, server_tool_result=ServerToolResult("c", "web"))
    shown.show(T.SERVER_TOOL_FAILED, server_tool_result=ServerToolResult("d", "web", error_code="gone"))
    assert shown.lines == [
        '  ○ web({"q": "x"})',
        "  ○ web()",
        '  ✔ web by the provider  ["hit"]',
        "  ✔ web by the provider",
        "  ✘ web by the provider  gone",
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "lines"),
    [
        (T.STEERING_STARTED, {"steering_message": UserMessage(content="left,\nplease")}, ["  ↪ steered: left, please"]),
        (
            T.MODEL_STOPPED,
            {"stop": StopInfo(StopReason.MAX_OUTPUT, "length")},
            ["  · the model stopped: max_output (length)"],
        ),
        (T.MODEL_STOPPED, {"stop": StopInfo(StopReason.END_TURN)}, []),
        (T.COMPACTION_STARTED, {}, ["  · compacting the conversation"]),
        (T.COMPACTION_COMPLETED, {"applied": True}, ["  · compacted"]),
        (T.COMPACTION_COMPLETED, {"applied": False}, ["  · nothing was compacted"]),
        (T.RUN_CANCELLED, {}, ["  · stopped"]),
        (T.RUN_FAILED, {}, []),
        (T.RUN_COMPLETED, {}, []),
        (T.MODEL_STARTED, {}, [""]),
        (T.CUSTOM, {"name": "notice", "payload": {"content": "done\nnow"}}, ["  ✉ the agent is told: done now"]),
        (T.CUSTOM, {"name": "input_returned", "payload": {"messages": [{"content": "hm"}]}}, ["  · not delivered: hm"]),
        (
            T.CUSTOM,
            {
                "name": "subagent_event",
                "payload": {"type": "tool_started", "subagent_type": "explore", "tools": [{"name": "grep"}]},
            },
            ["  ◆ explore calls grep"],
        ),
        (T.CUSTOM, {"name": "subagent_event", "payload": {"type": "text_delta"}}, []),
        (T.CUSTOM, {"name": "something_else"}, []),
    ],
)
def test_events_show_what_a_person_needs(kind: AgentEventType, fields: dict[str, Any], lines: list[str]) -> None:
    shown = Shown()
    shown.show(kind, **fields)
    assert shown.lines == lines


def test_the_end_shows_the_tokens_of_the_request() -> None:
    shown = Shown()
    shown.renderer.begin()
    for _ in range(2):
        response = ModelResponse(AssistantMessage(content="x"), usage=ModelUsage(1000, 20))
        shown.show(T.MODEL_COMPLETED, response=response)
    shown.show(T.RUN_COMPLETED)
    assert shown.renderer.usage.total_tokens == 2040
    assert shown.text.endswith(" s · 2,000 tokens in, 40 out\n")
    shown.renderer.begin()
    assert shown.renderer.usage.total_tokens == 0


def test_what_is_no_event_has_its_place() -> None:
    shown = Shown(width=40)
    shown.show(T.TEXT_DELTA, delta="open ")
    shown.renderer.banner("title", "text")
    shown.renderer.user("hello\x07")
    shown.renderer.task("task-1 runs")
    shown.renderer.question(Choice("c", "s", "Which \x1b?", ["red"]))
    assert shown.lines[0] == "open"
    assert [line for line in shown.lines if "─" not in line][1:] == [
        "│ text                                 │",
        "you ▸ hello␇",
        "  ◆ task-1 runs",
        "│ Which ␛?                             │",
        "│ 1  red                               │",
        "│ type a number, or an answer of your  │",
        "│ own                                  │",
    ]


def test_news_of_background_work_split_no_sentence() -> None:
    shown = Shown()
    shown.show(T.TEXT_DELTA, delta="one sentence ")
    shown.renderer.task("a task has ended")
    shown.show(T.TEXT_DELTA, delta="in a row\n")
    shown.renderer.task("so has another")
    shown.show(T.TEXT_DELTA, delta="and the next one")
    shown.renderer.task("and the last")
    shown.show(T.MODEL_COMPLETED)
    assert shown.lines == [
        "one sentence in a row",
        "  ◆ a task has ended",
        "  ◆ so has another",
        "and the next one",
        "  ◆ and the last",
    ]


def test_square_brackets_are_text_and_no_markup() -> None:
    shown = Shown()
    shown.show(T.TEXT_DELTA, delta="[bold]x[/bold] :smile:")
    shown.renderer.note("[red]y")
    assert shown.lines == ["[bold]x[/bold] :smile:", "  · [red]y"]


def test_colours_are_for_terminals() -> None:
    file = io.StringIO()
    plain = Renderer(make_console(file))
    assert plain.paint("x", "1") == "x"
    assert plain.measure("漢") == 2
    coloured = Renderer(Console(file=file, force_terminal=True, color_system="standard"))
    assert coloured.paint("x", "1") == "\x1b[1mx\x1b[0m"
