"""A wrong word at the door: the error names the argument, and nothing has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import MISUSE, WRONG, Says, look, made
from zett_agent.agent import Agent
from zett_agent.client import AgentClient, create_agent
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.goal import GoalExtension
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.tools.base import AgentTool, tool
from zett_agent.waits import ExternalEvent

WORD: Any = "session"
ANSWER = ExternalEvent("x", {})
DOOR: dict[str, tuple[str, Callable[[Agent], Any]]] = {
    "run": ("config", lambda agent: agent.run("go", config=WORD)),
    "stream": ("config", lambda agent: agent.stream("go", config=WORD)),
    "resume": ("config", lambda agent: agent.resume(config=WORD)),
    "initialize": ("config", lambda agent: agent.initialize(config=WORD)),
    "stop": ("config", lambda agent: agent.stop(WORD)),
    "pending_waits": ("config", lambda agent: agent.pending_waits(config=WORD)),
    "emit-config": ("config", lambda agent: agent.emit_external_event(ANSWER, config=WORD)),
    "emit-event": ("event", lambda agent: agent.emit_external_event(WRONG)),
    "model": ("model", lambda agent: agent.run("go", model=WRONG)),
    "falsy-model": ("model", lambda agent: agent.run("go", model=0)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("use", DOOR)
async def test_the_door_names_the_argument_that_is_wrong(use: str) -> None:
    field, work = DOOR[use]
    agent = await made(Says())
    with pytest.raises(TypeError, match=f"{field} must"):
        await work(agent)
    assert not agent.pending and agent.get_state("clumsy") is None


@pytest.mark.parametrize("option", ["system_prompt", "tools", "extensions", "store"])
async def test_an_agent_names_the_option_that_is_wrong(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        await made(Says(), **{option: 5})


async def test_a_client_names_the_option_that_is_wrong() -> None:
    with pytest.raises(TypeError, match="event_dispatcher must"):
        await create_agent(Says(), event_dispatcher=WRONG)
    with pytest.raises(TypeError, match="agent must be an Agent, not object"):
        AgentClient(WRONG)


async def test_one_tool_in_the_place_of_a_list_is_said_to_be_one() -> None:
    with pytest.raises(TypeError, match="tools must be a list"):
        await made(Says(), tools=look)


CONSTRUCTORS: dict[str, tuple[str, Callable[[], object]]] = {
    "approve": ("approve must", lambda: PermissionExtension(approve=WRONG)),
    "policy": ("policy", lambda: PermissionExtension(WRONG)),
    "rule": ("policy", lambda: PermissionExtension(PermissionRule("x", "ask"))),  # type: ignore[arg-type]
    "when": ("when must", lambda: PermissionRule("x", "ask", "why", when=WRONG)),
    "evaluator": ("definition must be a SubAgentDefinition", lambda: GoalExtension(WRONG)),
    "arming_seconds": ("arming_seconds must", lambda: GoalExtension(arming_seconds=WRONG)),
    "arming_for_ever": ("arming_seconds must", lambda: GoalExtension(arming_seconds=None)),  # type: ignore[arg-type]
    "child-model": ("model must", lambda: SubAgentDefinition("n", "d", "p", WRONG)),
    "child-tools": ("tools must", lambda: SubAgentDefinition("n", "d", "p", Says(), tools=[WRONG])),
    "child-tool": ("tools must", lambda: SubAgentDefinition("n", "d", "p", Says(), tools=look)),  # type: ignore[arg-type]
    "child-extensions": ("extensions must", lambda: SubAgentDefinition("n", "d", "p", Says(), extensions=WRONG)),
    "children": ("SubAgentDefinition", lambda: SubAgentExtension([WRONG])),
    "background": ("SubAgentDefinition", lambda: AsyncSubAgentExtension(WRONG)),
    "snippet": ("snippet must", lambda: tool(snippet=WRONG)(look.function)),
    "guidelines": ("guidelines must", lambda: tool(guidelines=WRONG)(look.function)),
    "strict": ("strict must", lambda: tool(strict=WRONG)),
    "parameters": ("parameters must", lambda: AgentTool("n", "d", {"a": WRONG}, look.handler)),
    "parameters-nan": ("parameters must", lambda: AgentTool("n", "d", {"a": float("nan")}, look.handler)),
    "return_schema": ("return_schema must", lambda: AgentTool("n", "d", {}, look.handler, return_schema={"a": WRONG})),
}


@pytest.mark.parametrize("use", CONSTRUCTORS)
def test_a_constructor_names_the_argument_that_is_wrong(use: str) -> None:
    says, build = CONSTRUCTORS[use]
    with pytest.raises(MISUSE, match=says):
        build()


async def notified(*given: Any) -> None:
    """A hook."""


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", None), ("priority", "5"), ("subscribes", None), ("subscribes", (str,)), ("subscribes", ("x",))],
)
async def test_an_extension_with_a_wrong_attribute_is_named_when_the_agent_is_made(field: str, value: Any) -> None:
    clumsy = type("Clumsy", (AgentExtension,), {field: value, "on_event": notified})()
    with pytest.raises(TypeError, match=f"{field} of Clumsy must"):
        await made(Says(), extensions=[clumsy, AgentExtension()])
