"""A runtime for tool-calling agents. Names load on first use: importing the package alone is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = (
    "Agent",
    "AgentCancelledError",
    "AgentClient",
    "AgentDeadlineError",
    "AgentError",
    "AgentEvent",
    "AgentEventDispatcher",
    "AgentEventType",
    "AgentExtension",
    "AgentIterationLimitError",
    "AgentLimitError",
    "AgentMessage",
    "AgentModel",
    "AgentPhase",
    "AgentProtocolError",
    "AgentRepeatError",
    "AgentResumeError",
    "AgentRunConfig",
    "AgentRunContext",
    "AgentState",
    "AgentStopError",
    "AgentTool",
    "AssistantMessage",
    "ExternalEvent",
    "ExternalEventExtension",
    "ImageContent",
    "InputRefusedError",
    "ModelEvent",
    "ModelRequest",
    "ModelResponse",
    "ModelUsage",
    "ProviderAuthError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
    "ReasoningEffort",
    "SessionBusyError",
    "StopInfo",
    "StopReason",
    "StorageError",
    "StoredFormatError",
    "SyncAgent",
    "SystemMessage",
    "TextContent",
    "ToolArgumentsError",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolExecutionMode",
    "ToolMessage",
    "ToolRejectedError",
    "ToolTimeoutError",
    "ToolUnknownError",
    "UserMessage",
    "Wait",
    "__version__",
    "create_agent",
    "create_agent_sync",
    "tool",
)

_MODULES = {
    "Agent": "zett_agent.agent",
    "AgentCancelledError": "zett_agent.exceptions",
    "AgentClient": "zett_agent.client",
    "AgentDeadlineError": "zett_agent.exceptions",
    "AgentError": "zett_agent.exceptions",
    "AgentEvent": "zett_agent.events",
    "AgentEventDispatcher": "zett_agent.dispatcher",
    "AgentEventType": "zett_agent.events",
    "AgentExtension": "zett_agent.extensions.base",
    "AgentIterationLimitError": "zett_agent.exceptions",
    "AgentLimitError": "zett_agent.exceptions",
    "AgentMessage": "zett_agent.messages",
    "AgentModel": "zett_agent.model",
    "AgentPhase": "zett_agent.events",
    "AgentProtocolError": "zett_agent.exceptions",
    "AgentRepeatError": "zett_agent.exceptions",
    "AgentResumeError": "zett_agent.exceptions",
    "AgentRunConfig": "zett_agent.config",
    "AgentRunContext": "zett_agent.agent",
    "AgentState": "zett_agent.agent",
    "AgentStopError": "zett_agent.exceptions",
    "AgentTool": "zett_agent.tools.base",
    "AssistantMessage": "zett_agent.messages",
    "ExternalEvent": "zett_agent.waits",
    "ExternalEventExtension": "zett_agent.extensions.external",
    "ImageContent": "zett_agent.messages",
    "InputRefusedError": "zett_agent.exceptions",
    "ModelEvent": "zett_agent.model",
    "ModelRequest": "zett_agent.model",
    "ModelResponse": "zett_agent.model",
    "ModelUsage": "zett_agent.model",
    "ProviderAuthError": "zett_agent.exceptions",
    "ProviderError": "zett_agent.exceptions",
    "ProviderHTTPError": "zett_agent.exceptions",
    "ProviderRefusalError": "zett_agent.exceptions",
    "ProviderResponseError": "zett_agent.exceptions",
    "ProviderTimeoutError": "zett_agent.exceptions",
    "ReasoningEffort": "zett_agent.model",
    "SessionBusyError": "zett_agent.exceptions",
    "StopInfo": "zett_agent.stop",
    "StopReason": "zett_agent.stop",
    "StorageError": "zett_agent.exceptions",
    "StoredFormatError": "zett_agent.exceptions",
    "SyncAgent": "zett_agent.sync",
    "SystemMessage": "zett_agent.messages",
    "TextContent": "zett_agent.messages",
    "ToolArgumentsError": "zett_agent.exceptions",
    "ToolCall": "zett_agent.messages",
    "ToolContext": "zett_agent.context",
    "ToolError": "zett_agent.exceptions",
    "ToolExecutionMode": "zett_agent.tools.base",
    "ToolMessage": "zett_agent.messages",
    "ToolRejectedError": "zett_agent.exceptions",
    "ToolTimeoutError": "zett_agent.exceptions",
    "ToolUnknownError": "zett_agent.exceptions",
    "UserMessage": "zett_agent.messages",
    "Wait": "zett_agent.waits",
    "create_agent": "zett_agent.client",
    "create_agent_sync": "zett_agent.sync",
    "tool": "zett_agent.tools.base",
}

if TYPE_CHECKING:
    from zett_agent.agent import Agent, AgentRunContext, AgentState
    from zett_agent.client import AgentClient, create_agent
    from zett_agent.config import AgentRunConfig
    from zett_agent.context import ToolContext
    from zett_agent.dispatcher import AgentEventDispatcher
    from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
    from zett_agent.exceptions import (
        AgentCancelledError,
        AgentDeadlineError,
        AgentError,
        AgentIterationLimitError,
        AgentLimitError,
        AgentProtocolError,
        AgentRepeatError,
        AgentResumeError,
        AgentStopError,
        InputRefusedError,
        ProviderAuthError,
        ProviderError,
        ProviderHTTPError,
        ProviderRefusalError,
        ProviderResponseError,
        ProviderTimeoutError,
        SessionBusyError,
        StorageError,
        StoredFormatError,
        ToolArgumentsError,
        ToolError,
        ToolRejectedError,
        ToolTimeoutError,
        ToolUnknownError,
    )
    from zett_agent.extensions.base import AgentExtension
    from zett_agent.extensions.external import ExternalEventExtension
    from zett_agent.messages import (
        AgentMessage,
        AssistantMessage,
        ImageContent,
        SystemMessage,
        TextContent,
        ToolCall,
        ToolMessage,
        UserMessage,
    )
    from zett_agent.model import AgentModel, ModelEvent, ModelRequest, ModelResponse, ModelUsage, ReasoningEffort
    from zett_agent.stop import StopInfo, StopReason
    from zett_agent.sync import SyncAgent, create_agent_sync
    from zett_agent.tools.base import AgentTool, ToolExecutionMode, tool
    from zett_agent.waits import ExternalEvent, Wait
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
