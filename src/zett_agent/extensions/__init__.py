"""What can be added to an agent. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zett_agent._lazy import lazy_names

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

_NAMES = {
    "base": "AgentExtension",
    "ask_user": "AskUserExtension",
    "async_subagent": "AsyncSubAgentExtension",
    "external": "ExternalEventExtension",
    "goal": "GoalExtension",
    "internal_message": "InternalMessageExtension",
    "permission": "PermissionExtension",
    "steering": "SteeringExtension",
    "subagent": "SubAgentExtension",
    "tool": "ToolExtension",
    "tool_guidelines": "ToolGuidelinesExtension",
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
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
