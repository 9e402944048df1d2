"""``@tool``: a tool made of a function, from its signature and its docstring."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic_core import ValidationError

from zett_agent._checks import boolean
from zett_agent._failures import failure_text
from zett_agent.exceptions import ToolArgumentsError
from zett_agent.tools.agent_tool import AgentTool, Prepared, ToolExecutionMode
from zett_agent.tools.arguments import arguments_error, repair_arguments
from zett_agent.tools.current_call import CURRENT_CALL
from zett_agent.tools.docstrings import ToolDocstring, parse_docstring
from zett_agent.tools.schema import FunctionSchema, function_schema
from zett_agent.tools.threads import NEVER_BEGAN, shared_pool

P = ParamSpec("P")
R = TypeVar("R")


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
        given = arguments if type(arguments) is dict else dict(arguments)
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
    return ToolArgumentsError(f"The arguments cannot be checked: {failure_text(error)}")


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
    repeatable: bool = False,
    max_result_chars: int | None = None,
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
    repeatable: bool = False,
    max_result_chars: int | None = None,
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
    repeatable: bool = False,
    max_result_chars: int | None = None,
    strict: bool = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function, as ``@tool`` or ``@tool(...)``.

    The docstring gives the description (required), ``Args``, ``Snippet`` and ``Guidelines``; the annotations give the
    schema. A plain function runs in a thread. ``timeout`` is in seconds; ``strict`` turns coercion ("3" to 3) off.
    Raises ValueError for a function that cannot be a tool, naming what is wrong with it.
    """

    boolean("strict", strict)

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        doc = parse_docstring(function.__doc__)
        called = name or str(getattr(function, "__name__", type(function).__name__))
        schema = _schema(called, function, doc, strict=strict)
        return FunctionTool(
            name=called,
            description=doc.description,
            parameters=schema.parameters,
            handler=FunctionHandler(_caller(function, schema), schema),
            guidelines=doc.guidelines if guidelines is None else guidelines,
            snippet=doc.snippet if snippet is None else snippet,
            return_schema=schema.return_schema,
            execution_mode=execution_mode,
            deferred=deferred,
            local_tool_search=local_tool_search,
            timeout=timeout,
            idempotent=idempotent,
            repeatable=repeatable,
            max_result_chars=max_result_chars,
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
        raise ValueError(f"tool {name}: an annotation cannot be used: {failure_text(error)}") from error


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


def never_began(tool: AgentTool, stopped: BaseException) -> bool:
    """Whether this cancel reached the plain function of ``tool`` while that still waited for its thread."""
    if NEVER_BEGAN not in getattr(stopped, "__notes__", ()):
        return False
    # The note may come from a plain function that an async one called, which has begun.
    if not isinstance(tool, FunctionTool) or not isinstance(tool.handler, FunctionHandler):
        return False
    return not inspect.iscoroutinefunction(tool.function)
