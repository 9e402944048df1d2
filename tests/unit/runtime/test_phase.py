"""The phases of a request, every passage of every phase."""

from __future__ import annotations

import itertools

import pytest

from zett_agent._runtime.phase import PhaseMachine
from zett_agent.events import AgentPhase as Phase
from zett_agent.exceptions import AgentProtocolError

LEGAL = {
    (Phase.CREATED, Phase.LOADING_CONTEXT),
    (Phase.LOADING_CONTEXT, Phase.READY),
    (Phase.READY, Phase.COMPACTING),
    (Phase.COMPACTING, Phase.READY),
    (Phase.READY, Phase.GENERATING),
    (Phase.GENERATING, Phase.READY),
    (Phase.READY, Phase.RUNNING_TOOL),
    (Phase.RUNNING_TOOL, Phase.READY),
    (Phase.READY, Phase.COMPLETED),
}
LIVE = [Phase.CREATED, Phase.LOADING_CONTEXT, Phase.READY, Phase.COMPACTING, Phase.GENERATING, Phase.RUNNING_TOOL]


@pytest.mark.parametrize(("before", "to"), list(itertools.product(Phase, Phase)))
def test_a_passage_is_made_or_refused_and_then_changes_nothing(before: Phase, to: Phase) -> None:
    machine = PhaseMachine()
    machine.current = before
    if (before, to) in LEGAL or (before in LIVE and to in (Phase.FAILED, Phase.CANCELLED)):
        assert machine.move(to) is before
        assert machine.current is to
    else:
        with pytest.raises(AgentProtocolError, match=f"cannot pass from {before.value} to {to.value}"):
            machine.move(to)
        assert machine.current is before


def test_a_request_has_ended_once_its_outcome_is_committed() -> None:
    machine = PhaseMachine()
    ended = set()
    for phase in Phase:
        machine.current = phase
        if machine.ended:
            ended.add(phase)
    assert ended == {Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED}
