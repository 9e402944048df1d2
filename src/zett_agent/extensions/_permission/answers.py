"""What a person, or an approver in code, decides about a call that is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from zett_agent.json_types import JsonValue, json_object


class PermissionAnswerKind(StrEnum):
    """The decisions on a held call."""

    APPROVE = "approve"
    REJECT = "reject"
    RESPOND = "respond"


_FIELDS = {
    PermissionAnswerKind.APPROVE: "arguments",
    PermissionAnswerKind.REJECT: "message",
    PermissionAnswerKind.RESPOND: "result",
}


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """A decision on a held call; ValueError when the parts do not go together.

    ``approve`` runs it, with ``arguments`` in the place of the model's when they are given. ``reject`` fails it with
    ``message``. ``respond`` does not run it and gives ``result`` (text, or other JSON) as what it returned.
    """

    decision: PermissionAnswerKind | str
    arguments: Mapping[str, Any] | None = None
    message: str | None = None
    result: JsonValue = None

    def __post_init__(self) -> None:
        kind = PermissionAnswerKind(self.decision)
        object.__setattr__(self, "decision", kind)
        given = {name for name in _FIELDS.values() if getattr(self, name) is not None}
        if stray := given - {_FIELDS[kind]}:
            raise ValueError(f"{kind.value} takes no {', '.join(sorted(stray))}")
        if self.arguments is not None:
            object.__setattr__(self, "arguments", json_object(self.arguments, field_name="arguments"))
        if self.message is not None and not isinstance(self.message, str):
            raise ValueError("message must be text")
        if kind is PermissionAnswerKind.RESPOND and (self.result is None or not str(self.result).strip()):
            raise ValueError("respond needs a result that is not empty")
        json_object({"result": self.result}, field_name="answer")

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], *, ignored: frozenset[str] = frozenset()) -> Self:
        """Read the payload of an answer; ValueError for what is unknown, missing or not JSON.

        A key that nobody knows is refused, too: a misspelt ``arguments`` must not approve the unedited call.
        """
        fields = {key: value for key, value in payload.items() if key not in ignored}
        unknown = fields.keys() - {"decision", *_FIELDS.values()}
        if unknown or "decision" not in fields:
            raise ValueError(f"a decision is needed, and {', '.join(sorted(unknown)) or 'nothing'} is not known")
        return cls(**fields)

    @classmethod
    def from_approver(cls, said: object) -> Self:
        """Read what an ``approve`` callback returned: True, False, a kind, a mapping as in a payload, or an answer."""
        if isinstance(said, cls):
            return said
        if isinstance(said, bool):
            return cls(PermissionAnswerKind.APPROVE if said else PermissionAnswerKind.REJECT)
        if isinstance(said, Mapping):
            return cls.from_payload(said)
        if isinstance(said, str):
            return cls(said)
        raise ValueError(f"an approver returns True, False or a decision, not {type(said).__name__}")
