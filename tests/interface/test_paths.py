"""The paths under which programs import what the interface names."""

from __future__ import annotations

from importlib import import_module

import pytest

PATHS = {
    "zett_agent.ids": "new_uuid7",
    "zett_agent.json_types": "JsonValue json_object",
    "zett_agent.exceptions": ("AgentError AgentProtocolError AgentIterationLimitError AgentStopError AgentResumeError"),
    "zett_agent.messages": (
        "MessageRole ImageDetail TextContent ImageUrlSource ImageBytesSource ImageContent ImageSource UserContentPart"
        " UserContent ToolCall Message SystemMessage UserMessage AssistantMessage ToolMessage AgentMessage AnyMessage"
    ),
    "zett_agent.stop": "StopInfo StopReason classify_stop",
    "zett_agent.model": (
        "AgentModel DEFAULT_RETRY_OPTIONS DEFAULT_TIMEOUT_OPTIONS ModelEvent ModelEventType ModelRequest ModelResponse"
        " ModelUsage NativeDeferredToolsModel ReasoningEffort RetryOptions ServerToolCall ServerToolDefinition"
        " ServerToolInputDelta ServerToolResult TimeoutOptions ToolCallDelta ToolDefinition validate_response"
        " validate_retry validate_timeout"
    ),
    "zett_agent.resume": "ResumeKind ResumePoint classify_resume",
    "zett_agent.events": "AgentEvent AgentEventType AgentPhase",
    "zett_agent.event_queue": "AgentEventQueue",
    "zett_agent.agent": "Agent AgentRunConfig AgentRunContext AgentState",
    "zett_agent.client": "AgentClient create_agent",
    "zett_agent.dispatcher": "AgentEventDispatcher",
    "zett_agent.sync": "SyncAgent SyncModelAdapter create_agent_sync",
    "zett_agent.sync_runtime": "SyncContext SyncObject SyncRuntime SyncStream",
    "zett_agent.tools": "AgentTool ToolExecutionMode ToolResult tool",
    "zett_agent.tools.base": (
        "AgentTool ToolExecutionMode ToolResult current_tool_call_id get_tool_guidelines get_tool_snippet"
        " render_tool_description render_tool_guidance render_tool_search_text tool"
    ),
    "zett_agent.extensions": (
        "AgentExtension AskUserExtension AsyncSubAgentExtension ExternalEventExtension GoalExtension"
        " InternalMessageExtension SteeringExtension SubAgentExtension ToolExtension ToolGuidelinesExtension"
    ),
    "zett_agent.extensions.ask_user": (
        "ASK_USER_EVENT_NAME ASK_USER_RESPONSE_EVENT_NAME ASK_USER_TOOL_NAME AskUserEvent AskUserExtension"
        " AskUserImagePart AskUserMaxImageBytes AskUserMaxImages AskUserRequest AskUserResponse AskUserResult"
        " AskUserTextPart"
    ),
    "zett_agent.extensions.async_subagent": ("AsyncSubAgentExtension SubAgentTask SubAgentTaskInfo SubAgentTaskStatus"),
    "zett_agent.extensions.base": "AgentExtension ModelRequestNext ToolCallNext",
    "zett_agent.extensions.events": (
        "CompactionEvent ContentCompletedEvent ContentStartedEvent ExtensionEvent InternalMessageEvent"
        " MessageAppendedEvent MessageTiming ModelOutputLifecycleEvent PhaseTransitionEvent ReasoningCompletedEvent"
        " ReasoningStartedEvent RunCancelledEvent SteeringMessageEvent"
    ),
    "zett_agent.extensions.external": "ExternalEvent ExternalEventExtension",
    "zett_agent.extensions.goal": "GOAL_MODE_EVENT_NAME GoalEvaluation GoalExtension default_goal_subagent",
    "zett_agent.extensions.internal_message": "INTERNAL_MESSAGE_EVENT_NAME InternalMessageExtension",
    "zett_agent.extensions.memory": "InMemoryMessageAccumulator",
    "zett_agent.extensions.steering": "STEERING_MESSAGE_EVENT_NAME SteeringExtension",
    "zett_agent.extensions.subagent": (
        "SubAgentDefinition SubAgentExtension SubAgentResult default_subagents subagent_report"
    ),
    "zett_agent.extensions.tool": "ToolExtension",
    "zett_agent.extensions.tool_guidelines": "ToolGuidancePlacement ToolGuidelinesExtension",
    "zett_agent.providers.base": (
        "ProviderAuthError ProviderError ProviderHTTPError ProviderRefusalError ProviderResponseError"
        " ProviderTimeoutError"
    ),
    "zett_agent.providers.openai": "OpenAIProvider",
}


@pytest.mark.parametrize(("path", "names"), PATHS.items(), ids=list(PATHS))
def test_each_name_is_found_at_its_documented_path(path: str, names: str) -> None:
    module = import_module(path)
    assert [name for name in names.split() if not hasattr(module, name)] == []


@pytest.mark.parametrize("facade", ["zett_agent", "zett_agent.extensions", "zett_agent.providers", "zett_agent.tools"])
def test_a_package_lists_its_names_in_a_tuple_and_keeps_what_it_has_loaded(facade: str) -> None:
    package = import_module(facade)
    assert isinstance(package.__all__, tuple)
    for name in package.__all__:
        assert vars(package).get(name, getattr(package, name)) is getattr(package, name)
        assert name in vars(package)
