"""A runtime for tool-calling agents. Names load on first use: importing the package alone is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = (
    "Agent",
    "AgentCancelledError",
    "AgentClient",
    "AgentError",
    "AgentEvent",
    "AgentEventDispatcher",
    "AgentEventType",
    "AgentExtension",
    "AgentIterationLimitError",
    "AgentMessage",
    "AgentModel",
    "AgentPhase",
    "AgentProtocolError",
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

_HOMES: dict[str, tuple[str, ...]] = {
    "agent": ("Agent", "AgentRunContext", "AgentState"),
    "client": ("AgentClient", "create_agent"),
    "config": ("AgentRunConfig",),
    "context": ("ToolContext",),
    "dispatcher": ("AgentEventDispatcher",),
    "events": ("AgentEvent", "AgentEventType", "AgentPhase"),
    "exceptions": (
        "AgentCancelledError",
        "AgentError",
        "AgentIterationLimitError",
        "AgentProtocolError",
        "AgentResumeError",
        "AgentStopError",
        "InputRefusedError",
        "ProviderAuthError",
        "ProviderError",
        "ProviderHTTPError",
        "ProviderRefusalError",
        "ProviderResponseError",
        "ProviderTimeoutError",
        "SessionBusyError",
        "StorageError",
        "StoredFormatError",
        "ToolArgumentsError",
        "ToolError",
        "ToolRejectedError",
        "ToolTimeoutError",
        "ToolUnknownError",
    ),
    "extensions.base": ("AgentExtension",),
    "extensions.external": ("ExternalEventExtension",),
    "messages": (
        "AgentMessage",
        "AssistantMessage",
        "ImageContent",
        "SystemMessage",
        "TextContent",
        "ToolCall",
        "ToolMessage",
        "UserMessage",
    ),
    "model": ("AgentModel", "ModelEvent", "ModelRequest", "ModelResponse", "ModelUsage", "ReasoningEffort"),
    "stop": ("StopInfo", "StopReason"),
    "sync": ("SyncAgent", "create_agent_sync"),
    "tools.base": ("AgentTool", "ToolExecutionMode", "tool"),
    "waits": ("ExternalEvent", "Wait"),
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
        AgentError,
        AgentIterationLimitError,
        AgentProtocolError,
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
    _MODULES = {name: f"zett_agent.{module}" for module, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value  # the next access finds it without coming here
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
