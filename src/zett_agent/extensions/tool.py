"""Tools as an extension."""

from __future__ import annotations

from collections.abc import Sequence

from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.tools.base import AgentTool


class ToolExtension(AgentExtension):
    """Registers one tool, or several, with every request: for tools that come and go with an extension.

    Give each instance a ``name`` of its own when an agent has several. ValueError for no tool and for names that occur
    twice, TypeError for what is no tool; a name that another extension or the agent took fails the request.
    """

    def __init__(self, registered: AgentTool | Sequence[AgentTool]) -> None:
        given = registered if isinstance(registered, Sequence) else (registered,)
        self._tools: tuple[AgentTool, ...] = tuple(given)
        if not self._tools:
            raise ValueError("ToolExtension needs at least one tool")
        for tool in self._tools:
            if not isinstance(tool, AgentTool):
                raise TypeError(f"ToolExtension takes AgentTool objects (see @tool), not {type(tool).__name__}")
        names = [tool.name for tool in self._tools]
        if len(set(names)) != len(names):
            raise ValueError(f"two tools have the same name: {', '.join(names)}")

    @property
    def tool(self) -> AgentTool:
        """The first tool; the only one where one was given."""
        return self._tools[0]

    @property
    def tools(self) -> tuple[AgentTool, ...]:
        """All tools, in the order in which they were given."""
        return self._tools

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register the tools."""
        for tool in self._tools:
            context.register_tool(tool)
