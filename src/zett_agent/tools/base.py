"""Tools: what an agent can do, as the model sees it and as the runtime calls it."""

from __future__ import annotations

import inspect
import json
import math
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from pydantic_core import ValidationError
from typing_extensions import TypeAliasType

from zett_agent.exceptions import ToolArgumentsError
from zett_agent.model import ToolDefinition
from zett_agent.tools.arguments import arguments_error, repair_arguments
from zett_agent.tools.docstrings import ToolDocstring, parse_docstring
from zett_agent.tools.results import serialize_result
from zett_agent.tools.schema import FunctionSchema, function_schema
from zett_agent.tools.threads import shared_pool

P = ParamSpec("P")
R = TypeVar("R")

ToolResult = TypeAliasType("ToolResult", Any)


class ToolExecutionMode(StrEnum):
    """Whether calls of a tool may run beside other calls of the same response."""

    SERIAL = "serial"
    PARALLEL = "parallel"


class CallScope(Protocol):
    """What a running call knows of its surroundings."""

    call_id: str

    def inject(self, wanted: type) -> object:
        """Return the object of type ``wanted`` that belongs to this call."""
        ...


CURRENT_CALL: ContextVar[CallScope | None] = ContextVar("zett_agent_current_call", default=None)


def current_tool_call_id() -> str | None:
    """The id of the call that is running here, also in the thread of a plain function; None outside of one."""
    scope = CURRENT_CALL.get()
    return None if scope is None else scope.call_id


@dataclass(slots=True)
class Prepared:
    """One checked call: ``arguments`` as hooks see them, ``values`` as the function takes them."""

    arguments: dict[str, Any]
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AgentTool:
    """A tool: ``handler`` is an async callable that takes the arguments by name; ``parameters`` is their JSON schema.

    ``timeout`` is in seconds. ``idempotent`` says that running a call again does no harm. A ``deferred`` tool may
    be held back by what searches for tools; ``local_tool_search`` marks the tool that searches. Raises ValueError.
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
    definition: ToolDefinition = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guidelines", _guidelines(self.guidelines))
        _validate(self)
        definition = ToolDefinition(self.name, self.description, self.parameters, self.deferred, self.local_tool_search)
        object.__setattr__(self, "definition", definition)

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        """Check arguments once for both hooks and handler; raises ToolArgumentsError."""
        given = dict(arguments)
        return Prepared(given, given)

    def run(self, prepared: Prepared) -> Awaitable[Any]:
        """Run the handler, once awaited, on what ``prepare`` returned; its exceptions propagate."""
        return self.handler(**prepared.values)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as hooks see them: still JSON, with the documented repairs made.

        Raises ToolArgumentsError, whose text names each field and what is wrong with it.
        """
        return self.prepare(arguments).arguments

    async def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments and run the handler; its exceptions propagate."""
        return await self.run(self.prepare(arguments))

    async def __call__(self, arguments: Mapping[str, Any]) -> Any:
        """The same as ``invoke``."""
        return await self.invoke(arguments)

    def serialize_result(self, value: object) -> str:
        """The text of a return value: a string as it is, anything else as strict JSON; raises ToolError."""
        return serialize_result(value)


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """The handler of a decorated function: it takes JSON arguments, as every handler does; ``call`` takes values."""

    call: Callable[..., Awaitable[Any]]
    schema: FunctionSchema = field(repr=False)

    async def __call__(self, /, **arguments: Any) -> Any:
        """Check the arguments and call the function; raises pydantic's ValidationError."""
        return await self.call(**self.schema.validate(arguments))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTool(AgentTool, Generic[P, R]):
    """A decorated function. Calling it calls the function, with the function's own signature."""

    function: Callable[P, R] = field(kw_only=True, repr=False)
    schema: FunctionSchema = field(kw_only=True, repr=False)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        """Call the function itself: nothing is checked, injected or awaited."""
        return self.function(*args, **kwargs)

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        """Check arguments against the signature; raises ToolArgumentsError."""
        given = dict(arguments)
        try:
            return Prepared(given, self.schema.validate(given))
        except ValidationError as error:
            return self._repaired(given, error)
        except (Exception, SystemExit, CancelledError) as error:
            raise _broken_check(error) from error

    def run(self, prepared: Prepared) -> Awaitable[Any]:
        """Call the function with the checked values, or a handler that was put in its place with the arguments."""
        handler = self.handler
        if isinstance(handler, FunctionHandler):
            return handler.call(**prepared.values)
        return handler(**prepared.arguments)

    def _repaired(self, given: dict[str, Any], error: ValidationError) -> Prepared:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        repaired = repair_arguments(given, errors, self.parameters)
        if repaired is not None:
            try:
                return Prepared(repaired, self.schema.validate(repaired))
            except ValidationError:
                pass  # the model is told what is wrong with what it sent
            except (Exception, SystemExit, CancelledError) as failure:
                raise _broken_check(failure) from failure
        raise arguments_error(errors, self.parameters["properties"]) from None


