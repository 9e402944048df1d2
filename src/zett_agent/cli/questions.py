"""What a person is asked, and what a typed line means as an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from zett_agent.cli.text import one_line
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.waits import ExternalEvent

ASK_USER = "ask_user"
PERMISSION_REQUEST = "permission_request"
_YES = frozenset({"y", "yes", "ok", "approve"})
_NO = frozenset({"n", "no", "reject"})
_EDIT = frozenset({"e", "edit"})
_RESPOND = frozenset({"r", "respond"})


class Unclear(ValueError):
    """A line that answers nothing; its text says what would."""


@dataclass(frozen=True)
class Choice:
    """A question of the model, perhaps with options."""

    call_id: str
    session_id: str
    question: str
    options: Sequence[str] = ()
    allow_multiple: bool = False
    response_event: str = "ask_user_response"
    title: str = "the agent asks"
    prompt: str = "answer ▸ "

    @property
    def lines(self) -> Sequence[str]:
        """The question and its numbered options."""
        return [self.question, *(f"{number}  {option}" for number, option in enumerate(self.options, 1))]

    @property
    def hint(self) -> str:
        """Numbers when there are options, else text."""
        if not self.options:
            return "type an answer"
        numbers = "numbers such as 1,2" if self.allow_multiple else "a number"
        return f"type {numbers}, or an answer of your own"

    def read(self, line: str) -> ExternalEvent:
        """An option by number or by name, several when that is allowed, or any other text."""
        text = line.strip()
        if not text:
            raise Unclear(self.hint)
        if self.allow_multiple and self.options:
            parts = [part for part in text.replace(",", " ").split() if part]
            if all(part.isdecimal() for part in parts):
                return self._answer([self._option(part) for part in parts])
            return self._answer([text])
        return self._answer(self._option(text) if text.isdecimal() else text)

    def decline(self) -> ExternalEvent:
        """No answer, with the reason."""
        return self._answer(None, note="The user cannot be asked: nobody is at the terminal. Go on as well as you can.")

    def _option(self, text: str) -> str:
        if text in self.options or not self.options:
            return text
        if 1 <= int(text) <= len(self.options):
            return self.options[int(text) - 1]
        if any(option.strip().isdecimal() for option in self.options):
            return text
        raise Unclear(f"there is no option {text}; {self.hint}")

    def _answer(self, answer: object, **more: str) -> ExternalEvent:
        return ExternalEvent(self.response_event, {"tool_call_id": self.call_id, "answer": answer, **more})


@dataclass(frozen=True)
class Approval:
    """A call that runs only if a person lets it."""

    call_id: str
    session_id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    response_event: str = "permission_response"
    title: str = "approval needed"
    prompt: str = "approve? ▸ "
    hint: str = "y = yes · n [why] = no · e {JSON} = other arguments · r TEXT = tell the agent this in its place"

    @property
    def lines(self) -> Sequence[str]:
        """The tool and each of its arguments."""
        shown = (f"  {name} = {one_line(_json(value), limit=200)}" for name, value in self.arguments.items())
        return [f"The agent wants to call {self.tool}", *shown, *([self.reason] if self.reason else [])]

    def read(self, line: str) -> ExternalEvent:
        """A decision: approve, approve with other arguments, reject with a reason, or respond in the tool's place."""
        word, _, rest = line.strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        if word in _YES and not rest:
            return self._decision("approve")
        if word in _NO:
            return self._decision("reject", **({"message": rest} if rest else {}))
        if word in _EDIT:
            return self._decision("approve", arguments=self._edited(rest))
        if word in _RESPOND and rest:
            return self._decision("respond", result=rest)
        raise Unclear(self.hint)

    def decline(self) -> ExternalEvent:
        """A rejection, with the reason."""
        return self._decision("reject", message="Nobody is at the terminal to approve this.")

    def _edited(self, text: str) -> dict[str, Any]:
        """The arguments with those of ``text`` in their place."""
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            example = json.dumps(dict(list(self.arguments.items())[:1]), ensure_ascii=False, default=str)
            raise Unclear(f"give the arguments to change as a JSON object, such as: e {example}")
        return {**self.arguments, **given}

    def _decision(self, decision: str, **more: object) -> ExternalEvent:
        return ExternalEvent(self.response_event, {"tool_call_id": self.call_id, "decision": decision, **more})


Question: TypeAlias = Choice | Approval


def question_of(event: AgentEvent) -> Question | None:
    """The question that ``event`` asks, if it asks one that can be answered in a terminal."""
    payload = event.payload
    if event.type is not AgentEventType.CUSTOM or payload is None or not payload.get("tool_call_id"):
        return None
    call_id = str(payload["tool_call_id"])
    session_id = str(payload.get("session_id") or event.session_id)
    if event.name == ASK_USER:
        return Choice(
            call_id,
            session_id,
            str(payload.get("question", "")),
            [str(option) for option in payload.get("options") or ()],
            payload.get("allow_multiple") is True,
            str(payload.get("response_event", "ask_user_response")),
        )
    if event.name == PERMISSION_REQUEST:
        return Approval(
            call_id,
            session_id,
            str(payload.get("tool", "")),
            dict(payload.get("arguments") or {}),
            str(payload.get("reason") or ""),
            str(payload.get("response_event", "permission_response")),
        )
    return None


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
