"""What can be added to an agent. Names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = (
    "AgentExtension",
    "AskUserExtension",
    "AsyncSubAgentExtension",
    "ExternalEventExtension",
    "GoalExtension",
    "InternalMessageExtension",
    "PermissionExtension",
    "SteeringExtension",
    "SubAgentExtension",
    "ToolExtension",
    "ToolGuidelinesExtension",
)

_MODULES = {
    "AgentExtension": "zett_agent.extensions.base",
    "AskUserExtension": "zett_agent.extensions.ask_user",
    "AsyncSubAgentExtension": "zett_agent.extensions.async_subagent",
    "ExternalEventExtension": "zett_agent.extensions.external",
    "GoalExtension": "zett_agent.extensions.goal",
    "InternalMessageExtension": "zett_agent.extensions.internal_message",
    "PermissionExtension": "zett_agent.extensions.permission",
    "SteeringExtension": "zett_agent.extensions.steering",
    "SubAgentExtension": "zett_agent.extensions.subagent",
    "ToolExtension": "zett_agent.extensions.tool",
    "ToolGuidelinesExtension": "zett_agent.extensions.tool_guidelines",
}

if TYPE_CHECKING:
    from zett_agent.extensions.ask_user import AskUserExtension
    from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
    from zett_agent.extensions.base import AgentExtension
    from zett_agent.extensions.external import ExternalEventExtension
    from zett_agent.extensions.goal import GoalExtension
    from zett_agent.extensions.internal_message import InternalMessageExtension
    from zett_agent.extensions.permission import PermissionExtension
    from zett_agent.extensions.steering import SteeringExtension
    from zett_agent.extensions.subagent import SubAgentExtension
    from zett_agent.extensions.tool import ToolExtension
    from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.
    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value  # the next access finds it without coming here
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
