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
        if self.in_system_prompt and type(self).on_model_request is ToolGuidelinesExtension.on_model_request:
            self.idle_hooks = frozenset({"on_model_request"})  # it would cost every delta for nothing

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

    async def on_model_request(
        self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
    ) -> AsyncIterator[ModelEvent]:
        """With placement ``description``, put the guidance into the descriptions of the outgoing request."""
        if not self.in_system_prompt:
            request = replace(request, tools=tuple(self._described(context, tool) for tool in request.tools))
        async with aclosing(call_next(request)) as stream:  # type: ignore[type-var]  # an async generator, see AgentModel
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
