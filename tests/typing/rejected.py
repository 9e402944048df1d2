"""Mistakes that type checkers must find. Never run: `make check` checks it.

Each line has an error on purpose and ignores it; a mistake that is no longer found makes its comment an unused one,
which is an error for both mypy and pyright.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import zett_agent
from zett_agent import (
    Agent,
    AgentExtension,
    AgentModel,
    AgentRunConfig,
    AgentRunContext,
    ExternalEvent,
    ToolCall,
    UserMessage,
    tool,
)


class NoStream:
    """Not a model."""


@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right


class Audit(AgentExtension):
    """Overrides with other signatures."""

    async def before_tool(self, context: AgentRunContext, call: str) -> None:  # type: ignore[override]
        pass

    def after_turn(self, context: AgentRunContext, result: ToolCall) -> None:  # type: ignore[override]
        pass


async def use(agent: Agent) -> None:
    """Wrong arguments, a forgotten await, a change of what is frozen."""
    model: AgentModel = NoStream()  # type: ignore[assignment]
    Agent(model, max_iterations="3")  # type: ignore[arg-type]
    Agent(model, True)  # type: ignore[arg-type,call-arg]
    Agent(model, tools=[print])  # type: ignore[list-item]
    agent.run("hello")  # type: ignore[unused-coroutine]
    await agent.run(3)  # type: ignore[arg-type]
    await agent.run("hello", confg=None)  # type: ignore[call-arg]
    await agent.run("hello", tags=3)  # type: ignore[arg-type]
    UserMessage("hello")  # type: ignore[arg-type,call-arg]
    ExternalEvent("answer", "yes")  # type: ignore[arg-type]
    AgentRunConfig().session_id = "s"  # type: ignore[misc]
    add("1")  # type: ignore[arg-type]
    add(1, 2, 3)  # type: ignore[call-arg]
    add(1).upper()  # type: ignore[attr-defined]
    zett_agent.Agnet()  # type: ignore[attr-defined]
