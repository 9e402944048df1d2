"""A tree of agents: where each session stands in it, which children run, and how many more there may be."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from typing_extensions import TypeAliasType

from zett_agent.agent import Agent, drain
from zett_agent.context import ExtensionPort
from zett_agent.events import AgentEvent
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AssistantMessage
from zett_agent.tools.base import CURRENT_CALL

Show = TypeAliasType("Show", Callable[[AgentEvent], Awaitable[None]])


@dataclass(frozen=True, slots=True)
class Caps:
    """The bounds that one extension sets: how deep, how many at once for a session, how many for a whole request."""

    max_depth: int
    max_children: int
    max_total: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            whole_number(name, getattr(self, name), 1)


@dataclass(slots=True, eq=False)
class Tally:
    """How many subagents were started below one session, at any depth."""

    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a session stands in its tree: how deep, below whom, and which bounds of its ancestors hold for it.

    A root's place begins with its request. What a child may start counts for every ancestor too, so a child has at most
    what they have left.
    """

    depth: int = 0
    #: The names of the subagents from the root's child down to this one.
    path: tuple[str, ...] = ()
    deepest: int | None = None
    tally: Tally = field(default_factory=Tally)
    bounds: tuple[tuple[Tally, int], ...] = ()
    #: The running children of each extension above; each of them knows all that runs below it.
    rosters: tuple[Roster, ...] = ()

    def admit(self, name: str, caps: Caps, roster: Roster) -> Place:
        """The place of a new child, counted; ValueError says which bound is reached."""
        deepest = caps.max_depth if self.deepest is None else min(caps.max_depth, self.deepest)
        if self.depth >= deepest:
            raise ValueError(
                f"this is level {self.depth} of at most {deepest} levels of subagents: do the work yourself"
            )
        bounds = (*self.bounds, (self.tally, caps.max_total))
        for tally, limit in bounds:
            if tally.count >= limit:
                raise ValueError(f"all {limit} subagents that may be started have been: go on without more of them")
        for tally, _ in bounds:
            tally.count += 1
        above = tuple(known for known in self.rosters if known is not roster)
        return Place(self.depth + 1, (*self.path, name), deepest, Tally(), bounds, (*above, roster))


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """A running subagent: an agent of its own with one session and one request."""

    session_id: str
    parent_session_id: str
    name: str
    place: Place
    agent: Agent

    def enter(self) -> None:
        """Let every extension above find the child by its session."""
        for roster in self.place.rosters:
            roster[self.session_id] = self

    def leave(self) -> None:
        """The opposite of ``enter``; a second time does nothing."""
        for roster in self.place.rosters:
            roster.pop(self.session_id, None)

    async def run(self, prompt: str, show: Show) -> AssistantMessage:
        """Send ``prompt`` and return the answer; ``show`` sees each event. A cancel stops the child and awaits that."""
        # The child's hooks are in no call, though the child runs within one.
        outer = CURRENT_CALL.set(None)
        try:
            return await drain(_shown(self.agent.stream(prompt), show))
        finally:
            CURRENT_CALL.reset(outer)


Roster = TypeAliasType("Roster", dict[str, Child])


async def _shown(stream: AsyncIterator[AgentEvent], show: Show) -> AsyncIterator[AgentEvent]:
    async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see ``Agent.stream``
        async for event in events:
            await show(event)
            yield event


def with_inherited(own: Sequence[AgentExtension], parent: Iterable[ExtensionPort]) -> list[AgentExtension]:
    """A child's extensions: its own ones, and what the parent's hand on, under a name that is not taken."""
    extensions = list(own)
    for extension in parent:
        inherited = extension.for_child() if isinstance(extension, AgentExtension) else None
        if inherited is None or any(known is inherited for known in extensions):
            continue
        taken = {known.name for known in extensions}
        if inherited.name in taken:
            inherited = _renamed(inherited, taken, shared=inherited is extension)
        extensions.append(inherited)
    return extensions


def _renamed(extension: AgentExtension, taken: set[str], *, shared: bool) -> AgentExtension:
    """``extension`` under a free name. One that the parent uses itself keeps its name there: a copy is renamed."""
    renamed = copy.copy(extension) if shared else extension
    name = f"{extension.name} (inherited)"
    while name in taken:
        name += "'"
    renamed.name = name
    return renamed


def whole_number(name: str, value: object, least: int) -> int:
    """Return ``value`` if it is an integer of at least ``least``, else raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return value
