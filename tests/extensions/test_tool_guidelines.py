"""Where the model reads how to use its tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.scenario import add, scene
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.tool_guidelines import ToolGuidancePlacement, ToolGuidelinesExtension
from zett_agent.messages import SystemMessage
from zett_agent.model import ModelEvent, ToolDefinition
from zett_agent.testing import EXTENSION_CHECKS, call
from zett_agent.tools.base import tool

GUIDANCE = """# Tool snippets
- read: read("a.txt")

# Tool guidelines
## read
- Read before you write."""


@tool
async def read(path: str) -> str:
    """Read a file.

    Snippet:
        read("a.txt")

    Guidelines:
        - Read before you write.
    """
    return path


@tool(deferred=True, guidelines="Never shown.")
async def hidden() -> str:
    """Do something rare."""
    return ""


@pytest.mark.parametrize("placement", list(ToolGuidancePlacement))
@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_behaves_as_every_extension_must(check: Any, placement: ToolGuidancePlacement) -> None:
    await check(lambda: ToolGuidelinesExtension(placement=placement))


async def test_the_guidance_follows_the_instructions_as_a_system_message() -> None:
    stage = await scene(
        "one", "two", tools=[add, read, hidden], extensions=[ToolGuidelinesExtension()], system_prompt="S"
    )
    for _ in range(2):
        outcome = await stage.play()
        assert [message.content for message in outcome.messages if isinstance(message, SystemMessage)] == [
            "S",
            GUIDANCE,
        ]
        assert outcome.messages[1].attributes == {"tool_guidelines": True}


async def test_without_guidance_there_is_no_message() -> None:
    stage = await scene("done", tools=[add, hidden], extensions=[ToolGuidelinesExtension()])
    assert (await stage.play()).story == ["user hi", "assistant done"]


async def test_guidance_that_stands_there_already_is_not_repeated() -> None:
    class Writes(AgentExtension):
        priority = 1

        async def on_state(self, context: AgentRunContext) -> None:
            context.add_message(SystemMessage(content=GUIDANCE))

    stage = await scene("done", tools=[read], extensions=[Writes(), ToolGuidelinesExtension()])
    assert (await stage.play()).story == [f"system {GUIDANCE}", "user hi", "assistant done"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"snippets": False}, "# Tool guidelines\n## read\n- Read before you write."),
        ({"guidelines": False}, '# Tool snippets\n- read: read("a.txt")'),
        ({"guidelines": False, "returns": True}, '# Tool snippets\n- read: read("a.txt")\n  returns {"type":"string"}'),
    ],
)
async def test_what_is_shown_can_be_chosen(options: dict[str, Any], text: str) -> None:
    stage = await scene("done", tools=[read], extensions=[ToolGuidelinesExtension(**options)])
    assert (await stage.play()).story[0] == f"system {text}"


async def test_the_guidance_can_go_into_the_descriptions_instead() -> None:
    guidelines = ToolGuidelinesExtension(placement="description")
    assert not guidelines.in_system_prompt
    stage = await scene([call("read", path="x")], "done", tools=[add, read, hidden], extensions=[guidelines])
    outcome = await stage.play()
    assert outcome.story == ["user hi", "assistant -> read(call_1)", "tool call_1 ok: x", "assistant done"]
    for request in stage.model.requests:
        described = {definition.name: definition.description for definition in request.tools}
        assert described["add"] == "Add two numbers."
        assert described["hidden"] == "Do something rare."
        assert described["read"].splitlines() == [
            "Read a file.",
            "",
            "Snippet:",
            '- read("a.txt")',
            "",
            "Guidelines:",
            "- Read before you write.",
        ]
    assert read.definition.description == "Read a file."


async def test_a_definition_that_is_no_tool_of_the_request_is_left_alone() -> None:
    class Offers(AgentExtension):
        priority = 1

        async def on_model_request(
            self, context: AgentRunContext, request: Any, call_next: Any
        ) -> AsyncIterator[ModelEvent]:
            foreign = ToolDefinition("foreign", "From elsewhere.", {})
            async for event in call_next(replace(request, tools=(*request.tools, foreign))):
                yield event

    stage = await scene("done", tools=[read], extensions=[Offers(), ToolGuidelinesExtension(placement="description")])
    await stage.play()
    assert stage.model.requests[0].tools[-1].description == "From elsewhere."


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        ToolGuidelinesExtension(placement="elsewhere")
