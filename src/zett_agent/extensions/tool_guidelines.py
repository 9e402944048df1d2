"""Telling the model how to use its tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from enum import StrEnum

from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension, ModelRequestNext
from zett_agent.messages import SystemMessage
from zett_agent.model import ModelEvent, ModelRequest, ToolDefinition
from zett_agent.tools.base import render_tool_description, render_tool_guidance


class ToolGuidancePlacement(StrEnum):
    """Where the guidance goes."""

    SYSTEM_PROMPT = "system_prompt"
    DESCRIPTION = "description"


class ToolGuidelinesExtension(AgentExtension):
    """Shows the snippets and guidelines of the tools to the model, in a system message or in the tools' descriptions.

    ``returns`` adds the schema of what a tool returns. Deferred tools are left out.
    """

    def __init__(
        self,
        *,
        placement: ToolGuidancePlacement | str = ToolGuidancePlacement.SYSTEM_PROMPT,
        snippets: bool = True,
        guidelines: bool = True,
        returns: bool = False,
    ) -> None:
        self.placement = ToolGuidancePlacement(placement)
        self.snippets = snippets
        self.guidelines = guidelines
        self.returns = returns
        if self.placement is ToolGuidancePlacement.DESCRIPTION:
            # Only this placement wraps the model stream; the other must not cost anything per delta.
            self.on_model_request = self._describe  # type: ignore[method-assign]

    @property
    def in_system_prompt(self) -> bool:
        """True when the guidance is a system message."""
        return self.placement is ToolGuidancePlacement.SYSTEM_PROMPT

    async def on_state(self, context: AgentRunContext) -> None:
        """Put the guidance behind the leading instructions, unless it is empty or there already."""
        if not self.in_system_prompt:
            return
        tools = [tool for tool in context.tools.values() if not tool.deferred]
        text = render_tool_guidance(tools, snippets=self.snippets, guidelines=self.guidelines, returns=self.returns)
        if not text:
            return
        place = 0
        for message in context.transcript.view():
            if not isinstance(message, SystemMessage):
                break
            if message.content == text:
                return
            place += 1
        context.add_message(SystemMessage(content=text, attributes={"tool_guidelines": True}), index=place)

    async def _describe(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        tools = tuple(self._described(context, definition) for definition in request.tools)
        async with aclosing(call_next(replace(request, tools=tools))) as stream:  # type: ignore[type-var]
            async for event in stream:
                yield event

    def _described(self, context: AgentRunContext, definition: ToolDefinition) -> ToolDefinition:
        tool = context.tools.get(definition.name)
        if tool is None or tool.deferred:
            return definition
        description = render_tool_description(
            tool,
            snippet=self.snippets,
            guidelines=self.guidelines,
            returns=self.returns,
            base=definition.description,
        )
        return replace(definition, description=description)