def _broken_check(error: BaseException) -> ToolArgumentsError:
    """A validator of the tool's own that raises what it may not: this call's failure, not the request's."""
    return ToolArgumentsError(f"The arguments cannot be checked: {type(error).__name__}: {error}")


@overload
def tool(
    function: Callable[P, R],
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    timeout: float | None = None,
    idempotent: bool = False,
    strict: bool = False,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    timeout: float | None = None,
    idempotent: bool = False,
    strict: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    snippet: str | None = None,
    guidelines: str | Sequence[str] | None = None,
    execution_mode: ToolExecutionMode = ToolExecutionMode.PARALLEL,
    deferred: bool = False,
    local_tool_search: bool = False,
    timeout: float | None = None,
    idempotent: bool = False,
    strict: bool = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, as ``@tool`` or ``@tool(...)``.

    The docstring gives the description (required), ``Args``, ``Snippet`` and ``Guidelines``; the annotations give the
    schema. A plain function runs in a thread. ``timeout`` is in seconds; ``strict`` turns coercion ("3" to 3) off.
    Raises ValueError for a function that cannot be a tool, naming what is wrong with it.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        doc = parse_docstring(function.__doc__)
        called = name or str(getattr(function, "__name__", type(function).__name__))
        schema = _schema(called, function, doc, strict=strict)
        return FunctionTool(
            name=called,
            description=doc.description,
            parameters=schema.parameters,
            handler=FunctionHandler(_caller(function, schema), schema),
            guidelines=doc.guidelines if guidelines is None else _guidelines(guidelines),
            snippet=doc.snippet if snippet is None else snippet,
            return_schema=schema.return_schema,
            execution_mode=execution_mode,
            deferred=deferred,
            local_tool_search=local_tool_search,
            timeout=timeout,
            idempotent=idempotent,
            function=function,
            schema=schema,
        )

    return decorate if function is None else decorate(function)


def _schema(name: str, function: Callable[..., Any], doc: ToolDocstring, *, strict: bool) -> FunctionSchema:
    if not doc.description:
        raise ValueError(f"tool {name}: the docstring must begin with a description for the model")
    try:
        return function_schema(function, dict(doc.parameters), strict=strict)
    except ValueError as error:
        raise ValueError(f"tool {name}: {error}") from error
    except Exception as error:  # an annotation can raise anything: a name that is unknown, a pattern that is broken
        raise ValueError(f"tool {name}: an annotation cannot be used: {type(error).__name__}: {error}") from error


def _caller(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Awaitable[Any]]:
    call = function if inspect.iscoroutinefunction(function) else _in_thread(function)
    return _injecting(call, schema) if schema.injected else call


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(**values: Any) -> Any:
        result = await shared_pool().run(partial(function, **values))
        # A plain wrapper around a coroutine function cannot be told from its looks.
        return await result if inspect.isawaitable(result) else result

    return call


def _injecting(call: Callable[..., Awaitable[Any]], schema: FunctionSchema) -> Callable[..., Awaitable[Any]]:
    async def inject(**values: Any) -> Any:
        return await call(**values, **_injected(schema))

    return inject


def _injected(schema: FunctionSchema) -> dict[str, object]:
    scope = CURRENT_CALL.get()
    if scope is not None:
        return {name: scope.inject(wanted) for name, wanted in schema.injected.items()}
    needed = [name for name in schema.injected if name not in schema.defaulted]
    if needed:
        raise RuntimeError(f"{', '.join(needed)} can only be filled in while an agent runs the call")
    return {}


def _guidelines(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _validate(tool: AgentTool) -> None:
    for name in ("name", "description"):
        if not isinstance(value := getattr(tool, name), str) or not value.strip():
            raise ValueError(f"{name} must not be blank")
    if not all(isinstance(rule, str) and rule.strip() for rule in tool.guidelines):
        raise ValueError("guidelines must not be blank")
    if not isinstance(tool.execution_mode, ToolExecutionMode):
        raise ValueError(f"execution_mode must be a ToolExecutionMode, not {tool.execution_mode!r}")
    for name in ("deferred", "local_tool_search", "idempotent"):
        if not isinstance(getattr(tool, name), bool):
            raise ValueError(f"{name} must be True or False")
    if tool.local_tool_search and tool.deferred:
        raise ValueError("a tool that searches cannot be deferred itself")
    _validate_rest(tool)


def _validate_rest(tool: AgentTool) -> None:
    if not isinstance(tool.parameters, dict):
        raise ValueError("parameters must be a dict with a JSON schema")
    if not callable(tool.handler):
        raise ValueError("handler must be an async callable")
    if tool.return_schema is not None and not isinstance(tool.return_schema, dict):
        raise ValueError("return_schema must be a dict with a JSON schema, or None")
    seconds = tool.timeout
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("timeout must be None or a finite number of seconds above 0")


def get_tool_snippet(function: Callable[..., Any]) -> str:
    """The Snippet section of a function that is not decorated yet; empty without one."""
    return parse_docstring(function.__doc__).snippet


def get_tool_guidelines(function: Callable[..., Any]) -> tuple[str, ...]:
    """The entries of the Guidelines section of a function that is not decorated yet."""
    return parse_docstring(function.__doc__).guidelines


def render_tool_guidance(
    tools: Iterable[AgentTool], *, snippets: bool = True, guidelines: bool = True, returns: bool = False
) -> str:
    """What a system prompt says about ``tools``: one block of snippets, one of guidelines, both in the given order."""
    tools = list(tools)
    uses = [lines for tool in tools for lines in _guidance_snippet(tool, snippets, returns)]
    rules = [
        "\n".join([f"## {tool.name}", *_bullets(tool.guidelines)]) for tool in tools if guidelines and tool.guidelines
    ]
    blocks = []
    if uses:
        blocks.append("\n".join(["# Tool snippets", *uses]))
    if rules:
        blocks.append("# Tool guidelines\n" + "\n\n".join(rules))
    return "\n\n".join(blocks)


def _guidance_snippet(tool: AgentTool, snippets: bool, returns: bool) -> list[str]:
    lines = tool.snippet.splitlines() if snippets else []
    described = [f"  returns {_compact(tool.return_schema)}"] if returns and tool.return_schema is not None else []
    if len(lines) == 1:
        return [f"- {tool.name}: {lines[0]}", *described]
    if lines or described:
        return [f"- {tool.name}:", *(f"  {line}" for line in lines), *described]
    return []


def render_tool_description(
    tool: AgentTool, *, snippet: bool = True, guidelines: bool = True, returns: bool = False, base: str | None = None
) -> str:
    """A description with snippet, guidelines and return schema in it, for models that get no guidance otherwise."""
    uses = _bullets(tool.snippet.splitlines()) if snippet else []
    if returns and tool.return_schema is not None:
        uses.append(f"- returns {_compact(tool.return_schema)}")
    rules = _bullets(tool.guidelines) if guidelines else []
    blocks = [tool.description if base is None else base]
    blocks += ["\n".join([title, *lines]) for title, lines in (("Snippet:", uses), ("Guidelines:", rules)) if lines]
    return "\n\n".join(blocks)


def render_tool_search_text(tool: AgentTool) -> str:
    """The text in which a search for tools looks: name, descriptions, snippet and guidelines."""
    properties = tool.parameters.get("properties", {}).values()
    described = [schema["description"] for schema in properties if "description" in schema]
    parts = [tool.name.replace("_", " "), tool.description, *described, tool.snippet, *tool.guidelines]
    return "\n".join(part for part in parts if part)


def _bullets(lines: Iterable[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
