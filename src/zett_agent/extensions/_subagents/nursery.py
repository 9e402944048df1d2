"""The children of one extension: admitted, created, found by their sessions, and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions._subagents.tree import Caps, Child, Place, Roster
from zett_agent.extensions._subagents.turns import Turns
from zett_agent.ids import new_uuid7
from zett_agent.waits import ExternalEvent, Wait


class Creator(Protocol):
    """Builds the agent of a child."""

    def __call__(
        self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
    ) -> Awaitable[Agent]:
        """Build it for this session, below the session of ``context``."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """An extension that keeps children. All keepers of an agent have one answer to where its sessions stand."""

    nursery: Nursery

    async def end_session(self, session_id: str) -> None:
        """The session is over: stop what it left running."""
        ...


class Nursery:
    """Runs children for one owner; without ``caps`` no bound holds for them."""

    def __init__(self, create: Creator, caps: Caps | None = None) -> None:
        self._create = create
        self._caps = caps
        self._roster: Roster = {}
        self._turns = Turns(self._has_room)
        #: Places of sessions: of children, while they run, and of parents that are woken.
        self.places: dict[str, Place] = {}
        # The places of all other requests, while their context lives.
        self._roots: WeakKeyDictionary[AgentRunContext, Place] = WeakKeyDictionary()

    @property
    def empty(self) -> bool:
        """True when no child runs or starts, and no session has a place."""
        return self._turns.empty and not (self._roster or self.places)

    async def open(self, definition: SubAgentDefinition, context: AgentRunContext, *, in_turn: bool = False) -> Child:
        """Admit, create and register a child; ValueError when a bound is reached. The caller owes ``close``.

        With ``in_turn`` it waits until fewer run than may run at once.
        """
        session_id, parent_id = new_uuid7(), context.session_id
        place = self._place_below(definition.name, context)
        try:
            await self._take_turn(parent_id, waits=in_turn)
            try:
                agent = await self._create(definition, session_id, context)
            except BaseException:
                self._turns.give_back(parent_id)
                raise
        except BaseException:
            place.uncount()
            raise
        self._turns.use(parent_id)
        child = Child(session_id, parent_id, definition.name, place, agent)
        child.enter()
        for keeper in _keepers(agent.extensions):
            keeper.nursery.places[session_id] = place
        return child

    async def _take_turn(self, parent_id: str, *, waits: bool) -> None:
        if waits:
            await self._turns.wait(parent_id)
        elif not self._turns.take(parent_id):
            running = len(self._children(parent_id)) + self._turns.taken[parent_id]
            raise ValueError(f"{running} subagents of this session run already, which is the most: wait for one to end")

    async def close(self, child: Child) -> None:
        """Stop what the child left running, and forget it."""
        async with AsyncExitStack() as ending:  # each is told, whatever another one raises
            ending.callback(self.drop, child)
            for keeper in _keepers(child.agent.extensions):
                ending.push_async_callback(keeper.end_session, child.session_id)

    def drop(self, child: Child) -> None:
        """Forget a child that has left nothing running."""
        child.leave()
        self._turns.call_next(child.parent_session_id)
        for keeper in _keepers(child.agent.extensions):
            keeper.nursery.places.pop(child.session_id, None)

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Pass an event for the session of a running child, at any depth, on to that child."""
        child = self._roster.get(config.session_id or "") if config is not None else None
        return child is not None and bool(child.agent.emit_external_event(event, config=config))

    def questions(self, session_id: str | None) -> list[tuple[Child, Wait]]:
        """The open questions of a session's running children, and of theirs, with the child that asks."""
        found = []
        for child in self._children(session_id):
            waits = child.agent.pending_waits(config=AgentRunConfig(session_id=child.session_id))
            # A wait of a grandchild is shown as the grandchild's, which is in the roster too.
            found += [(self._roster.get(wait.session_id, child), wait) for wait in waits]
        return found

    def place(self, context: AgentRunContext) -> Place:
        """Where the request's session stands."""
        family = [keeper.nursery for keeper in _keepers(context.extensions)] or [self]
        for nursery in family:
            if context.session_id in nursery.places:
                return nursery.places[context.session_id]
        return family[0]._roots.setdefault(context, Place())

    def _place_below(self, name: str, context: AgentRunContext) -> Place:
        place = self.place(context)
        if self._caps is None:
            return place.unbounded(name, self._roster)
        return place.admit(name, self._caps, self._roster)

    def _has_room(self, session_id: str) -> bool:
        if self._caps is None:
            return True
        return len(self._children(session_id)) + self._turns.taken[session_id] < self._caps.max_children

    def _children(self, session_id: str | None) -> list[Child]:
        return [child for child in tuple(self._roster.values()) if session_id in (None, child.parent_session_id)]


def _keepers(extensions: Sequence[object]) -> list[Keeper]:
    return [extension for extension in extensions if isinstance(extension, Keeper)]
