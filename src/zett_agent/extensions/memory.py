"""Memory of sessions for the life of the process."""

from __future__ import annotations

import logging
from collections import OrderedDict
from itertools import islice

from zett_agent._checks import whole_number
from zett_agent._runtime.transcript import Transcript
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import SessionBusyError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AnyMessage, SystemMessage

_LOG = logging.getLogger("zett_agent")


class InMemoryMessageAccumulator(AgentExtension):
    """Remembers the dialogue of each session and gives it to the session's next request.

    What a request added is remembered when it is over, whatever its outcome. ``max_sessions`` bounds how many
    sessions are kept; the least recently used idle ones are forgotten first, which is logged once. None means no
    bound. Messages are shared with the requests, not copied: treat appended messages as final.
    """

    def __init__(self, *, max_sessions: int | None = 10_000) -> None:
        self._max_sessions = None if max_sessions is None else whole_number("max_sessions", max_sessions, 1)
        self._sessions: OrderedDict[str, Transcript] = OrderedDict()
        self._holders: dict[str, AgentRunContext] = {}
        self._warned = False

    def messages(self, session_id: str) -> tuple[AnyMessage, ...]:
        """What is remembered of a session, in order."""
        known = self._sessions.get(session_id)
        return tuple(known.view()) if known is not None else ()

    def clear(self, session_id: str) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """The same as ``clear``."""
        self.clear(session_id)

    async def on_state(self, context: AgentRunContext) -> None:
        """Give the request what is remembered; SessionBusyError when another agent's request has the session."""
        session_id = context.session_id
        holder = self._holders.setdefault(session_id, context)
        if holder.lost:
            holder = self._holders[session_id] = context
        if holder is not context:
            raise SessionBusyError(session_id, holder.request_id)
        known = self._sessions.get(session_id)
        if known is not None:
            self._sessions.move_to_end(session_id)
            context.restore_messages(known.view())

    def request_finished(self, context: AgentRunContext) -> None:
        """Remember what the request added, and free the session for other requests."""
        if self._holders.get(context.session_id) is not context:
            return  # it never came to restore anything
        del self._holders[context.session_id]
        self._remember(context)
        self._evict()

    def _remember(self, context: AgentRunContext) -> None:
        transcript = context.transcript
        known = self._sessions.get(context.session_id)
        added = transcript.view() if transcript.rewritten else transcript.since_restored()
        if known is None or transcript.rewritten:
            known = Transcript()
        known.mark_restored()
        if any(message is context.input_message for message in added):
            known.drop_unanswered_input()
        dialogue = [message for message in added if not isinstance(message, SystemMessage)]
        kept = [message for message in dialogue if message.include_in_messages]
        if transcript.open_calls or len(kept) < len(dialogue):
            for message in kept:
                known.adopt(message)
        else:
            known.take_over(kept, transcript.view().ids)
        if len(known):
            self._sessions[context.session_id] = known

    def _evict(self) -> None:
        if self._max_sessions is None or len(self._sessions) <= self._max_sessions:
            return
        if not self._warned:
            self._warned = True
            _LOG.warning("more than %s sessions are remembered; the oldest are forgotten", self._max_sessions)
        # The front is the least recently used: with a full memory this looks at one session for each that is added.
        idle = (session_id for session_id in self._sessions if session_id not in self._holders)
        for session_id in list(islice(idle, len(self._sessions) - self._max_sessions)):
            del self._sessions[session_id]
