"""Subagents in the foreground: a tool that hands work to another agent and waits for its report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.subagent_events import forward
from zett_agent.extensions.subagent_tree import Caps, Child, Place, Roster, whole_number, with_inherited
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.ids import new_uuid7
from zett_agent.messages import AssistantMessage
from zett_agent.model import AgentModel, ReasoningEffort
from zett_agent.stop import StopInfo
from zett_agent.tools.base import AgentTool, tool
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "SubAgentDefinition",
    "SubAgentExtension",
    "SubAgentResult",
    "default_subagents",
    "subagent_report",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_NAME_LENGTH = 64
_REMEMBERED_MODELS = 8

Description = Annotated[str, Field(min_length=1, max_length=120)]
Prompt = Annotated[str, Field(min_length=1, max_length=100_000)]
SubAgentName = Annotated[str, Field(min_length=1, max_length=_NAME_LENGTH)]


@dataclass(frozen=True)
class SubAgentDefinition:
    """A kind of subagent: what it is for, and the agent that each child of this kind is.

    The extensions are shared by all children of the kind. Raises ValueError for a name that is not lower case with
    digits, ``_`` and ``-``, for blank texts, for ``max_iterations`` below 1 and for tools of the same name.
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
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or len(self.name) > _NAME_LENGTH:
            raise ValueError(f"name must match {_NAME.pattern}, at most {_NAME_LENGTH} characters, not {self.name!r}")
        for field in ("description", "system_prompt"):
            if not isinstance(value := getattr(self, field), str) or not value.strip():
                raise ValueError(f"{field} of the subagent {self.name!r} must not be blank")
        whole_number("max_iterations", self.max_iterations, 1)
        names = [offered.name for offered in self.tools]
        if len(set(names)) != len(names):
            raise ValueError(f"tools of the subagent {self.name!r} have the same name: {', '.join(names)}")


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


