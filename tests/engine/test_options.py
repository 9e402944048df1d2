"""What an agent can be made of, and the extensions it brings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import add
from zett_agent._runtime.sessions import Sessions
from zett_agent.agent import Agent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.internal_message import InternalMessageExtension
from zett_agent.extensions.steering import SteeringExtension
from zett_agent.testing import ScriptedModel


class Named(AgentExtension):
    def __init__(self, name: str, priority: int = 100) -> None:
        self.name = name
        self.priority = priority


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_iterations": 0}, "max_iterations must be an integer of at least 1"),
        ({"max_iterations": True}, "max_iterations"),
        ({"max_iterations": 1.5}, "max_iterations"),
        ({"max_internal_messages": -1}, "max_internal_messages must be an integer of at least 0"),
        ({"max_internal_messages": False}, "max_internal_messages"),
        ({"max_total_iterations": 0}, "max_total_iterations"),
        ({"max_parallel_calls": 0}, "max_parallel_calls"),
        ({"parallel_tool_call": 1}, "parallel_tool_call must be True or False"),
        ({"reasoning_effort": "enormous"}, "enormous"),
        ({"tools": [add, add]}, "two tools are named 'add'"),
        ({"tools": [print]}, "must hold AgentTool objects"),
        ({"extensions": [Named(" ")]}, "must not be blank"),
        ({"extensions": [Named("a"), Named("a")]}, "two extensions are named 'a'"),
        ({"extensions": [Named("SteeringExtension")]}, "two extensions are named 'SteeringExtension'"),
        ({"extensions": [SteeringExtension(Sessions().inbox)]}, "SteeringExtension is built into every agent"),
        ({"extensions": [InternalMessageExtension(Sessions().inbox)]}, "InternalMessageExtension is built into"),
    ],
)
def test_bad_options_say_what_is_wrong(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Agent(ScriptedModel(), **options)


def test_the_default_extensions_are_memory_and_guidelines() -> None:
    assert [extension.name for extension in Agent(None).extensions] == [
        "InMemoryMessageAccumulator",
        "ToolGuidelinesExtension",
        "InternalMessageExtension",
        "SteeringExtension",
    ]


def test_a_given_sequence_replaces_the_defaults() -> None:
    names = [extension.name for extension in Agent(None, extensions=[]).extensions]
    assert names == ["InternalMessageExtension", "SteeringExtension"]


def test_extensions_are_called_by_priority_then_in_order_of_registration() -> None:
    agent = Agent(None, extensions=[Named("late", 300), Named("b"), Named("c"), Named("early", 1)])
    assert [extension.name for extension in agent.extensions] == [
        "early",
        "b",
        "c",
        "InternalMessageExtension",
        "SteeringExtension",
        "late",
    ]


def test_the_options_can_be_read_back() -> None:
    agent = Agent(None, system_prompt="S", tools=[add], max_iterations=5, max_internal_messages=0)
    assert (agent.system_prompt, agent.max_iterations, agent.max_internal_messages) == ("S", 5, 0)
    assert (agent.max_total_iterations, agent.max_parallel_calls, agent.max_pause_continuations) == (20, 64, 5)
    assert agent.tools == {"add": add}
    assert agent.model is None and not agent.pending
