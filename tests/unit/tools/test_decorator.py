"""The @tool decorator."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from functools import wraps
from typing import Any, assert_type

import pytest
from pydantic import BaseModel, ValidationError

from zett_agent.exceptions import ToolArgumentsError
from zett_agent.tools.base import (
    AgentTool,
    ToolExecutionMode,
    current_tool_call_id,
    get_tool_guidelines,
    get_tool_snippet,
    tool,
)
from zett_agent.tools.current_call import CURRENT_CALL
from zett_agent.tools.function_tool import FunctionTool
from zett_agent.tools.schema import Injected

WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Item(BaseModel):
    name: str
    price: float = 0


class Session(Injected):
    def __init__(self, name: str) -> None:
        self.name = name


@dataclass
class Scope:
    call_id: str
    session: Session

    def inject(self, wanted: type) -> object:
        assert wanted is Session
        return self.session


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.

    Snippet:
        add(a=1, b=2)

    Guidelines:
        - Use it for sums,
          not for products.
    """
    return a + b


@tool(name="total", execution_mode=ToolExecutionMode.SERIAL, timeout=2.5, idempotent=True, guidelines="One rule.")
async def total_price(items: list[Item], day: date, *, discount: float = 0) -> str:
    """Sum the prices."""
    assert all(isinstance(item, Item) for item in items)
    return f"{day:%d.%m.}: {sum(item.price for item in items) - discount}"


def test_a_function_becomes_a_tool_with_what_its_docstring_says() -> None:
    assert isinstance(add, AgentTool)
    assert (add.name, add.description, add.snippet) == ("add", "Add two numbers.", "add(a=1, b=2)")
    assert add.guidelines == ("Use it for sums, not for products.",)
    assert add.parameters["properties"]["a"] == {"description": "The first.", "title": "A", "type": "integer"}
    assert add.return_schema == {"type": "integer"}
    assert add.execution_mode is ToolExecutionMode.PARALLEL


def test_options_of_the_decorator_win_over_the_docstring() -> None:
    assert (total_price.name, total_price.guidelines) == ("total", ("One rule.",))
    assert (total_price.timeout, total_price.idempotent) == (2.5, True)
    assert total_price.execution_mode is ToolExecutionMode.SERIAL
    renamed = tool(add.function, name="plus", snippet="", guidelines=["a", "b"], deferred=True)
    assert (renamed.name, renamed.snippet, renamed.guidelines) == ("plus", "", ("a", "b"))
    assert renamed.definition.deferred
    assert tool(add.function, local_tool_search=True).definition.local_tool_search


def test_dx_01_calling_a_tool_calls_the_function_with_its_own_signature() -> None:
    assert assert_type(add(1, b=2), int) == 3
    total = total_price([Item(name="a", price=2)], date(2026, 1, 2), discount=0.5)
    assert assert_type(asyncio.run(total), str) == "02.01.: 1.5"
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_dx_01_the_configured_decorator_keeps_the_signature_too() -> None:
    @tool()
    def half(n: int) -> float:
        """Halve."""
        return n / 2

    assert isinstance(half, FunctionTool)
    assert assert_type(half(n=3), float) == 1.5


async def test_values_reach_the_function_as_the_annotated_types() -> None:
    arguments = {"items": [{"name": "a", "price": "2"}], "day": "2026-01-02"}
    assert await total_price.invoke(arguments) == "02.01.: 2.0"
    assert total_price.check(arguments) == arguments


async def test_args_02_hooks_and_function_see_the_same_repaired_arguments() -> None:
    prepared = total_price.prepare({"items": '[{"name": "a"}]', "day": "2026-01-02", "discount": None})
    assert prepared.arguments == {"items": [{"name": "a"}], "day": "2026-01-02"}
    assert prepared.values == {"items": [Item(name="a")], "day": date(2026, 1, 2), "discount": 0}
    assert await total_price.run(prepared) == "02.01.: 0"


async def test_wrong_arguments_are_refused_before_the_function_runs() -> None:
    with pytest.raises(ToolArgumentsError, match="- a: Input should be a valid integer"):
        await add.invoke({"a": "x"})


async def test_the_handler_alone_checks_too() -> None:
    assert await add.handler(a="1") == 2
    with pytest.raises(ValidationError):
        await add.handler(a="x")


async def test_a_handler_put_in_place_of_the_function_gets_the_arguments() -> None:
    async def loud(**arguments: Any) -> str:
        return f"{arguments} -> {await add.handler(**arguments)}"

    wrapped = dataclasses.replace(add, name="loud", handler=loud)
    assert await wrapped.invoke({"a": "1", "b": None}) == "{'a': '1'} -> 2"


