"""The agent of a child: what its definition says, and what its parent hands on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, ExtensionPort
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions.base import AgentExtension


async def create_child(definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext) -> Agent:
    """The agent of one child of the request's session."""
    return await Agent.create(
        definition.model,
        config=AgentRunConfig(session_id=child_session_id, parent_session_id=context.session_id),
        system_prompt=definition.system_prompt,
        tools=definition.tools,
        extensions=with_inherited(definition.extensions, context.extensions),
        reasoning_effort=definition.reasoning_effort,
        max_iterations=definition.max_iterations,
    )


def with_inherited(own: Sequence[AgentExtension], parent: Iterable[ExtensionPort]) -> list[AgentExtension]:
    """A child's extensions: its own ones, and what the parent's hand on, under a name that is not taken."""
    extensions = list(own)
    for extension in parent:
        inherited = extension.for_child() if isinstance(extension, AgentExtension) else None
        if inherited is None or any(known is inherited for known in extensions):
            continue
        taken = {known.name for known in extensions}
        if inherited.name in taken:
            inherited = _renamed(inherited, taken, shared=inherited is extension)
        extensions.append(inherited)
    return extensions


def _renamed(extension: AgentExtension, taken: set[str], *, shared: bool) -> AgentExtension:
    """``extension`` under a free name. One that the parent uses itself keeps its name there: a copy is renamed."""
    renamed = copy.copy(extension) if shared else extension
    name = f"{extension.name} (inherited)"
    while name in taken:
        name += "'"
    renamed.name = name
    return renamed
