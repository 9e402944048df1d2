"""AgentTool: what a tool is, and how the runtime calls it."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import pytest

from zett_agent.exceptions import ToolError
from zett_agent.model import ToolDefinition
from zett_agent.tools.base import AgentTool, ToolExecutionMode

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}


async def echo(**arguments: Any) -> Any:
    return arguments


def made(**changes: Any) -> AgentTool:
    fields = {"name": "echo", "description": "Say it again.", "parameters": SCHEMA, "handler": echo}
    return AgentTool(**{**fields, **changes})


def test_the_fields_and_their_defaults_are_the_documented_ones() -> None:
    tool = made()
    given = {field.name: getattr(tool, field.name) for field in dataclasses.fields(AgentTool) if field.init}
    assert list(given.items())[4:] == [
        ("guidelines", ()),
        ("snippet", ""),
        ("return_schema", None),
        ("execution_mode", ToolExecutionMode.PARALLEL),
        ("deferred", False),
        ("local_tool_search", False),
        ("timeout", None),
        ("idempotent", False),
        ("repeatable", False),
        ("max_result_chars", None),
    ]
    assert list(given)[:4] == ["name", "description", "parameters", "handler"]


def test_the_definition_is_built_once_and_shares_the_schema() -> None:
    tool = made(deferred=True)
    assert tool.definition == ToolDefinition("echo", "Say it again.", SCHEMA, True, False)
    assert tool.definition is tool.definition
    assert tool.definition.parameters is SCHEMA


def test_a_tool_is_its_own_identity() -> None:
    first, second = made(), made()
    assert first != second
    assert {first, second, first} == {first, second}
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.name = "other"  # type: ignore[misc]


def test_a_tool_can_be_referred_to_weakly() -> None:
    tool = made()
    seen = weakref.ref(tool)
    del tool
    gc.collect()
    assert seen() is None


def test_a_changed_copy_has_a_definition_of_its_own() -> None:
    copy = dataclasses.replace(made(guidelines="One rule."), name="other", timeout=2)
    assert (copy.definition.name, copy.guidelines, copy.timeout) == ("other", ("One rule.",), 2)


def test_guidelines_are_kept_as_a_tuple() -> None:
    assert made(guidelines=["a", "b"]).guidelines == ("a", "b")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", " ", "name must not be blank"),
        ("name", None, "name must not be blank"),
        ("description", "\n", "description must not be blank"),
        ("guidelines", ["ok", " "], "guidelines must not be blank"),
        ("guidelines", [1], "guidelines must not be blank"),
        ("execution_mode", "serial", "execution_mode must be a ToolExecutionMode, not 'serial'"),
        ("deferred", 1, "deferred must be True or False"),
        ("local_tool_search", None, "local_tool_search must be True or False"),
        ("idempotent", "yes", "idempotent must be True or False"),
        ("parameters", "{}", "parameters must be a dict"),
        ("handler", None, "handler must be an async callable"),
        ("return_schema", [], "return_schema must be a dict"),
        ("timeout", 0, "timeout must be None or a finite number of seconds above 0"),
        ("timeout", True, "timeout must be"),
        ("timeout", "3", "timeout must be"),
        ("timeout", float("inf"), "timeout must be"),
    ],
)
def test_what_is_invalid_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**{field: value})


def test_a_searching_tool_cannot_be_deferred() -> None:
    with pytest.raises(ValueError, match="cannot be deferred"):
        made(deferred=True, local_tool_search=True)


def test_a_hand_made_tool_takes_arguments_as_they_are() -> None:
    arguments = {"text": None, "more": ["[1]"]}
    checked = made().check(arguments)
    assert checked == arguments
    assert checked is not arguments


async def test_a_hand_made_tool_is_invoked_with_a_mapping() -> None:
    tool = made()
    assert await tool.invoke({"text": "a"}) == {"text": "a"}
    assert await tool({"text": "a"}) == {"text": "a"}
    assert await tool.run(tool.prepare({"text": "a"})) == {"text": "a"}


async def test_an_exception_of_the_handler_propagates() -> None:
    async def fail(**arguments: Any) -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await made(handler=fail).invoke({})


def test_a_result_is_serialized_as_text() -> None:
    assert made().serialize_result({"a": float("nan")}) == '{"a":null}'
    with pytest.raises(ToolError, match="object"):
        made().serialize_result(object())
