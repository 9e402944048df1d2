"""A kind of subagent, and the kinds that are built in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zett_agent._checks import has_method, whole_number
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.model import AgentModel, ReasoningEffort
from zett_agent.tools.base import AgentTool

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
NAME_LENGTH = 64


@dataclass(frozen=True)
class SubAgentDefinition:
    """A kind of subagent: what it is for, and the agent that each child of this kind is.

    The extensions are shared by all children of the kind. Raises ValueError for a name that is not lower case with
    digits, ``_`` and ``-``, for blank texts, for ``max_iterations`` below 1 and for tools of the same name, and
    TypeError for what is no model, tool or extension.
    """

    name: str
    description: str
    system_prompt: str
    model: AgentModel
    tools: Sequence[AgentTool] = ()
    extensions: Sequence[AgentExtension] = ()
    reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM
    max_iterations: int = 18

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or len(self.name) > NAME_LENGTH:
            raise ValueError(f"name must match {_NAME.pattern}, at most {NAME_LENGTH} characters, not {self.name!r}")
        for field in ("description", "system_prompt"):
            if not isinstance(value := getattr(self, field), str) or not value.strip():
                raise ValueError(f"{field} of the subagent {self.name!r} must not be blank")
        whole_number("max_iterations", self.max_iterations, 1)
        has_method("model", self.model, "stream", "AgentModel")
        _check_list("tools", self.tools, AgentTool)
        _check_list("extensions", self.extensions, AgentExtension)
        names = [offered.name for offered in self.tools]
        if len(set(names)) != len(names):
            raise ValueError(f"tools of the subagent {self.name!r} have the same name: {', '.join(names)}")


def _check_list(name: str, given: object, kind: type) -> None:
    if not isinstance(given, Sequence) or not all(isinstance(item, kind) for item in given):
        raise TypeError(f"{name} must be a list of {kind.__name__} objects, not {given!r:.100}")


_REASONING = (
    "You are a subagent that thinks problems through. You see only the task below, not the conversation it comes from. "
    "Work it out step by step, check the result against the task, and say what you assumed and what stays open. "
    "Your last message is the report: it is all that is read, so make it complete in itself, and as short as it can be."
)
_EXPLORE = (
    "You are a subagent that finds things out and changes nothing. You see only the task below, not the conversation "
    "it comes from. Look, quote what you found and where, and tell facts from guesses. "
    "Your last message is the report: it is all that is read, so make it complete in itself, and as short as it can be."
)
#: Holds no state and no resource, so one instance serves every agent.
_GUIDELINES = ToolGuidelinesExtension()


def default_subagents(model: AgentModel) -> tuple[SubAgentDefinition, ...]:
    """The built-in profiles on ``model``: ``reasoning`` thinks hard, ``explore`` looks around quickly.

    A child's session lives in memory, for its one request. Neither profile brings tools: give a definition of your own
    the tools and extensions that its children may use.
    """
    return (
        SubAgentDefinition(
            "reasoning",
            "Thinks a hard, self-contained question through and reports the conclusion.",
            _REASONING,
            model,
            extensions=(_GUIDELINES,),
            reasoning_effort=ReasoningEffort.HIGH,
        ),
        SubAgentDefinition(
            "explore",
            "Answers a narrow question quickly, without changing anything.",
            _EXPLORE,
            model,
            extensions=(_GUIDELINES,),
            reasoning_effort=ReasoningEffort.LOW,
        ),
    )
