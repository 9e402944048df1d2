"""The phases of a request and the passages between them."""

from __future__ import annotations

from zett_agent.events import AgentPhase as Phase
from zett_agent.exceptions import AgentProtocolError

_NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.CREATED: frozenset({Phase.LOADING_CONTEXT}),
    Phase.LOADING_CONTEXT: frozenset({Phase.READY}),
    Phase.READY: frozenset({Phase.COMPACTING, Phase.GENERATING, Phase.RUNNING_TOOL, Phase.COMPLETED}),
    Phase.COMPACTING: frozenset({Phase.READY}),
    Phase.GENERATING: frozenset({Phase.READY}),
    Phase.RUNNING_TOOL: frozenset({Phase.READY}),
}
_ENDS = frozenset({Phase.FAILED, Phase.CANCELLED})


class PhaseMachine:
    """The current phase of one request; an illegal passage raises AgentProtocolError and changes nothing."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current = Phase.CREATED

    def move(self, to: Phase) -> Phase:
        """Pass to ``to`` and return the phase before."""
        before = self.current
        # Every active phase may end in failure or cancellation; CREATED too: a cancel can precede the first step.
        legal = to in _NEXT.get(before, ()) or (to in _ENDS and before in _NEXT)
        if not legal:
            raise AgentProtocolError(f"a request cannot pass from {before.value} to {to.value}")
        self.current = to
        return before

    @property
    def ended(self) -> bool:
        """True once the outcome is committed."""
        return self.current not in _NEXT