async def test_core_38_a_strict_tool_coerces_nothing() -> None:
    strict = tool(add.function, strict=True)
    assert await strict.invoke({"a": 1, "b": None}) == 2
    with pytest.raises(ToolArgumentsError, match="- a: Input should be a valid integer"):
        await strict.invoke({"a": "1"})


async def test_core_36_any_parameter_name_works() -> None:
    @tool
    def odd(_a: int, model_config: int = 1, schema: int = 2, json: int = 3, copy: int = 4) -> list[int]:
        """Count."""
        return [_a, model_config, schema, json, copy]

    assert await odd.invoke({"_a": 9, "json": "8"}) == [9, 1, 2, 8, 4]


async def test_loop_03_a_plain_function_runs_in_a_thread_of_its_own_pool() -> None:
    @tool
    def where() -> str:
        """Name the thread."""
        return threading.current_thread().name

    assert await where.invoke({}) == "zett-agent-tool"
    assert where() == threading.current_thread().name


async def test_loop_02_tools_see_the_callers_context_and_leak_nothing() -> None:
    @tool
    def rename() -> str:
        """Rename."""
        before = WHO.get()
        WHO.set("the tool")
        return before

    WHO.set("the caller")
    assert await rename.invoke({}) == "the caller"
    assert WHO.get() == "the caller"


async def test_a_plain_wrapper_around_a_coroutine_function_is_awaited() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def late(n: int) -> int:
        """Wait."""
        await asyncio.sleep(0)
        return n

    assert await late.invoke({"n": "3"}) == 3


async def test_a_bound_method_can_be_a_tool() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def increase(self, by: int) -> int:
            """Count on."""
            self.count += by
            return self.count

    assert await tool(Counter().increase).invoke({"by": 2}) == 2


async def test_an_exception_of_the_function_propagates_as_it_is() -> None:
    @tool
    def fail(n: int) -> int:
        """Fail."""
        return Item.model_validate({"n": n}).price  # type: ignore[return-value]

    with pytest.raises(ValidationError):
        await fail.invoke({"n": 1})


@tool
async def whose(session: Session, greeting: str = "hi") -> str:
    """Say whose session it is."""
    return f"{greeting} {session.name}"


@tool
def perhaps(session: Session | None = None) -> str:
    """Say whether there is a session."""
    return session.name if session else "none"


async def test_injected_parameters_are_filled_from_the_current_call() -> None:
    assert list(whose.parameters["properties"]) == ["greeting"]
    token = CURRENT_CALL.set(Scope("call-1", Session("anna")))
    try:
        assert await whose.invoke({}) == "hi anna"
        assert await perhaps.invoke({}) == "anna"
    finally:
        CURRENT_CALL.reset(token)
    assert await whose(Session("me")) == "hi me"


async def test_without_a_current_call_only_a_default_can_stand_in() -> None:
    with pytest.raises(RuntimeError, match="session can only be filled in while an agent runs the call"):
        await whose.invoke({})
    assert await perhaps.invoke({}) == "none"


async def test_the_id_of_the_current_call_is_seen_in_threads_too() -> None:
    @tool
    def which() -> str | None:
        """Name the call."""
        return current_tool_call_id()

    assert current_tool_call_id() is None
    token = CURRENT_CALL.set(Scope("call-1", Session("anna")))
    try:
        assert await which.invoke({}) == "call-1"
    finally:
        CURRENT_CALL.reset(token)


def undescribed(a: int) -> int:
    return a


def misdescribed(a: int) -> int:
    """Do it.

    Args:
        b: Not there.
    """
    return a


def unannotated(a, b: int) -> int:  # type: ignore[no-untyped-def]
    """Do it."""
    return b


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (undescribed, "tool undescribed: the docstring must begin with a description"),
        (misdescribed, "tool misdescribed: the docstring describes parameters that do not exist: b"),
        (unannotated, "tool unannotated: parameter a needs a type annotation"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_by_name(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tool(function)


def test_core_35_guidelines_are_optional() -> None:
    assert perhaps.guidelines == ()


def test_snippet_and_guidelines_can_be_read_before_decoration() -> None:
    assert get_tool_snippet(add.function) == "add(a=1, b=2)"
    assert get_tool_guidelines(add.function) == ("Use it for sums, not for products.",)
    assert get_tool_snippet(undescribed) == ""
    assert get_tool_guidelines(undescribed) == ()


def test_a_tool_and_its_copy_share_one_schema_and_validator() -> None:
    copy = dataclasses.replace(add, name="plus")
    assert copy.parameters is add.parameters
    assert copy.definition.name == "plus"
    assert copy(1, 1) == 2
    assert inspect.iscoroutinefunction(copy.invoke)
    assert "validate" not in repr(copy)
