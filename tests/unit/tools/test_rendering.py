"""How tools are described in prompts and to a search."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.tools import guidance
from zett_agent.tools.base import (
    AgentTool,
    render_tool_description,
    render_tool_guidance,
    render_tool_search_text,
)


async def handler(**arguments: Any) -> None: ...


def made(name: str, **fields: Any) -> AgentTool:
    parameters = {"type": "object", "properties": {"a": {"description": "First."}, "b": {"type": "integer"}}}
    return AgentTool(name, "Does it.", parameters, handler, **fields)


BARE = made("bare")
ONE = made("one", snippet="one(a)", guidelines=("Rule 1.", "Rule 2."), return_schema={"type": "string"})
MANY = made("many_lines", snippet="first\nsecond", guidelines=("Rule 3.",), deferred=True)
RETURNS = made("returns", return_schema={"type": "object", "b": "ü", "a": 1})


def test_guidance_lists_snippets_and_then_guidelines() -> None:
    assert render_tool_guidance([ONE, BARE, MANY]) == (
        "# Tool snippets\n"
        "- one: one(a)\n"
        "- many_lines:\n"
        "  first\n"
        "  second\n"
        "\n"
        "# Tool guidelines\n"
        "## one\n"
        "- Rule 1.\n"
        "- Rule 2.\n"
        "\n"
        "## many_lines\n"
        "- Rule 3."
    )


def test_guidance_may_show_what_tools_return() -> None:
    assert render_tool_guidance(iter([ONE, MANY, RETURNS]), guidelines=False, returns=True) == (
        "# Tool snippets\n"
        "- one: one(a)\n"
        '  returns {"type":"string"}\n'
        "- many_lines:\n"
        "  first\n"
        "  second\n"
        "- returns:\n"
        '  returns {"a":1,"b":"ü","type":"object"}'
    )


def test_guidance_may_leave_snippets_out() -> None:
    assert render_tool_guidance([MANY], snippets=False) == "# Tool guidelines\n## many_lines\n- Rule 3."


@pytest.mark.parametrize("tools", [[], [BARE]])
def test_guidance_without_anything_to_say_is_empty(tools: list[AgentTool]) -> None:
    assert render_tool_guidance(tools) == ""


def test_a_description_has_everything_folded_in() -> None:
    assert render_tool_description(ONE, returns=True) == (
        'Does it.\n\nSnippet:\n- one(a)\n- returns {"type":"string"}\n\nGuidelines:\n- Rule 1.\n- Rule 2.'
    )
    assert render_tool_description(MANY, base="Other.") == (
        "Other.\n\nSnippet:\n- first\n- second\n\nGuidelines:\n- Rule 3."
    )


def test_a_description_has_only_what_is_wanted() -> None:
    assert render_tool_description(ONE, snippet=False, guidelines=False) == "Does it."
    assert render_tool_description(BARE, returns=True) == "Does it."


def test_the_search_text_has_every_word_about_a_tool() -> None:
    assert render_tool_search_text(MANY) == "many lines\nDoes it.\nFirst.\nfirst\nsecond\nRule 3."
    assert render_tool_search_text(AgentTool("a_b", "Does it.", {}, handler)) == "a b\nDoes it."


MANY_NAMES = [f"tool_{number:03}" for number in range(500)] + ["read_file", "write_file"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("read_fil", "Did you mean read_file"),
        ("reed_file", "Did you mean read_file"),
        ("tool_4200", "tool_420"),
        ("search", "Use one of the tools that are offered."),
        ("", "Use one of the tools that are offered."),
    ],
)
def test_a_made_up_name_is_told_what_may_be_meant(name: str, hint: str) -> None:
    said = guidance.unknown_tool_text(name, MANY_NAMES)
    assert said.startswith(f"There is no tool named {name!r}.") and hint in said


@pytest.mark.parametrize("name", ["tool_xyz", "x" * 10, "tool_" * 1_000])
def test_a_made_up_name_is_compared_with_few_names_however_many_there_are(name: str) -> None:
    assert len(guidance._alike(name, MANY_NAMES)) <= 16


def test_a_made_up_name_is_repeated_in_part() -> None:
    assert guidance.unknown_tool_text("x" * 101, []).startswith(f"There is no tool named {'x' * 100 + '...'!r}.")
