"""Where a stopped conversation can go on, told from the end of its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from zett_agent.exceptions import AgentResumeError
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason

#: The attribute of a last answer that a limit asked for; its value names the limit.
FINAL_TURN = "final_turn"


class ResumeKind(StrEnum):
    """What a resumed request does first."""

    CALL_MODEL = "call_model"
    RECOVER_TOOLS = "recover_tools"
    RETRY_RESPONSE = "retry_response"
    CONTINUE_RESPONSE = "continue_response"
    CONTINUE_WORK = "continue_work"


@dataclass(frozen=True)
class ResumePoint:
    """Where a session can go on."""

    kind: ResumeKind
    description: str
    unanswered_tool_calls: tuple[ToolCall, ...] = ()
    stop: StopInfo | None = None


_STOPPED = {
    StopReason.INTERRUPTED: (ResumeKind.RETRY_RESPONSE, "the last answer was cut off and is asked for again"),
    StopReason.MAX_OUTPUT: (ResumeKind.CONTINUE_RESPONSE, "the last answer reached the output limit and is continued"),
    StopReason.PAUSED: (ResumeKind.CALL_MODEL, "the model paused and goes on"),
}
_REFUSED = {
    StopReason.REFUSAL: ("refused", "the model refused; send another message"),
    StopReason.CONTEXT_FULL: ("context_full", "the context is full; compact the session first"),
}


def classify_resume(messages: Sequence[AnyMessage]) -> ResumePoint:
    """Say what resuming would do; AgentResumeError when there is nothing to resume. Looks at the last batch only."""
    results: set[str] = set()
    for message in reversed(messages):
        match message:
            case SystemMessage():
                continue
            case ToolMessage():
                results.add(message.tool_call_id)
            case UserMessage() | AgentMessage() if not results:
                return ResumePoint(ResumeKind.CALL_MODEL, "the last message waits for an answer")
            case AssistantMessage() if message.tool_calls:
                return _after_calls(message, results)
            case AssistantMessage() if not results:
                return _after_answer(message)
            case _:
                break
    if results:
        raise AgentResumeError("malformed", "the history ends with tool results that no assistant message asked for")
    raise AgentResumeError("empty", "the session has no messages")


def _after_calls(message: AssistantMessage, results: set[str]) -> ResumePoint:
    missing = tuple(call for call in message.tool_calls if call.id not in results)
    if not missing:
        return ResumePoint(ResumeKind.CALL_MODEL, "every call has its result; the model is next")
    return ResumePoint(ResumeKind.RECOVER_TOOLS, f"{len(missing)} calls have no result", missing, message.stop)


def _after_answer(message: AssistantMessage) -> ResumePoint:
    stop = message.stop
    if FINAL_TURN in message.attributes and (stop is None or stop.reason not in _REFUSED):
        return ResumePoint(ResumeKind.CONTINUE_WORK, "a limit ended the work, which goes on", stop=stop)
    if stop is None or stop.ok:
        raise AgentResumeError("completed", "the last answer is complete; send a new message instead")
    if stop.reason in _STOPPED:
        kind, description = _STOPPED[stop.reason]
        return ResumePoint(kind, description, stop=stop)
    reason, text = _REFUSED.get(stop.reason, ("unknown_stop", f"the model stopped: {stop.describe()}"))
    raise AgentResumeError(reason, text)