class SubAgentExtension(AgentExtension):
    """Offers ``task``: a subagent works in a session of its own, and its report is the result of the call.

    ``max_depth`` bounds the levels below the root, ``max_children`` those that run at once for a session, ``max_total``
    what a request may start in its whole tree; a child shares what is left. Children inherit what the extensions of the
    parent hand on (``for_child``). Their questions are shown on the parent's stream and answered through the parent's
    agent, with the child's session in the config; with ``forward_events`` everything else of them is shown too, as
    CUSTOM ``subagent_event``. Bad options raise ValueError.
    """

    def __init__(
        self,
        subagents: Sequence[SubAgentDefinition] | None = None,
        *,
        max_depth: int = 2,
        max_children: int = 16,
        max_total: int = 100,
        forward_events: bool = False,
    ) -> None:
        self.forward_events = forward_events
        self._given = None if subagents is None else _by_name(subagents)
        self._built_in: list[tuple[AgentModel, Mapping[str, SubAgentDefinition]]] = []
        self._caps = Caps(max_depth, max_children, max_total)
        self._roster: Roster = {}
        self._starting: Counter[str] = Counter()
        # Places of children, while they run, and of requests, while their context lives.
        self._places: dict[str, Place] = {}
        self._roots: WeakKeyDictionary[AgentRunContext, Place] = WeakKeyDictionary()
        self._choices: WeakKeyDictionary[AgentRunContext, Mapping[str, SubAgentDefinition]] = WeakKeyDictionary()
        self._task_tool = tool(self._task, name="task")

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register the tools for this request."""
        for offered in self.build_tools(context, self._definitions(context)):
            context.register_tool(offered)

    def build_tools(
        self, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
    ) -> tuple[AgentTool, ...]:
        """The tools for one request; ``subagents`` maps the names that the model may choose to their definitions."""
        return (self._with_choices(self._task_tool, context, subagents),)

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Pass an event for the session of a running child, at any depth, on to that child."""
        child = self._roster.get(config.session_id or "") if config is not None else None
        return child is not None and bool(child.agent.emit_external_event(event, config=config))

    def open_waits(self, session_id: str | None = None) -> Sequence[Wait]:
        """The open questions of running children, and of theirs."""
        return [wait for _, wait in self._questions(session_id)]

    def choose(self, context: AgentRunContext, name: str) -> SubAgentDefinition:
        """The definition that the request offers under this name; ValueError names those that there are."""
        choices = self._choices.get(context, {})
        if name not in choices:
            raise ValueError(f"there is no subagent {name!r}; choose one of {', '.join(choices)}")
        return choices[name]

    async def end_session(self, session_id: str) -> None:
        """The session of a child that used this extension is over; what it left running is stopped."""

    async def _task(
        self, description: Description, prompt: Prompt, subagent_type: SubAgentName, context: AgentRunContext
    ) -> SubAgentResult:
        """Give a self-contained piece of work to a subagent and wait for its report.

        The subagent starts without any knowledge of this conversation, and nothing but its report comes back.

        Args:
            description: What the work is, in a few words, for people who watch.
            prompt: The whole task: the goal, what is known already, the limits, and what the report must hold.
            subagent_type: Which kind of subagent.

        Snippet:
            Give a self-contained piece of work to a subagent and get its report.

        Guidelines:
            - Send independent pieces of work in one response; their subagents work at the same time.
            - Write into the prompt all that the subagent must know; it cannot ask you.
            - Do small things yourself.
        """
        child = await self._open_child(self.choose(context, subagent_type), context)

        async def show(event: AgentEvent) -> None:
            await forward(context, child, event, everything=self.forward_events)

        try:
            answer = await child.run(prompt, show)
        finally:
            await self._close_child(child)
        return SubAgentResult(
            session_id=child.session_id,
            parent_session_id=child.parent_session_id,
            subagent_type=child.name,
            content=subagent_report(answer),
            stop=answer.stop,
        )

    async def _create_child(
        self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
    ) -> Agent:
        """Build the agent of one child. Override to change it; ``with_inherited`` is what hands policies on."""
        return await Agent.create(
            definition.model,
            config=AgentRunConfig(session_id=child_session_id, parent_session_id=context.session_id),
            system_prompt=definition.system_prompt,
            tools=definition.tools,
            extensions=with_inherited(definition.extensions, context.extensions),
            reasoning_effort=definition.reasoning_effort,
            max_iterations=definition.max_iterations,
        )

    async def _open_child(self, definition: SubAgentDefinition, context: AgentRunContext) -> Child:
        """Admit, create and register a child; ValueError when a bound is reached. The caller owes ``_close_child``."""
        session_id, parent_id = new_uuid7(), context.session_id
        running = len(self._children(parent_id)) + self._starting[parent_id]
        if running >= self._caps.max_children:
            raise ValueError(f"{running} subagents of this session run already, which is the most: wait for one to end")
        place = self._place(context).admit(definition.name, self._caps, self._roster)
        self._starting[parent_id] += 1
        try:
            agent = await self._create_child(definition, session_id, context)
        finally:
            self._starting -= Counter((parent_id,))  # drops the entry at zero
        child = Child(session_id, parent_id, definition.name, place, agent)
        child.enter()
        for extension in _family(agent.extensions):
            extension._places[session_id] = place
        return child

    async def _close_child(self, child: Child) -> None:
        """Stop what the child left running, and forget it."""
        async with AsyncExitStack() as ending:  # each is told, whatever another one raises
            ending.callback(self._drop_child, child)
            for extension in _family(child.agent.extensions):
                ending.push_async_callback(extension.end_session, child.session_id)

    def _drop_child(self, child: Child) -> None:
        child.leave()
        for extension in _family(child.agent.extensions):
            extension._places.pop(child.session_id, None)

    def _children(self, session_id: str | None) -> list[Child]:
        return [child for child in tuple(self._roster.values()) if session_id in (None, child.parent_session_id)]

    def _questions(self, session_id: str | None) -> list[tuple[Child, Wait]]:
        found = []
        for child in self._children(session_id):
            waits = child.agent.pending_waits(config=AgentRunConfig(session_id=child.session_id))
            # A wait of a grandchild is shown as the grandchild's, which is in the roster too.
            found += [(self._roster.get(wait.session_id, child), wait) for wait in waits]
        return found

    def _place(self, context: AgentRunContext) -> Place:
        """Where the request's session stands; all extensions of this kind in the request have one answer."""
        family = _family(context.extensions) or [self]
        for extension in family:
            if context.session_id in extension._places:
                return extension._places[context.session_id]
        return family[0]._roots.setdefault(context, Place())

    def _definitions(self, context: AgentRunContext) -> Mapping[str, SubAgentDefinition]:
        if self._given is not None:
            return self._given
        for model, profiles in self._built_in:
            if model is context.model:
                return profiles
        profiles = _by_name(default_subagents(context.model))
        self._built_in = [(context.model, profiles), *self._built_in[: _REMEMBERED_MODELS - 1]]
        return profiles

    def _with_choices(
        self, template: AgentTool, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
    ) -> AgentTool:
        """``template`` with the names in its schema and their descriptions in its guidelines."""
        self._choices[context] = subagents
        properties = dict(template.parameters["properties"])
        properties["subagent_type"] = {**properties["subagent_type"], "enum": list(subagents)}
        lines = [f"subagent_type {profile.name}: {profile.description}" for profile in subagents.values()]
        return replace(
            template,
            parameters={**template.parameters, "properties": properties},
            guidelines=(*template.guidelines, *lines),
        )


def _family(extensions: Sequence[object]) -> list[SubAgentExtension]:
    return [extension for extension in extensions if isinstance(extension, SubAgentExtension)]


def _by_name(subagents: Sequence[SubAgentDefinition]) -> Mapping[str, SubAgentDefinition]:
    named = {definition.name: definition for definition in subagents}
    if not named:
        raise ValueError("subagents must not be empty; leave it out for the built-in profiles")
    if len(named) != len(subagents):
        raise ValueError(f"two subagents have the same name: {', '.join(item.name for item in subagents)}")
    return named


def _known(value: Any) -> Any:
    """``value`` without entries that are None or empty, at every level."""
    if isinstance(value, dict):
        kept = {key: _known(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {}}
    return value
