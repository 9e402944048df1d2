"""What the model is told of a subagent that has ended, or goes on in the background."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from zett_agent.messages import AssistantMessage
from zett_agent.stop import StopInfo


class SubAgentReport(BaseModel):
    """Base of what the model is told of a subagent; what is not known is left out."""

    model_config = ConfigDict(frozen=True)

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        known: dict[str, Any] = _known(handler(self))
        return known


class SubAgentResult(SubAgentReport):
    """What a subagent reports; ``stop`` says why when it ended abnormally."""

    session_id: str
    parent_session_id: str
    subagent_type: str
    content: str
    stop: StopInfo | None = None


def subagent_report(result: AssistantMessage) -> str:
    """The text of a child's last answer, headed by a notice when it is not a complete one."""
    if result.stop is None or result.stop.ok:
        return result.content
    return f"[Incomplete: the subagent stopped, {result.stop.describe()}]\n\n{result.content}".rstrip()


def _known(value: Any) -> Any:
    """``value`` without entries that are None or empty, at every level."""
    if isinstance(value, dict):
        kept = {key: _known(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {}}
    return value
