"""What an agent can do. Names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

_MODULES = {
    "AgentTool": "zett_agent.tools.base",
    "ToolExecutionMode": "zett_agent.tools.base",
    "ToolResult": "zett_agent.tools.base",
    "tool": "zett_agent.tools.base",
}
__all__ = ("AgentTool", "ToolExecutionMode", "ToolResult", "tool")

if TYPE_CHECKING:
    from zett_agent.tools.base import AgentTool as AgentTool
    from zett_agent.tools.base import ToolExecutionMode as ToolExecutionMode
    from zett_agent.tools.base import ToolResult as ToolResult
    from zett_agent.tools.base import tool as tool
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
