"""From the events of a stream to a terminal: one renderer for every command that a person watches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from zett_agent.cli.questions import Question
from zett_agent.cli.text import Flow, brief, one_line, visible
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.messages import ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelUsage

#: A CUSTOM event with a machine's message to the model as its ``content``.
NOTICE = "notice"
#: Text is not set wider than this: long lines are hard to read.
WIDEST = 100
_INDENT = "  "
#: What a result says for programs only.
_NOISE = frozenset({"session_id", "parent_session_id"})
_THINKING = "dim italic"


class Renderer:
    """Shows a stream as it happens. ``show`` takes every event; the other methods are for what is no event."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._style = ""
        self._flow = self._new_flow("")
        self._news: list[str] = []
        self._started: dict[str, float] = {}
        self._tokens = ModelUsage()
        self._began = time.monotonic()
        self._handlers: dict[AgentEventType, Callable[[AgentEvent], None]] = {
            AgentEventType.REASONING_DELTA: self._reasoning,
            AgentEventType.TEXT_DELTA: self._text,
            AgentEventType.COMPACTION_STARTED: lambda _: self.note("compacting the conversation"),
            AgentEventType.COMPACTION_COMPLETED: self._compacted,
            AgentEventType.MODEL_STARTED: lambda _: self._gap(),
            AgentEventType.MODEL_COMPLETED: self._model_completed,
            AgentEventType.MODEL_STOPPED: self._model_stopped,
            AgentEventType.TOOL_STARTED: self._tool_started,
            AgentEventType.TOOL_COMPLETED: self._tool_ended,
            AgentEventType.TOOL_FAILED: self._tool_ended,
            AgentEventType.TOOL_SKIPPED: self._tool_skipped,
            AgentEventType.SERVER_TOOL_STARTED: self._server_tool_started,
            AgentEventType.SERVER_TOOL_COMPLETED: self._server_tool_ended,
            AgentEventType.SERVER_TOOL_FAILED: self._server_tool_ended,
            AgentEventType.STEERING_STARTED: self._steering_started,
            AgentEventType.STEERING_COMPLETED: lambda _: self.break_line(),
            AgentEventType.RUN_COMPLETED: self._run_completed,
            AgentEventType.RUN_FAILED: lambda _: self.break_line(),
            AgentEventType.RUN_CANCELLED: lambda _: self.note("stopped", "yellow"),
            AgentEventType.CUSTOM: self._custom,
        }

    def show(self, event: AgentEvent) -> None:
        """Show ``event``; what a person need not see shows nothing."""
        handler = self._handlers.get(event.type)
        if handler is not None:
            handler(event)

    def measure(self, text: str) -> int:
        """The cells that ``text`` takes on the terminal."""
        return cell_len(text)

    def paint(self, text: str, style: str) -> str:
        """``text`` in the colour of the SGR codes ``style``, where the terminal has colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.console.color_system else text

    def break_line(self) -> None:
        """End the line that streams, so that something else can stand below it."""
        self._flow.end_line()
        self._tell_news()

    def banner(self, title: str, text: str) -> None:
        """A box at the beginning."""
        self._panel(Text(text), title, "cyan")

    def user(self, text: str) -> None:
        """What the user says, for input that was not typed on this screen."""
        self._line(("you ▸ ", "bold green"), (visible(text), "green"))

    def note(self, text: str, style: str = "dim") -> None:
        """A remark of the program itself."""
        self._line((f"{_INDENT}· {one_line(text)}", style))

    def question(self, question: Question) -> None:
        """A question that waits for an answer."""
        body = Text("\n".join(visible(line) for line in question.lines))
        body.append(f"\n{question.hint}", "dim")
        self._panel(body, question.title, "yellow")

    def task(self, text: str) -> None:
        """News of work in the background; it waits for the end of a line that streams."""
        self._news.append(text)
        if not self._flow.mid_line:
            self._tell_news()

    def begin(self) -> None:
        """A new request: count its time and its tokens from here."""
        self._began, self._tokens = time.monotonic(), ModelUsage()

    @property
    def usage(self) -> ModelUsage:
        """The tokens of the request so far."""
        return self._tokens

    def _reasoning(self, event: AgentEvent) -> None:
        self._stream(event.delta, _THINKING)

    def _text(self, event: AgentEvent) -> None:
        self._stream(event.delta, "")

    def _stream(self, delta: str, style: str) -> None:
        if style != self._style:
            self.break_line()
            self._style, self._flow = style, self._new_flow(style, f"{_INDENT}┆ " if style else "")
        self._flow.feed(visible(delta))
        if not self._flow.mid_line:
            self._tell_news()

    def _tell_news(self) -> None:
        news, self._news = self._news, []
        for text in news:
            self._line((f"{_INDENT}◆ {one_line(text)}", "magenta"))

    def _new_flow(self, style: str, indent: str = "") -> Flow:
        def write(text: str) -> None:
            self.console.out(text, style=style or None, highlight=False, end="")

        return Flow(write, cell_len, width=self._width, indent=indent)

    @property
    def _width(self) -> int:
        return min(self.console.width, WIDEST)

    def _compacted(self, event: AgentEvent) -> None:
        self.note("compacted" if event.applied else "nothing was compacted")

    def _gap(self) -> None:
        """An empty line before the model's next words."""
        self.break_line()
        self.console.print()

    def _model_completed(self, event: AgentEvent) -> None:
        self.break_line()
        if event.response is not None:
            self._tokens = _sum(self._tokens, event.response.usage)

    def _model_stopped(self, event: AgentEvent) -> None:
        if event.stop is not None and not event.stop.ok:
            self.note(f"the model stopped: {event.stop.describe()}", "yellow")

    def _tool_started(self, event: AgentEvent) -> None:
        for call in event.tool_calls:
            self._started[call.id] = time.monotonic()
            self._call("●", "cyan", call.name, call_arguments(call))

    def _tool_ended(self, event: AgentEvent) -> None:
        good = event.type is AgentEventType.TOOL_COMPLETED
        for call in event.tool_calls:
            seconds = time.monotonic() - self._started.pop(call.id, time.monotonic())
            remark = f"{seconds:.1f} s" if seconds >= 0.05 else ""
            self._result("✔" if good else "✘", "green" if good else "red", call.name, remark, _answer(event))

    def _tool_skipped(self, event: AgentEvent) -> None:
        for call in event.tool_calls:
            self._result("⤼", "yellow", call.name, "skipped", _answer(event))

    def _server_tool_started(self, event: AgentEvent) -> None:
        call = event.server_tool_call
        if call is not None:
            self._call("○", "cyan", call.name, "" if call.input is None else json.dumps(call.input, ensure_ascii=False))

    def _server_tool_ended(self, event: AgentEvent) -> None:
        result = event.server_tool_result
        if result is not None:
            failed = result.error_code is not None
            text = result.error_code or ("" if result.output is None else json.dumps(result.output, ensure_ascii=False))
            self._result("✘" if failed else "✔", "red" if failed else "green", result.name, "by the provider", text)

    def _steering_started(self, event: AgentEvent) -> None:
        if isinstance(event.steering_message, UserMessage):
            self._line((f"{_INDENT}↪ steered: {one_line(event.steering_message.text)}", "bold magenta"))

    def _run_completed(self, event: AgentEvent) -> None:
        self.break_line()
        used = self._tokens
        if used.total_tokens:
            seconds = time.monotonic() - self._began
            self.note(f"{seconds:.1f} s · {used.input_tokens:,} tokens in, {used.output_tokens:,} out")

    def _custom(self, event: AgentEvent) -> None:
        payload = event.payload or {}
        if event.name == "input_returned":
            for message in payload.get("messages", ()):
                self.note(f"not delivered: {message.get('content')}", "yellow")
        elif event.name == NOTICE:
            told = one_line(str(payload.get("content", "")), limit=self._width - 24)
            self._line((f"{_INDENT}✉ the agent is told: {told}", "magenta"))
        elif event.name == "subagent_event" and payload.get("type") == AgentEventType.TOOL_STARTED.value:
            for call in payload.get("tools", ()):
                self.task(f"{payload.get('subagent_type')} calls {call.get('name')}")

    def _call(self, mark: str, style: str, name: str, arguments: str) -> None:
        name = one_line(name)
        room = max(20, self._width - cell_len(name) - 6)
        self._line((f"{_INDENT}{mark} ", style), (name, "bold"), (f"({one_line(arguments, limit=room)})", "dim"))

    def _result(self, mark: str, style: str, name: str, remark: str, text: str) -> None:
        head = ((f"{_INDENT}{mark} ", style), (one_line(name), "bold"), (f" {remark}".rstrip(), "dim"))
        body, body_style = brief(text), "" if style == "green" else style
        room = self._width - sum(cell_len(part) for part, _ in head) - 2
        if "\n" not in body and cell_len(body) <= room:
            self._line(*head, (f"{_INDENT}{body}" if body else "", body_style))
        else:
            self._line(*head)
            self._block(body, body_style)

    def _block(self, text: str, style: str) -> None:
        """Text below a line, indented and wrapped."""
        flow = self._new_flow(style, _INDENT * 3)
        flow.feed(text)
        flow.end_line()

    def _line(self, *parts: tuple[str, str]) -> None:
        self.break_line()
        self.console.print(Text.assemble(*parts, overflow="fold"), width=self._width, highlight=False)

    def _panel(self, body: Text, title: str, style: str) -> None:
        self.break_line()
        self.console.print(Panel(body, title=title, title_align="left", border_style=style, width=self._width))


def make_console(file: TextIO | None = None) -> Console:
    """The console that every command writes to."""
    return Console(file=file, highlight=False, markup=False, emoji=False)


def call_arguments(call: ToolCall) -> str:
    """The arguments of a call as Python would write them, long ones shortened."""
    return ", ".join(f"{name}={_value(value)}" for name, value in call.arguments.items())


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:58] + '…"'


def _answer(event: AgentEvent) -> str:
    """The result of a call as a person reads it: JSON without its brackets, a user's answer without its envelope."""
    text = event.message.text if isinstance(event.message, ToolMessage) else ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if event.tool_calls[0].name == "ask_user" and isinstance(value, dict) and isinstance(value.get("payload"), dict):
        value = value["payload"].get("answer") or "no answer"
    if isinstance(value, dict):
        shown = {name: item for name, item in value.items() if item is not None and name not in _NOISE}
        return ", ".join(f"{name}={_plain(item)}" for name, item in shown.items())
    return _plain(value)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _sum(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    return ModelUsage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
    )
