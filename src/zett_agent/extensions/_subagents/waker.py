"""Starting the request that tells an idle parent what became of its background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from zett_agent._runtime.supervisor import Supervisor
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentPort, AgentRunContext
from zett_agent.exceptions import AgentCancelledError, SessionBusyError
from zett_agent.extensions._subagents.notices import Notices
from zett_agent.extensions._subagents.runner import spawn_apart
from zett_agent.extensions._subagents.tree import Place
from zett_agent.messages import AgentMessage

_LOG = logging.getLogger("zett_agent")


@dataclass(frozen=True, slots=True, eq=False)
class Parent:
    """Whom a task belongs to, as far as that outlives the request that started it."""

    agent: AgentPort
    config: AgentRunConfig
    place: Place

    @classmethod
    def of(cls, context: AgentRunContext, place: Place) -> Parent:
        """The parent whose request this is; ``place`` is where it stands in its tree."""
        return cls(context.agent, replace(context.config, request_id=None), place)

    @property
    def session_id(self) -> str:
        """Its session."""
        return self.config.session_id or ""


class WakeRequest(Protocol):
    """Runs one request that starts from ``message``."""

    def __call__(self, agent: AgentPort, message: AgentMessage, *, config: AgentRunConfig) -> Awaitable[None]:
        """Run it to its end."""
        ...


class Waker:
    """Wakes parents: one request at a time for a session, and none for a session that is busy or has nothing to hear.

    A request of somebody else that is faster delivers the notice itself. One that fails before the notice is in the
    history leaves it for the session's next request: a model that is down is not called again and again.
    """

    def __init__(self, notices: Notices, request: WakeRequest, places: dict[str, Place]) -> None:
        self._notices = notices
        self._request = request
        self._places = places
        self._supervisor = Supervisor()
        self._awake: dict[str, asyncio.Task[None]] = {}
        self._paused = 0

    def wake(self, parent: Parent) -> None:
        """See to it that ``parent`` hears what there is. A child is never woken: it runs, or nobody waits for it."""
        session_id = parent.session_id
        if self._paused or parent.place.depth or session_id in self._awake or not self._idle(parent):
            return
        done = partial(self._gone, session_id)
        self._awake[session_id] = spawn_apart(self._supervisor, self._tell(parent), f"zett wake {session_id}", done)

    async def pause(self, bound: float) -> None:
        """Stop what runs and wake nobody until ``resume``."""
        self._paused += 1
        await self._supervisor.stop(bound)

    def resume(self) -> None:
        """The opposite of ``pause``."""
        self._paused -= 1

    def _idle(self, parent: Parent) -> bool:
        return self._notices.waiting(parent.session_id) and not parent.agent.is_conflict(parent.session_id)

    async def _tell(self, parent: Parent) -> None:
        session_id = parent.session_id
        # What the parent starts now counts for the request that began it all: else the two could go on for ever.
        self._places[session_id] = parent.place
        try:
            # From here to the claim of the session, in the request's first step, nothing is awaited.
            while self._idle(parent) and (message := self._notices.compose(session_id)) is not None:
                await self._request(parent.agent, message, config=parent.config)
                if not self._notices.delivered(session_id, message):
                    return
        except (SessionBusyError, AgentCancelledError):
            pass  # somebody was faster, or stopped it: the next request tells
        except (Exception, SystemExit) as error:  # which would end the loop
            _LOG.warning("the request that wakes session %s failed: %s", session_id, error, exc_info=error)
        finally:
            del self._places[session_id]
            del self._awake[session_id]

    def _gone(self, session_id: str, task: asyncio.Task[None]) -> None:
        if self._awake.get(session_id) is task:  # it was cancelled before its first step
            del self._awake[session_id]
