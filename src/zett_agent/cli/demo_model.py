"""The model of ``zett demo``: it needs no network, and what it says follows from what it was told.

It reads the conversation in each request as any model does: the results of its calls, the user's steering, the notice
about its background task. No counter decides what comes next.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, ModelUsage, RetryOptions, ToolCallDelta

VERSIONS = ("3.0.0", "2.4.0", "2026.1")
TASK = (
    "Go through the open issues and summarise what could go wrong with this release. "
    "Answer with one line per risk, the worst first."
)


@dataclass(frozen=True)
class Step:
    """What the model does next: think, speak, call."""

    text: str
    reasoning: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = field(default=())
    #: True where the model takes its time over the arguments of its calls, so that a person can still change its mind.
    hesitant: bool = False


class PlannedModel:
    """An AgentModel that asks ``plan`` what to do and streams it word by word, ``pause`` seconds apart.

    ``hesitation`` is how long it takes over the arguments of calls that it is not sure of.
    """

    def __init__(self, plan: Callable[[Told], Step], *, pause: float, hesitation: float = 0.0) -> None:
        self.retry = RetryOptions(max_retries=0)
        self._plan = plan
        self._pause = pause
        self._hesitation = hesitation

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next step."""
        step = self._plan(Told(request.messages))
        for word in _words(step.reasoning):
            yield ModelEvent.reasoning(word)
            await asyncio.sleep(self._pause)
        for word in _words(step.text):
            yield ModelEvent.text(word)
            await asyncio.sleep(self._pause)
        offset = sum(isinstance(message, AssistantMessage) for message in request.messages)
        calls = [ToolCall(f"call-{offset}-{at}", name, given) for at, (name, given) in enumerate(step.calls)]
        for index, call in enumerate(calls):
            yield ModelEvent.tool_call(ToolCallDelta(index, id_delta=call.id, name_delta=call.name))
            await asyncio.sleep(self._hesitation if step.hesitant else self._pause)
            yield ModelEvent.tool_call(ToolCallDelta(index, arguments_delta=json.dumps(call.arguments)))
            await asyncio.sleep(self._pause)
        message = AssistantMessage(content=step.text, reasoning=step.reasoning or None, tool_calls=calls)
        usage = ModelUsage(_tokens(*(_text(said) for said in request.messages)), _tokens(step.reasoning, step.text))
        yield ModelEvent.completed(ModelResponse(message, "tool_calls" if calls else "stop", usage))


class Told:
    """What a conversation says so far."""

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self._results = [message for message in messages if isinstance(message, ToolMessage)]
        self.wishes = [message.text for message in messages if isinstance(message, UserMessage)][1:]
        self.notices = [message.content for message in messages if isinstance(message, AgentMessage)]

    def result(self, tool: str) -> ToolMessage | None:
        """The last result of ``tool`` that was not skipped for a newer message of the user."""
        found = [result for result in self._results if result.name == tool]
        ran = [result for result in found if result.success or not result.text.startswith("Not run")]
        return ran[-1] if ran else None

    def data(self, tool: str) -> dict[str, Any]:
        """The same as JSON, which may stand behind a remark; empty when there is none."""
        result = self.result(tool)
        try:
            value = json.loads(result.text.rpartition("\n")[2]) if result is not None else {}
        except ValueError:
            value = {}
        return value if isinstance(value, dict) else {}

    @property
    def version(self) -> str:
        """The version number that the user chose."""
        answer = self.data("ask_user").get("payload", {}).get("answer")
        return str(answer) if answer else VERSIONS[0]

    @property
    def draft_is_current(self) -> bool:
        """Whether the announcement is written, and to the user's last wish."""
        written = self.result("draft_announcement") is not None
        return written and (not self.wishes or self.data("draft_announcement").get("wish") == self.wishes[-1])

    @property
    def task_id(self) -> str:
        """The background task."""
        return str(self.data("task_start").get("task_id", "task-1"))


def release(told: Told) -> Step:
    """The next step towards a release."""
    if told.result("run_tests") is None:
        return _look_around()
    if told.result("ask_user") is None:
        return _ask(told)
    if told.result("publish") is None and not told.draft_is_current:
        return _draft_short(told) if told.wishes else _draft_long(told)
    if told.result("task_output") is None and told.result("task_start") is not None:
        return _read_report(told)
    if told.result("publish") is None:
        return _publish(told)
    return Step(_final(told))


