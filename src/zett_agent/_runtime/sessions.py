"""Which sessions of an agent are busy, which session is meant, and what became of the last requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from zett_agent._runtime.inbox import Inbox
from zett_agent._runtime.run import Run
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentState
from zett_agent.exceptions import AgentProtocolError, SessionBusyError
from zett_agent.ids import new_uuid7

#: Ended requests whose state is still shown.
REMEMBERED_STATES = 64


class Sessions:
    """The active requests of one agent, one per session, and its default session. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._default: AgentRunConfig | None = None
        self._runs: dict[str, Run] = {}
        self._states: OrderedDict[str, AgentState] = OrderedDict()

    def bind(self, config: AgentRunConfig | None) -> None:
        """Set the default session, a new one unless ``config`` names it; AgentProtocolError when another is set."""
        given = config or AgentRunConfig()
        if self._default is None:
            self._default = given if given.session_id else replace(given, session_id=new_uuid7())
        elif given.session_id not in (None, self._default.session_id):
            raise AgentProtocolError(
                f"the agent is bound to session {self._default.session_id!r}; pass config= to the request instead"
            )

    @property
    def runs(self) -> tuple[Run, ...]:
        """The requests that have a session, those that can never end included."""
        return tuple(self._runs.values())

    @property
    def active(self) -> tuple[Run, ...]:
        """The requests that run."""
        return tuple(run for run in self.runs if not run.lost)

    def is_busy(self, session_id: str) -> bool:
        """True while the session has a request; ValueError for a blank id."""
        if not isinstance(session_id, str) or not session_id.strip():
            raise ValueError("session_id must not be blank")
        run = self._runs.get(session_id)
        return run is not None and not run.lost

    def state(self, session_id: str) -> AgentState | None:
        """The state of the session's request, active or ended not long ago."""
        run = self._runs.get(session_id)
        return run.context.state if run is not None else self._states.get(session_id)

    def forget(self, session_id: str) -> None:
        """Drop the state of an ended request; SessionBusyError while there is one that has not ended."""
        run = self._runs.get(session_id)
        if run is not None and not run.lost:
            raise SessionBusyError(session_id, run.context.request_id)
        with self._lock:
            self._states.pop(session_id, None)

    def resolve(self, config: AgentRunConfig | None) -> AgentRunConfig:
        """``config`` with the default session where it names none."""
        if self._default is None:
            raise AgentProtocolError("the agent is not initialized; use create_agent() or await agent.initialize()")
        if config is None:
            return self._default
        return config if config.session_id else replace(config, session_id=self._default.session_id)

    def route(self, config: AgentRunConfig | None) -> AgentRunConfig | None:
        """Whom something from outside is for: ``config``, else the one active request, else the default session."""
        if config is not None:
            return config if config.session_id or self._default is None else self.resolve(config)
        active = self.active
        if len(active) > 1:
            raise AgentProtocolError("several requests are active; pass config= to say which is meant")
        return active[0].context.config if active else self._default

    def find(self, config: AgentRunConfig | None) -> Run | None:
        """The active request that is meant; None when the session has none, or another than ``request_id`` says."""
        route = self.route(config)
        run = self._runs.get(route.session_id or "") if route is not None else None
        if run is None or run.lost or route is None:
            return None
        return run if route.request_id in (None, run.context.request_id) else None

    def inbox(self, config: AgentRunConfig | None) -> Inbox | None:
        """The inbox of the request that ``config`` names."""
        run = self.find(config) if config is not None and config.session_id is not None else None
        return run.inbox if run is not None else None

    def claim(self, run: Run) -> None:
        """Make ``run`` the session's one request; SessionBusyError names the one that is."""
        with self._lock:
            holder = self._runs.setdefault(run.session_id, run)
        if holder is not run:
            raise SessionBusyError(run.session_id, holder.context.request_id)

    def holder(self, config: AgentRunConfig) -> Run | None:
        """The request that has the session."""
        return self._runs.get(config.session_id or "")

    def release(self, run: Run) -> bool:
        """Give the session free and remember how the request ended; False when ``run`` does not have it."""
        with self._lock:
            if self._runs.get(run.session_id) is not run:
                return False
            del self._runs[run.session_id]
            self._states[run.session_id] = run.context.state
            self._states.move_to_end(run.session_id)
            while len(self._states) > REMEMBERED_STATES:
                self._states.popitem(last=False)
        return True
