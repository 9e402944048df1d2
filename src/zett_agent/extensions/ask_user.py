"""Asking the user: a tool whose call waits until a person has answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from zett_agent._checks import time_limit
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import ToolTimeoutError
from zett_agent.extensions._ask_user.parts import (
    AskUserImagePart,
    AskUserMaxImageBytes,
    AskUserMaxImages,
    AskUserResponse,
    AskUserTextPart,
    answer_content,
)
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.json_types import JsonValue, json_object
from zett_agent.messages import ToolCall, UserContentPart
from zett_agent.tools.base import AgentTool, tool
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "ASK_USER_EVENT_NAME",
    "ASK_USER_RESPONSE_EVENT_NAME",
    "ASK_USER_TOOL_NAME",
    "AskUserEvent",
    "AskUserExtension",
    "AskUserImagePart",
    "AskUserMaxImageBytes",
    "AskUserMaxImages",
    "AskUserRequest",
    "AskUserResponse",
    "AskUserResult",
    "AskUserTextPart",
]

ASK_USER_TOOL_NAME = "ask_user"
ASK_USER_EVENT_NAME = "ask_user"
ASK_USER_RESPONSE_EVENT_NAME = "ask_user_response"

_CORRELATION = "tool_call_id"

Question = Annotated[str, Field(min_length=1, max_length=4000)]
Option = Annotated[str, Field(min_length=1, max_length=500)]
Options = Annotated[list[Option], Field(max_length=20)]


class AskUserRequest(BaseModel):
    """What the model asks."""

    question: Question
    options: Options | None = None
    allow_multiple: bool = False


class AskUserResult(BaseModel):
    """What the model gets when the answer has no ``parts``: the answer's payload, unchanged."""

    name: str
    payload: dict[str, Any]


class AskUserEvent(AgentEvent):
    """The CUSTOM event ``ask_user``; its payload is the question and says how to answer it."""

    __slots__ = ()

    def __init__(self, session_id: str, call: ToolCall, request: AskUserRequest) -> None:
        payload = {
            "session_id": session_id,
            _CORRELATION: call.id,
            "question": request.question,
            "options": list(request.options or ()),
            "allow_multiple": request.allow_multiple,
            "response_event": ASK_USER_RESPONSE_EVENT_NAME,
        }
        super().__init__(AgentEventType.CUSTOM, session_id, name=ASK_USER_EVENT_NAME, payload=payload)


class AskUserExtension(ExternalEventExtension):
    """Gives the model the tool ``ask_user``; a call of it waits, before TOOL_STARTED, for an ``ask_user_response``.

    The answer is an ``ExternalEvent`` whose payload has the question's ``tool_call_id``; the rest of it is the
    application's and reaches the model unchanged, or as text and images when it has ``parts``. ``strict_options``
    refuses an ``answer`` that is not among the options, and the question stays open. After ``timeout`` seconds
    ``default`` is the answer, and the result says so; without a default that fits, the call fails. A question without a
    timeout stays open until it is answered or its request ends.
    """

    #: Behind the extensions that gate calls: what they refuse is not asked.
    priority = 1_200_000

    def __init__(
        self, *, strict_options: bool = False, timeout: float | None = None, default: JsonValue = None
    ) -> None:
        super().__init__(response_event_name=ASK_USER_RESPONSE_EVENT_NAME, correlation_field=_CORRELATION)
        self.strict_options = strict_options
        self.timeout = time_limit("timeout", timeout)
        if default is not None and timeout is None:
            raise ValueError("default is what answers when the timeout is over; give a timeout, too")
        self.default = json_object({"default": default}, field_name="default")["default"]
        # Of open questions with options, when those are strict: whoever shows a question may edit what it shows.
        self._choices: dict[tuple[str, str], AskUserRequest] = {}
        self._tool = self._make_tool()

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register the tool; it finds its answer through the context that it runs in."""
        context.register_tool(self._tool)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Ask, and hold the call until it is answered. A call that will fail anyhow is not asked."""
        if call.name != ASK_USER_TOOL_NAME or call.error is not None:
            return
        try:
            request = AskUserRequest.model_validate(call.arguments)
        except ValidationError:
            return  # another hook changed the arguments; the runtime checks them again and says what is wrong
        default = self._default_answer(call.id, request)
        key, strict = (context.session_id, call.id), False
        try:
            async with self._wait_for_external_event(context, call.id, timeout=self.timeout, default=default):
                if self.strict_options:
                    self._choices[key], strict = request, True
                await context.emit(AskUserEvent(context.session_id, call, request))
                del request  # the wait may be long, and many may wait
        except ToolTimeoutError:
            call.error = f"Nobody answered within {self.timeout:g} seconds, and no default answer fits."
        finally:
            if strict:
                del self._choices[key]

    def validate_answer(self, wait: Wait, event: ExternalEvent) -> bool:
        """With ``strict_options`` and a question that has options: is the answer among them?"""
        asked = self._choices.get((wait.session_id, wait.id))
        if asked is None:
            return True
        return self._fits(event.payload, asked.options or [], allow_multiple=asked.allow_multiple)

    def _fits(self, payload: Mapping[str, Any], options: Sequence[str], *, allow_multiple: bool) -> bool:
        if not self.strict_options or not options:
            return True
        answer = payload.get("answer")
        chosen = answer if isinstance(answer, list) and allow_multiple else [answer]
        return bool(chosen) and "parts" not in payload and all(choice in options for choice in chosen)

    def _default_answer(self, call_id: str, request: AskUserRequest) -> ExternalEvent | None:
        if self.default is None:
            return None
        note = f"Nobody answered within {self.timeout:g} seconds; this is the default answer."
        payload = {_CORRELATION: call_id, "answer": self.default, "is_default": True, "note": note}
        if not self._fits(payload, request.options or [], allow_multiple=request.allow_multiple):
            return None
        return ExternalEvent(ASK_USER_RESPONSE_EVENT_NAME, payload)

    def _make_tool(self) -> AgentTool:
        @tool(name=ASK_USER_TOOL_NAME)
        async def ask_user(
            question: Question, context: ToolContext, options: Options | None = None, allow_multiple: bool = False
        ) -> AskUserResult | list[UserContentPart]:
            """Ask the user a question and wait for the answer.

            Args:
                question: The question, complete in itself: the user may not see what came before.
                options: Answers to choose from; leave it out for a free answer.
                allow_multiple: Whether several options may be chosen.

            Snippet:
                ask_user(question="Which format?", options=["Markdown", "Plain text"])

            Guidelines:
                - Ask when only the user can decide or know; find out by yourself what you can.
                - Ask for one thing at a time, and offer options where they are known.
                - An answer is information, not permission for anything that was not asked.
            """
            answer = self._take_external_event(context.run)
            return answer_content(answer.payload) or AskUserResult(name=answer.name, payload=answer.payload)

        return ask_user
