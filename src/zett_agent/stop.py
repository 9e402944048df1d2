"""Why a model stopped: one vocabulary over all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from zett_agent.json_types import JsonValue

__all__ = ["StopInfo", "StopReason", "classify_stop"]


class StopReason(StrEnum):
    """The normalized reasons for which a model step ends."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_OUTPUT = "max_output"
    CONTEXT_FULL = "context_full"
    REFUSAL = "refusal"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    OTHER = "other"


_RAW: dict[StopReason, str] = {
    StopReason.END_TURN: "stop end_turn stop_sequence completed",
    StopReason.TOOL_USE: "tool_calls tool_use function_call",
    StopReason.MAX_OUTPUT: "length max_tokens max_output_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded model_length context_length_exceeded",
    StopReason.REFUSAL: (
        "refusal content_filter sensitive safety recitation blocklist prohibited_content spii image_safety"
        " image_prohibited_content image_recitation jailbreak model_armor"
    ),
    StopReason.PAUSED: "pause_turn",
    StopReason.INTERRUPTED: "error network_error insufficient_system_resource aborted",
}
_REASONS = {raw: reason for reason, names in _RAW.items() for raw in names.split()}
_OK = frozenset({StopReason.END_TURN, StopReason.TOOL_USE})
_TRUNCATED = frozenset({StopReason.MAX_OUTPUT, StopReason.CONTEXT_FULL})


@dataclass(frozen=True)
class StopInfo:
    """A stop reason with what the provider said about it; ``raw`` is the provider's own word."""

    reason: StopReason
    raw: str | None = None
    category: str | None = None
    message: str | None = None
    recommended_model: str | None = None
    detail: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True for a normal end and for a step that asks for tools."""
        return self.reason in _OK

    @property
    def refused(self) -> bool:
        """True when the model or its provider declined."""
        return self.reason is StopReason.REFUSAL

    @property
    def truncated(self) -> bool:
        """True when the output or the context limit cut the answer."""
        return self.reason in _TRUNCATED

    def describe(self) -> str:
        """One line for a person: ``reason (label): message``."""
        label = self.category or (self.raw if self.raw != self.reason.value else None)
        text = f"{self.reason.value} ({label})" if label else self.reason.value
        return f"{text}: {self.message}" if self.message else text


def classify_stop(
    raw: str | None,
    *,
    has_tool_calls: bool = False,
    category: str | None = None,
    message: str | None = None,
    recommended_model: str | None = None,
    detail: Mapping[str, JsonValue] | None = None,
) -> StopInfo:
    """Map a provider's finish reason to a StopInfo; an unknown word is ``other``, None is a normal end."""
    if raw is None:
        reason = StopReason.END_TURN
    else:
        reason = _REASONS.get(raw.strip().lower(), StopReason.OTHER)
    if reason is StopReason.END_TURN and has_tool_calls:
        reason = StopReason.TOOL_USE
    if category is None and reason in (StopReason.REFUSAL, StopReason.INTERRUPTED):
        category = raw
    return StopInfo(reason, raw, category, message, recommended_model, detail or {})
