"""What a permission policy is, and how a call is judged by one."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from typing_extensions import TypeAliasType

from zett_agent.model import ToolDefinition

_LOG = logging.getLogger("zett_agent")


class PermissionDecision(StrEnum):
    """What a policy says of a call, from the mildest to the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call as a policy sees it: the name under which the tool is offered, and its arguments.

    ``arguments`` are as the tool's function takes them, written as JSON: converted, with defaults filled in; ``sent``
    is what the model wrote, and what a person would edit. ``path`` are the ids of the sessions above this one, the
    outermost first; it is empty outside of subagents. ``definition`` is what the model knows of the tool. ``reason`` is
    why a person is asked; a policy finds None there.
    """

    tool: str
    arguments: Mapping[str, Any]
    sent: Mapping[str, Any]
    session_id: str
    request_id: str
    tool_call_id: str
    path: tuple[str, ...] = ()
    definition: ToolDefinition | None = None
    reason: str | None = None


Judgement = TypeAliasType("Judgement", PermissionDecision | str | tuple[PermissionDecision | str, str | None] | None)
PermissionJudge = TypeAliasType("PermissionJudge", Callable[[PermissionRequest], Judgement | Awaitable[Judgement]])


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """A decision on the calls of the tools that ``tool`` matches, a name or a pattern such as ``"write_*"``.

    ``when`` looks at the arguments and says whether the rule is about this call.
    """

    tool: str
    decision: PermissionDecision | str
    reason: str | None = None
    when: Callable[[Mapping[str, Any]], bool] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str) or not self.tool.strip():
            raise ValueError("tool must be a name or a pattern, not blank")
        if self.when is not None and not callable(self.when):
            raise TypeError(f"when must be a callable or None, not {type(self.when).__name__}")
        object.__setattr__(self, "decision", PermissionDecision(self.decision))

    def matches(self, request: PermissionRequest) -> bool:
        """True when the rule is about this call."""
        return fnmatchcase(request.tool, self.tool) and (self.when is None or bool(self.when(request.arguments)))


PermissionPolicy = TypeAliasType("PermissionPolicy", PermissionJudge | Sequence[PermissionRule])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of judging a call."""

    decision: PermissionDecision
    reason: str | None = None


def checked_policy(policy: PermissionPolicy) -> PermissionPolicy:
    """The policy, rules as a tuple; TypeError when it is neither a callable nor rules."""
    if callable(policy):
        return policy
    given: object = policy
    if isinstance(given, PermissionRule) or not isinstance(given, Iterable):
        raise TypeError(f"a policy is a callable or a sequence of PermissionRule, not a single {type(given).__name__}")
    rules = tuple(policy)
    for rule in rules:
        if not isinstance(rule, PermissionRule):
            raise TypeError(f"a policy is a callable or a sequence of PermissionRule, not of {type(rule).__name__}")
    return rules


async def judge(policy: PermissionPolicy, request: PermissionRequest, default: PermissionDecision) -> Verdict:
    """What ``policy`` says of the call. A policy that fails, or says what is no decision, denies."""
    try:
        if callable(policy):
            said = policy(request)
            return _verdict(await said if inspect.isawaitable(said) else said, default)
        rule = next((rule for rule in policy if rule.matches(request)), None)
        return Verdict(default) if rule is None else Verdict(PermissionDecision(rule.decision), rule.reason)
    except Exception as error:
        _LOG.warning("the permission policy failed on a call of %s, which is denied", request.tool, exc_info=error)
        return Verdict(PermissionDecision.DENY, f"the permission policy failed with {type(error).__name__}")


def _verdict(said: object, default: PermissionDecision) -> Verdict:
    if said is None:
        return Verdict(default)
    decision, reason = said if isinstance(said, tuple) else (said, None)
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"a reason must be text, not {type(reason).__name__}")
    return Verdict(PermissionDecision(decision), reason)
