"""Extensions that join and leave an agent (core-49)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import spin
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.testing import ScriptedModel, call


class Counting(AgentExtension):
    def __init__(self, name: str = "Counting") -> None:
        self.name = name
        self.begun = self.turns = self.ended = 0

    def request_started(self, context: AgentRunContext) -> None:
        self.begun += 1

    async def before_turn(self, context: AgentRunContext) -> None:
        self.turns += 1

    def request_finished(self, context: AgentRunContext) -> None:
        self.ended += 1

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.begun, self.turns, self.ended


async def test_core_49_an_extension_that_is_added_is_called_from_the_next_request_on() -> None:
    agent, late = await Agent.create(ScriptedModel("one", "two", "three")), Counting()
    await agent.run("1")
    agent.add_extension(late)
    await agent.run("2")
    assert agent.remove_extension("Counting") is late
    await agent.run("3")
    assert late.counts == (1, 1, 1)
    assert late not in agent.extensions


async def test_core_49_a_request_keeps_the_extensions_that_it_began_with() -> None:
    agent, late = await Agent.create(ScriptedModel("one", "two")), Counting()
    async for _ in agent.stream("1"):
        if late not in agent.extensions:
            agent.add_extension(late)
    assert late.counts == (0, 0, 0)
    await agent.run("2")
    assert late.counts == (1, 1, 1)


@pytest.mark.parametrize("wrong", [Counting(), Counting(" "), Counting("SteeringExtension"), Counting, "Counting"])
async def test_core_49_what_cannot_be_added_changes_nothing(wrong: Any) -> None:
    known = Counting()
    agent = await Agent.create(ScriptedModel("one"), extensions=[known])
    before = agent.extensions
    with pytest.raises((ValueError, TypeError)):
        agent.add_extension(wrong)
    assert agent.extensions == before
    await agent.run("1")
    assert known.counts == (1, 1, 1)


@pytest.mark.parametrize("name", ["Nobody", "SteeringExtension", "InternalMessageExtension", ""])
def test_core_49_what_is_not_there_or_built_in_cannot_be_removed(name: str) -> None:
    with pytest.raises(ValueError, match="can be removed"):
        Agent(None).remove_extension(name)


async def test_core_49_an_extension_with_an_open_question_stays_until_it_is_answered() -> None:
    asking = AskUserExtension()
    agent = await Agent.create(ScriptedModel([call("ask_user", id="q", question="?")]), extensions=[asking])
    async for event in agent.stream("hi"):
        if event.name == "ask_user":
            with pytest.raises(AgentProtocolError, match="'AskUserExtension' serves a request"):
                agent.remove_extension("AskUserExtension")
            break
    await spin()
    assert agent.remove_extension("AskUserExtension") is asking
    assert not asking.pending
