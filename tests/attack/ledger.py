"""What an extension is told of the ends of requests, and what must be true of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from zett_agent.context import AgentRunContext
from zett_agent.events import AgentPhase, ExtensionEvent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import PhaseTransitionEvent
from zett_agent.messages import AssistantMessage

OUTCOMES = frozenset({AgentPhase.COMPLETED, AgentPhase.FAILED, AgentPhase.CANCELLED})


@dataclass(slots=True)
class Account:
    """One request: where it is, and what was told of it, in order."""

    context: AgentRunContext = field(repr=False)
    told: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return "request_finished" in self.told

    def check(self) -> None:
        """Exactly one outcome, and each end hook as often as it fits to that."""
        phase, times = self.context.state.phase, Counter(self.told)
        assert phase in OUTCOMES, self
        assert self.told[0] == "request_started" and self.told[-1] == "request_finished", self
        assert times["request_started"] == times["request_finished"] == 1, self
        assert [name for name in self.told if name in OUTCOMES] == [phase], self
        assert times["on_error"] == (phase is AgentPhase.FAILED), self
        # It is the last thing before the outcome: something may come between the two.
        assert times["on_success"] == 1 if phase is AgentPhase.COMPLETED else times["on_success"] <= 1, self


class Ledger(AgentExtension):
    """Keeps an account for each request, children's too. Its hooks yield, so that a stop strikes within them."""

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (PhaseTransitionEvent,)

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def request_started(self, context: AgentRunContext) -> None:
        account = self.accounts.setdefault(str(context.request_id), Account(context))
        account.told.append("request_started")

    def request_finished(self, context: AgentRunContext) -> None:
        self._note("request_finished", context)

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await asyncio.sleep(0)

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self._note("on_success", context)
        await asyncio.sleep(0)

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        self._note("on_error", context)
        await asyncio.sleep(0)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, PhaseTransitionEvent) and event.current_phase in OUTCOMES:
            self._note(event.current_phase, context)
            await asyncio.sleep(0)

    def _note(self, what: str, context: AgentRunContext) -> None:
        self.accounts[str(context.request_id)].told.append(what)
