"""A tool: what a model is told of it, and what the runtime calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from typing_extensions import TypeAliasType

from zett_agent._checks import boolean, time_limit, whole_number
from zett_agent.model import ToolDefinition
from zett_agent.tools.results import serialize_result

ToolResult = TypeAliasType("ToolResult", Any)


class ToolExecutionMode(StrEnum):
    """Whether calls of a tool may run beside other calls of the same response."""

    SERIAL = "serial"
    PARALLEL = "parallel"


@dataclass(slots=True)
class Prepared:
    """One checked call: ``arguments`` as hooks see them, ``values`` as the function takes them."""

    arguments: dict[str, Any]
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AgentTool:
    """A tool: ``handler`` is an async callable that takes the arguments by name; ``parameters`` is their JSON schema.

    ``timeout`` is in seconds; ``max_result_chars`` goes before the agent's. ``idempotent`` says that running a call
    again does no harm, ``repeatable`` that making it again and again is no sign of a loop (polling). ``deferred`` and
    ``local_tool_search`` reach the provider in ``definition``; this library searches for no tools, so a deferred tool
    is offered like any other. Raises ValueError.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    handler: Callable[..., Awaitable[Any]]
    guidelines: Sequence[str] = ()
    snippet: str = ""
    return_schema: dict[str, Any] | None = None
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL
    deferred: bool = False
    local_tool_search: bool = False
    timeout: float | None = None
    idempotent: bool = False
    repeatable: bool = False
    max_result_chars: int | None = None
    definition: ToolDefinition = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: object = self.guidelines
        if not isinstance(given, Iterable):
            raise ValueError(f"guidelines must be a list of strings, not {type(given).__name__}")
        rules = (self.guidelines,) if isinstance(self.guidelines, str) else tuple(self.guidelines)
        object.__setattr__(self, "guidelines", rules)
        _check_words(self)
        _check_options(self)
        _check_shape(self)
        definition = ToolDefinition(self.name, self.description, self.parameters, self.deferred, self.local_tool_search)
        object.__setattr__(self, "definition", definition)

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        """Check arguments once for both hooks and handler; raises ToolArgumentsError."""
        given = arguments if type(arguments) is dict else dict(arguments)
        return Prepared(given, given)

    def run(self, prepared: Prepared) -> Awaitable[Any]:
        """Run the handler, once awaited, on what ``prepare`` returned; its exceptions propagate."""
        return self.handler(**prepared.values)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as hooks see them: still JSON, with the documented repairs made.

        Raises ToolArgumentsError, whose text names each field and what is wrong with it.
        """
        return dict(self.prepare(arguments).arguments)

    async def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments and run the handler; its exceptions propagate."""
        return await self.run(self.prepare(arguments))

    async def __call__(self, arguments: Mapping[str, Any]) -> Any:
        """The same as ``invoke``."""
        return await self.invoke(arguments)

    def serialize_result(self, value: object) -> str:
        """The text of a return value: a string as it is, anything else as strict JSON; raises ToolError."""
        return serialize_result(value)


def _check_words(tool: AgentTool) -> None:
    for name in ("name", "description"):
        if not isinstance(value := getattr(tool, name), str) or not value.strip():
            raise ValueError(f"{name} must not be blank")
    if not all(isinstance(rule, str) and rule.strip() for rule in tool.guidelines):
        raise ValueError("guidelines must not be blank")
    if not isinstance(tool.snippet, str):
        raise ValueError(f"snippet must be a string, not {type(tool.snippet).__name__}")


def _check_options(tool: AgentTool) -> None:
    if not isinstance(tool.execution_mode, ToolExecutionMode):
        raise ValueError(f"execution_mode must be a ToolExecutionMode, not {tool.execution_mode!r}")
    for name in ("deferred", "local_tool_search", "idempotent", "repeatable"):
        boolean(name, getattr(tool, name))
    if tool.local_tool_search and tool.deferred:
        raise ValueError("a tool that searches cannot be deferred itself")
    time_limit("timeout", tool.timeout)
    if tool.max_result_chars is not None:
        whole_number("max_result_chars", tool.max_result_chars, 1)


def _check_shape(tool: AgentTool) -> None:
    if not isinstance(tool.parameters, dict):
        raise ValueError("parameters must be a dict with a JSON schema")
    _check_json("parameters", tool.parameters)
    if not callable(tool.handler):
        raise ValueError("handler must be an async callable")
    if tool.return_schema is not None:
        if not isinstance(tool.return_schema, dict):
            raise ValueError("return_schema must be a dict with a JSON schema, or None")
        _check_json("return_schema", tool.return_schema)


def _check_json(name: str, schema: dict[str, Any]) -> None:
    """See to it that a schema can be sent; by writing it, which takes a tenth of the time of looking at each value."""
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be a JSON schema: {error}") from None
