"""What people hand to @tool that is no proper function, and checks that raise what they may not."""

from __future__ import annotations

import json
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from zett_agent import create_agent
from zett_agent.exceptions import ToolArgumentsError
from zett_agent.messages import ToolMessage
from zett_agent.testing import ScriptedModel, call, raw_call, text
from zett_agent.tools.base import tool
from zett_agent.tools.function_tool import FunctionTool


def plain(x: int) -> int:
    """Say x."""
    return x


def yields(x: int) -> Iterator[int]:
    """Count."""
    yield x


async def yields_later(x: int) -> AsyncIterator[int]:
    """Count."""
    yield x


class Counter:
    """A thing."""

    def __call__(self, x: int) -> int:
        return x


class Broken:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise RuntimeError("no schema today")


def taking(annotation: Any, *defaults: Any) -> Callable[..., Any]:
    def rough(x: Any) -> str:
        """Take x."""
        return str(x)

    rough.__annotations__ = {"x": annotation}
    rough.__defaults__ = defaults
    return rough


@pytest.mark.parametrize("thing", [partial(plain, 1), Counter(), Counter, tool(plain), 5, yields, yields_later])
def test_what_is_no_function_with_a_result_is_refused_in_words(thing: Any) -> None:
    with pytest.raises(ValueError, match=r"made of a function|yields"):
        tool(thing)


@pytest.mark.parametrize(
    "annotation",
    ["Nowhere", "list[Nowhere]", "int |", "", 5, Broken, ClassVar[int], Annotated[str, Field(pattern="(")]],
)
def test_an_annotation_that_cannot_be_used_names_the_tool(annotation: Any) -> None:
    with pytest.raises(ValueError, match="tool rough: "):
        tool(taking(annotation))


def test_a_parameter_that_pydantic_takes_for_a_constant_is_not_lost_in_silence() -> None:
    with pytest.raises(ValueError, match="parameter x has an annotation that makes it a constant"):
        tool(taking(ClassVar[int], 3))


def test_two_parameters_with_one_name_for_the_model_are_refused() -> None:
    def rough(x: int, y: Annotated[int, Field(alias="x")]) -> int:
        """Take both."""
        return x + y

    with pytest.raises(ValueError, match="two parameters are called x"):
        tool(rough)


@pytest.mark.parametrize("function", [lru_cache(plain), staticmethod(plain)])
async def test_a_wrapped_function_is_a_tool(function: Any) -> None:
    made: FunctionTool[..., int] = tool(function)
    assert await made.invoke({"x": 3}) == 3


@tool
def selfish(self: int) -> int:
    """Take a parameter with an unlucky name."""
    return self


async def test_a_parameter_may_be_called_self() -> None:
    assert selfish(self=1) == 1
    assert await selfish.handler(self=2) == 2
    assert await selfish.invoke({"self": 3}) == 3


@pytest.mark.parametrize(
    "error", [KeyError("k"), TypeError("t"), RecursionError("r"), SystemExit(3), CancelledError(), StopIteration()]
)
async def test_a_validator_that_raises_anything_fails_its_call_and_not_the_request(error: BaseException) -> None:
    def refuse(value: int) -> int:
        raise error

    rough = tool(taking(Annotated[int, AfterValidator(refuse)]))
    model = ScriptedModel([call("rough", x=1), raw_call("rough", '{"x": "[1]"}')], [text("So be it.")])
    agent = await create_agent(model, tools=[rough])
    assert (await agent.run("Go")).content == "So be it."
    result = model.requests[1].messages[-2]
    assert isinstance(result, ToolMessage)
    assert result.text.startswith(f"The arguments cannot be checked: {type(error).__name__}")


async def test_a_validator_that_raises_only_for_repaired_arguments_fails_its_call() -> None:
    def refuse(value: list[int]) -> list[int]:
        raise KeyError(value[0])

    rough = tool(taking(Annotated[list[int], AfterValidator(refuse)]))
    with pytest.raises(ToolArgumentsError, match="cannot be checked: KeyError"):
        rough.prepare({"x": "[1]"})


@pytest.mark.parametrize("depth", [101, 300, 700, 5000, 100_000])
async def test_args_03_arguments_nested_too_deeply_are_an_answer_to_the_model(depth: int) -> None:
    @tool
    def keep(x: Any) -> str:
        """Keep anything."""
        return "kept"

    model = ScriptedModel(
        [raw_call("keep", '{"x":' + "[" * depth + "]" * depth + "}"), call("keep", x=[[1]])], [text("Done.")]
    )
    agent = await create_agent(model, tools=[keep])
    await agent.run("Go")
    refused, kept = model.requests[1].messages[-2:]
    assert "nested too deeply" in refused.content and kept.content == "kept"


class Inner(BaseModel):
    name: str
    tags: list[str] = []
    next: dict[str, float] | None = None


@tool
def rich(place: Inner, count: int = 1, names: list[str] | None = None, mixed: tuple[int, str] = (1, "a")) -> str:
    """Take many shapes."""
    return "fine"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "place": st.fixed_dictionaries({"name": st.text(max_size=3) | JSON}, optional={"tags": JSON, "next": JSON})
        | JSON
        | JSON.map(json.dumps),
        "count": JSON,
        "names": JSON | JSON.map(json.dumps),
        "mixed": JSON,
        "extra": JSON,
    },
)


@given(arguments=NEARLY)
def test_args_02_almost_right_arguments_are_taken_or_refused_and_never_changed(arguments: dict[str, Any]) -> None:
    before = json.dumps(arguments)
    subject: FunctionTool[..., str] = rich
    try:
        prepared = subject.prepare(arguments)
    except ToolArgumentsError as error:
        assert str(error)
    else:
        assert isinstance(prepared.values["place"], Inner)
        assert subject.prepare(prepared.arguments).arguments == prepared.arguments
    assert json.dumps(arguments) == before