def research(told: Told) -> Step:
    """The next step of the researcher in the background."""
    if told.result("list_issues") is None:
        return Step("", reasoning="The open issues will tell.", calls=[("list_issues", {"label": "risk"})])
    risks = told.data("list_issues").get("issues", [])
    return Step("\n".join(f"{risk['severity']}: {risk['title']}" for risk in risks) or "No open risks.")


def _look_around() -> Step:
    return Step(
        "I'll run the tests and read the changelog side by side. Meanwhile a researcher goes through the open "
        "issues in the background.",
        reasoning="Tests and changelog do not depend on each other, so both at once. The open issues take longer; "
        "nothing else has to wait for them.",
        calls=[
            ("run_tests", {"suite": "all"}),
            ("read_changelog", {"since": "2.3.0"}),
            ("task_start", {"description": "Summarise open risks", "prompt": TASK, "subagent_type": "researcher"}),
        ],
    )


def _ask(told: Told) -> Step:
    tests, changes = told.data("run_tests"), told.data("read_changelog")
    return Step(
        f"{tests.get('passed', 0)} tests pass, {tests.get('failed', 0)} fail. "
        f"The changelog has {len(changes.get('added', []))} additions and one breaking change: "
        f"{changes.get('breaking', ['none'])[0]}.",
        reasoning="A breaking change asks for a new major version, but how versions are numbered is not mine to say.",
        calls=[
            (
                "ask_user",
                {
                    "question": "Which version number should this release get? "
                    "(It breaks something, so semantic versioning says 3.0.0.)",
                    "options": list(VERSIONS),
                },
            )
        ],
    )


def _draft_long(told: Told) -> Step:
    return Step(
        f"{told.version} it is. Now the announcement. I see five sections: a warm introduction, everything that is new "
        "with an example each, how to migrate step by step, thanks to everyone who helped, and a look ahead at what "
        "comes next year. That will be about two pages.",
        calls=[("draft_announcement", {"version": told.version, "sections": 5})],
        hesitant=True,
    )


def _draft_short(told: Told) -> Step:
    wish = told.wishes[-1]
    return Step(
        f"You said “{wish}”, so I start the announcement anew.",
        calls=[("draft_announcement", {"version": told.version, "sections": 1, "wish": wish})],
    )


def _read_report(told: Told) -> Step:
    if told.notices:
        return Step(
            "I was just told that the researcher has finished, so I read its report.",
            calls=[("task_output", {"task_id": told.task_id})],
        )
    return Step(
        "The researcher is still at work, and I want its report before anything is published.",
        calls=[("task_output", {"task_id": told.task_id, "wait_seconds": 30})],
    )


def _publish(told: Told) -> Step:
    return Step(
        "Nothing in the report stands against it. Publishing cannot be undone, so you have the last word.",
        calls=[("publish", {"version": told.version, "channel": "stable"})],
    )


def _final(told: Told) -> str:
    published, result = told.data("publish"), told.result("publish")
    if published:
        head = f"Lantern {published.get('version')} is published on the channel {published.get('channel')}."
    else:
        head = f"Lantern {told.version} is not published. You said: {_text(result)}"
    tests, draft = told.data("run_tests"), told.data("draft_announcement")
    risks = str(told.data("task_output").get("content") or "unknown").splitlines()
    lines = [
        head,
        f"- Tests: {tests.get('passed')} passed",
        f"- Risks: {'; '.join(risks)}",
        f"- Announcement: {draft.get('text', '')}",
    ]
    if not told.draft_is_current:
        lines.append(f"- You also said “{told.wishes[-1]}”; I'll keep that in mind for the next release.")
    return "\n".join(lines)


def _words(text: str) -> list[str]:
    """The text in pieces that end where a word ends."""
    return [piece + " " for piece in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def _text(message: object) -> str:
    text = getattr(message, "text", None) or getattr(message, "content", "")
    return text if isinstance(text, str) else ""


def _tokens(*texts: str) -> int:
    return sum(len(text) for text in texts) // 4
