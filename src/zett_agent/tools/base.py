"""The names of tools, at the path where programs look for them."""

from zett_agent.tools.agent_tool import AgentTool, ToolExecutionMode, ToolResult
from zett_agent.tools.current_call import current_tool_call_id
from zett_agent.tools.docstrings import get_tool_guidelines, get_tool_snippet
from zett_agent.tools.function_tool import tool
from zett_agent.tools.guidance import render_tool_description, render_tool_guidance, render_tool_search_text

__all__ = (
    "AgentTool",
    "ToolExecutionMode",
    "ToolResult",
    "current_tool_call_id",
    "get_tool_guidelines",
    "get_tool_snippet",
    "render_tool_description",
    "render_tool_guidance",
    "render_tool_search_text",
    "tool",
)
