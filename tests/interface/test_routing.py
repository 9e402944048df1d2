"""Which request an event from outside is for, as ``accept`` is told."""

from __future__ import annotations

import pytest

from zett_agent import AgentRunConfig, ExternalEvent, create_agent
from zett_agent.agent import Agent
from zett_agent.extensions import AgentExtension
from zett_agent.testing import ScriptedModel

EVENT = ExternalEvent("note", {})


class Doorman(AgentExtension):
    """Keeps what it was told, and takes every event if it is told to."""

    def __init__(self, name: str = "Doorman", *, takes: bool = True) -> None:
        self.name = name
        self.takes = takes
        self.told: list[AgentRunConfig | None] = []

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        self.told.append(config)
        return self.takes


def test_before_initialization_there_is_no_config() -> None:
    doorman = Doorman()
    assert Agent(None, extensions=[doorman]).emit_external_event(EVENT) == ["Doorman"]
    assert doorman.told == [None]


async def test_without_a_request_the_initialized_config_is_meant() -> None:
    doorman = Doorman()
    config = AgentRunConfig(session_id="desk", request_id="first")
    client = await create_agent(ScriptedModel(), config=config, extensions=[doorman])
    client.emit_external_event(EVENT)
    assert doorman.told == [config]


async def test_with_one_request_its_session_is_meant() -> None:
    doorman = Doorman()
    client = await create_agent(ScriptedModel("Hello."), config=AgentRunConfig(session_id="desk"), extensions=[doorman])
    async for event in client.stream("hi", config=AgentRunConfig(session_id="hall")):
        if event.type == "model_started":
            client.emit_external_event(EVENT)
    (told,) = doorman.told
    assert told is not None and told.session_id == "hall"


async def test_a_config_that_is_given_is_passed_on_as_it_is() -> None:
    doorman = Doorman()
    client = await create_agent(ScriptedModel(), extensions=[doorman])
    given = AgentRunConfig(session_id="elsewhere", request_id="seven")
    client.emit_external_event(EVENT, config=given)
    assert doorman.told == [given]


async def test_every_extension_is_asked_and_those_that_took_it_are_named_in_order() -> None:
    doormen = [Doorman("first"), Doorman("second", takes=False), Doorman("third")]
    client = await create_agent(ScriptedModel(), extensions=doormen)
    assert client.emit_external_event(EVENT) == ["first", "third"]
    assert [len(doorman.told) for doorman in doormen] == [1, 1, 1]


async def test_an_error_of_accept_reaches_the_caller_and_ends_the_round() -> None:
    class Rude(AgentExtension):
        def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
            raise LookupError("no such desk")

    last = Doorman()
    client = await create_agent(ScriptedModel(), extensions=[Rude(), last])
    with pytest.raises(LookupError, match="no such desk"):
        client.emit_external_event(EVENT)
    assert last.told == []
