"""What must be: who asked, which answer was taken for whom, which requests there were and what their hooks heard."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zett_agent.context import AgentRunContext
from zett_agent.events import AgentPhase
from zett_agent.messages import AnyMessage
from zett_agent.waits import Wait

SESSIONS = ("alpha", "beta", "gamma")

#: Every text that the machine makes names the session it is for, so that one that strays is seen.
TOKEN = re.compile(r"\b(alpha|beta|gamma)-([a-z]+)-\d+\b")

Key = tuple[str, str]


@dataclass(frozen=True)
class Answer:
    """An answer that was taken; ``text`` is in no other one."""

    text: str
    decision: str = "answer"


@dataclass(frozen=True)
class Called:
    """A call that the model made; ``tag`` is in its arguments and in no other call's."""

    kind: str
    tag: str


@dataclass(eq=False)
class Record:
    """One request, of a session or of a child, as the hooks saw it."""

    context: AgentRunContext
    #: ``(spy, hook)`` and how often it was called; phases as ``(spy, "->failed")``.
    hooks: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Steering and internal messages that the request accepted.
    inputs: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    ended: bool = False
    checked: bool = False
    messages: Sequence[AnyMessage] = ()
    #: ``stop()`` said that it stops the request now.
    stopped: bool = False

    @property
    def session_id(self) -> str:
        return self.context.session_id

    @property
    def phase(self) -> AgentPhase:
        return self.context.state.phase

    @property
    def over(self) -> bool:
        """The outcome stands, whether or not the consumer has heard of it."""
        return self.phase.accepts_new_request and self.phase is not AgentPhase.CREATED


class Ledger:
    """The small model beside the real thing, written by the machine, its tools and spies, and read by the checks."""

    def __init__(self) -> None:
        self.accepted: dict[Key, Answer] = {}
        self.refused: set[str] = set()
        #: Every wait that was ever seen open.
        self.seen: dict[tuple[str, str, str], Wait] = {}
        self.calls: dict[Key, Called] = {}
        self.executed: Counter[Key] = Counter()
        #: Calls within the gates: between the first hook that may hold a call and the last.
        self.gated: dict[Key, str] = {}
        self.records: list[Record] = []
        self.active: dict[str, Record] = {}
        self.parents: dict[str, str | None] = {}
        #: Model calls and handlers that began, by session.
        self.effects: Counter[str] = Counter()
        #: What lets a holding tool, a blocked thread or a stalled model go on.
        self.gates: list[Callable[[], object]] = []
        #: Calls in a thread that will not end before they are released.
        self.stuck: dict[Key, threading.Event] = {}
        #: Calls in a thread that will end by itself, and what is set whenever one has ended.
        self.in_threads: set[Key] = set()
        self._awaited: set[Key] = set()
        #: Threads end only while the machine waits for them: else no run would be like the other.
        self.threads_may_end = threading.Event()
        self.thread_ended = asyncio.Event()
        self._last = 0

    def token(self, session_id: str, kind: str) -> str:
        """A new text for a session, or for the session that a child works for."""
        self._last += 1
        return f"{self.root(session_id)}-{kind}-{self._last}"

    def root(self, session_id: str) -> str:
        """The session at the top of the tree."""
        while (parent := self.parents.get(session_id)) is not None:
            session_id = parent
        return session_id

    def begin(self, context: AgentRunContext) -> None:
        """A request has its session."""
        assert context.session_id not in self.active, f"two requests of {context.session_id} at once"
        record = self.active[context.session_id] = Record(context)
        self.records.append(record)
        self.parents[context.session_id] = context.config.parent_session_id

    def end(self, context: AgentRunContext) -> None:
        """A request has given its session free."""
        record = self.active.pop(context.session_id)
        assert record.context is context
        record.ended, record.messages = True, tuple(context.transcript.view())
        for key in [key for key in self.gated if key[0] == context.session_id]:
            del self.gated[key]

    def enter_thread(self, key: Key, name: str) -> None:
        """A call is about to wait for a thread; noted on the loop, which a thread's own start is no part of."""
        if name in ("block", "stuck"):
            self.executed[key] += 1
            self.effects[key[0]] += 1
        if name == "block":
            self.in_threads.add(key)
        if name == "stuck":
            self._awaited.add(key)
            released = self.stuck[key] = threading.Event()

            def release() -> None:
                if key in self._awaited:
                    self.in_threads.add(key)
                released.set()

            self.gates.append(release)

    def leave_thread(self, key: Key) -> None:
        """A call does not wait for its thread any more."""
        self._awaited.discard(key)
        self.in_threads.discard(key)
        self.thread_ended.set()

    def busy(self) -> set[str]:
        """The sessions, not the children, that have a request."""
        return {session_id for session_id in self.active if session_id in SESSIONS}
