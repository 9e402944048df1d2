"""What an agent can do. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zett_agent._lazy import lazy_names

_NAMES = {
    "base": "AgentTool ToolExecutionMode ToolResult tool",
}
__all__ = ("AgentTool", "ToolExecutionMode", "ToolResult", "tool")

if TYPE_CHECKING:
    from zett_agent.tools.base import AgentTool as AgentTool
    from zett_agent.tools.base import ToolExecutionMode as ToolExecutionMode
    from zett_agent.tools.base import ToolResult as ToolResult
    from zett_agent.tools.base import tool as tool
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
