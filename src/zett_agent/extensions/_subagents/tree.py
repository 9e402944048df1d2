"""A tree of agents: where each session stands in it, which children run, and how many more there may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from typing_extensions import TypeAliasType

from zett_agent._checks import whole_number
from zett_agent.agent import Agent, drain
from zett_agent.events import AgentEvent
from zett_agent.messages import AssistantMessage
from zett_agent.tools.current_call import CURRENT_CALL

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
        return replace(self.unbounded(name, roster), deepest=deepest, bounds=bounds)

    def uncount(self) -> None:
        """The child was not started after all."""
        for tally, _ in self.bounds:
            tally.count -= 1

    def unbounded(self, name: str, roster: Roster) -> Place:
        """The place of a new child for which no bound holds, and that counts for nobody."""
        above = tuple(known for known in self.rosters if known is not roster)
        return Place(self.depth + 1, (*self.path, name), rosters=(*above, roster))


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
