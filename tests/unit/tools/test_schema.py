"""From a signature to a schema and a validator."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from zett_agent.tools.schema import FunctionSchema, Injected, function_schema, injected_type, inline_schema

T = TypeVar("T")


def schema_of(function: Callable[..., Any], *, strict: bool = False, **descriptions: str) -> FunctionSchema:
    return function_schema(function, descriptions, strict=strict)


class Scope(Injected):
    pass


class Box(Injected, Generic[T]):
    pass


class Tone(StrEnum):
    WARM = "warm"


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    zip_code: str = Field(default="0", alias="zip")


class Cat(BaseModel):
    kind: Literal["cat"]
    discriminator: int = 1


class Dog(BaseModel):
    kind: Literal["dog"]
    title: str = "Dr."


class Node(BaseModel):
    children: list[Node] = []


class Stranger:
    pass


def test_a_signature_becomes_a_closed_object_schema() -> None:
    def book(city: str, nights: Annotated[int, Field(ge=1)] = 2, *, note: str | None = None) -> None: ...

    assert schema_of(book, city="Where to.").parameters == {
        "additionalProperties": False,
        "properties": {
            "city": {"description": "Where to.", "title": "City", "type": "string"},
            "nights": {"default": 2, "minimum": 1, "title": "Nights", "type": "integer"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Note"},
        },
        "required": ["city"],
        "title": "ToolInput",
        "type": "object",
    }


def test_a_function_without_parameters_has_no_required_list() -> None:
    def now() -> None: ...

    schema = schema_of(now)
    assert schema.parameters == {
        "additionalProperties": False,
        "properties": {},
        "title": "ToolInput",
        "type": "object",
    }
    assert schema.validate({}) == {}


def test_the_docstring_overrides_the_description_of_the_annotation() -> None:
    def pick(a: Annotated[int, Field(description="old")], b: int = Field(default=3, description="kept")) -> None: ...

    schema = schema_of(pick, a="new")
    assert schema.parameters["properties"]["a"]["description"] == "new"
    assert schema.parameters["properties"]["b"] == {
        "default": 3,
        "description": "kept",
        "title": "B",
        "type": "integer",
    }
    assert schema.validate({"a": 1}) == {"a": 1, "b": 3}


def test_a_description_of_a_model_parameter_replaces_that_of_the_model() -> None:
    def send(to: Address) -> None: ...

    assert schema_of(send).parameters["properties"]["to"]["description"] == "Where somebody lives."
    assert schema_of(send, to="The receiver.").parameters["properties"]["to"]["description"] == "The receiver."


def test_the_key_order_is_the_same_every_time() -> None:
    def send(b: Address, a: Cat | Dog) -> list[Address]:
        return [b]

    texts = {json.dumps([schema_of(send).parameters, schema_of(send).return_schema]) for _ in range(5)}
    assert len(texts) == 1
    assert list(schema_of(send).parameters["properties"]) == ["b", "a"]


def test_references_are_inlined_and_discriminators_dropped() -> None:
    Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

    def adopt(pet, second=None) -> None: ...  # type: ignore[no-untyped-def]

    adopt.__annotations__ = {"pet": Pet, "second": Pet}
    schema = schema_of(adopt)
    text = json.dumps(schema.parameters)
    assert "$ref" not in text
    assert "$defs" not in text
    pet = schema.parameters["properties"]["pet"]
    assert set(pet) == {"oneOf", "title"}
    assert list(pet["oneOf"][0]["properties"]) == ["kind", "discriminator"]
    assert isinstance(schema.validate({"pet": {"kind": "dog"}})["pet"], Dog)


def test_words_of_json_schema_may_be_names_and_values() -> None:
    class Odd(BaseModel):
        properties: dict[str, Any] = {"title": "kept", "discriminator": 1}
        title: Literal["title"] = "title"

    schema = inline_schema(Odd.model_json_schema(), titles=False)
    assert schema == {
        "type": "object",
        "properties": {
            "properties": {
                "type": "object",
                "additionalProperties": True,
                "default": {"title": "kept", "discriminator": 1},
            },
            "title": {"type": "string", "const": "title", "default": "title"},
        },
    }


def test_a_recursive_model_is_refused_by_name() -> None:
    def grow(tree: Node) -> None: ...

    with pytest.raises(ValueError, match="Node contains itself"):
        schema_of(grow)


def test_a_reference_that_leads_elsewhere_is_refused() -> None:
    def fetch(a: Annotated[int, WithJsonSchema({"$ref": "https://example.org/s"})]) -> None: ...

    def read(a: Annotated[int, WithJsonSchema({"$ref": "other.json"})]) -> None: ...

    for function in (fetch, read):
        with pytest.raises(ValueError, match=r"refers to .+, which it does not contain"):
            schema_of(function)


def positional(a: int, /) -> None: ...


def variadic(*rest: int) -> None: ...


def keywords(**options: int) -> None: ...


def bare(a, b: int) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "name"), [(positional, "a"), (variadic, "rest"), (keywords, "options"), (bare, "a needs")]
)
def test_a_parameter_that_json_cannot_fill_is_refused_by_name(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"parameter .*{name}"):
        schema_of(function)


def test_an_annotation_that_cannot_be_checked_or_described_is_refused() -> None:
    def odd(a: Stranger) -> None: ...

    def callback(a: Callable[[], None]) -> None: ...

    with pytest.raises(ValueError, match=r"cannot be checked: .*Stranger.*[^\n]$"):
        schema_of(odd)
    with pytest.raises(ValueError, match="cannot be described"):
        schema_of(callback)


def test_a_hint_that_does_not_resolve_raises() -> None:
    def odd(a: int) -> None: ...

    odd.__annotations__["a"] = "Missing"
    with pytest.raises(NameError, match="Missing"):
        schema_of(odd)


def test_a_description_of_a_parameter_that_does_not_exist_is_refused() -> None:
    def pick(a: int) -> None: ...

    with pytest.raises(ValueError, match=r"do not exist: b, c$"):
        schema_of(pick, a="is", c="not", b="not")


def test_core_36_core_37_parameters_may_have_the_names_of_model_attributes() -> None:
    def odd(
        _a: int,
        model_config: int = 1,
        schema: str = "s",
        json: bool = True,
        copy: int = 2,
        model_dump: int = 3,
        field_a: int = 4,
        field_copy: int = 5,
        _b_: int = 6,
    ) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema = schema_of(odd, _a="first")
    names = ["_a", "model_config", "schema", "json", "copy", "model_dump", "field_a", "field_copy", "_b_"]
    assert list(schema.parameters["properties"]) == names
    assert schema.parameters["required"] == ["_a"]
    assert schema.parameters["properties"]["model_config"]["title"] == "Model Config"
    assert schema.validate({"_a": 0, "copy": "7"}) == {
        **dict(zip(names, [0, 1, "s", True, 7, 3, 4, 5, 6], strict=True)),
    }
    with pytest.raises(ValidationError) as caught:
        schema.validate({})
    assert caught.value.errors()[0]["loc"] == ("_a",)


def test_an_alias_is_what_the_model_sees() -> None:
    def travel(from_: Annotated[str, Field(alias="from")], to: str = "home") -> None: ...

    schema = schema_of(travel, from_="Where it begins.")
    assert list(schema.parameters["properties"]) == ["from", "to"]
    assert schema.parameters["properties"]["from"]["description"] == "Where it begins."
    assert schema.validate({"from": "here"}) == {"from_": "here", "to": "home"}


def test_a_default_that_is_not_json_stays_the_functions_own() -> None:
    nothing = object()

    def pick(a: Any = nothing) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema = schema_of(pick)
    assert schema.parameters["properties"]["a"] == {"title": "A"}
    assert schema.validate({}) == {"a": nothing}


def test_a_mutable_default_is_fresh_for_each_call() -> None:
    def collect(items: list[int] = []) -> None: ...  # noqa: B006

    schema = schema_of(collect)
    schema.validate({})["items"].append(1)
    assert schema.validate({}) == {"items": []}


def test_values_have_the_annotated_types() -> None:
    def book(day: date, to: Address, tone: Tone, pair: tuple[int, str]) -> None: ...

    arguments = {"day": "2026-01-02", "to": {"street": "s", "zip": "9"}, "tone": "warm", "pair": ["3", "x"]}
    values = schema_of(book).validate(arguments)
    assert values == {
        "day": date(2026, 1, 2),
        "to": Address(street="s", zip="9"),
        "tone": Tone.WARM,
        "pair": (3, "x"),
    }


def test_core_38_strict_takes_json_as_it_is_and_coerces_nothing() -> None:
    def book(day: date, tone: Tone, nights: int, copy: tuple[int, ...] = ()) -> None: ...

    schema = schema_of(book, strict=True)
    arguments = {"day": "2026-01-02", "tone": "warm", "nights": 3, "copy": [1]}
    assert schema.validate(arguments) == {"day": date(2026, 1, 2), "tone": Tone.WARM, "nights": 3, "copy": (1,)}
    with pytest.raises(ValidationError):
        schema.validate({**arguments, "nights": "3"})


def test_a_wrapped_function_keeps_its_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def pick(a: int) -> str: ...  # type: ignore[empty-body]

    assert list(schema_of(pick).parameters["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        (Scope, Scope),
        (Scope | None, Scope),
        (Annotated[Scope, "doc"], Scope),
        (Annotated[Scope | None, "doc"], Scope),
        (Box[int], Box),
        (Scope | int, None),
        (int, None),
        (list[int], None),
        (Any, None),
    ],
)
def test_an_injected_parameter_is_known_by_its_annotation(hint: Any, wanted: type | None) -> None:
    assert injected_type(hint) is wanted


def test_injected_parameters_are_hidden_from_the_model() -> None:
    def act(scope: Scope, a: int, box: Box[int] | None = None) -> None: ...

    schema = schema_of(act, scope="not shown")
    assert list(schema.parameters["properties"]) == ["a"]
    assert schema.injected == {"scope": Scope, "box": Box}
    assert schema.defaulted == {"box"}
    assert schema.validate({"a": 1}) == {"a": 1}
    with pytest.raises(ValidationError):
        schema.validate({"a": 1, "scope": None})


@dataclass
class Row:
    title: str
    n: int = 0


@pytest.mark.parametrize(
    ("hint", "described"),
    [
        (str, {"type": "string"}),
        (
            list[Row],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}, "n": {"type": "integer", "default": 0}},
                    "required": ["title"],
                },
            },
        ),
        (None, None),
        (Any, None),
        (object, None),
        (Node, None),
        (Stranger, None),
        (Iterator[Stranger], None),
        (Annotated[int, WithJsonSchema({"$ref": "https://example.org"})], None),
    ],
)
def test_the_return_value_is_described_where_there_is_something_to_say(hint: Any, described: object) -> None:
    def act(): ...  # type: ignore[no-untyped-def]

    assert schema_of(act).return_schema is None
    act.__annotations__["return"] = hint
    assert schema_of(act).return_schema == described


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid")
    flag: bool
    number: int
    text: str = "t"
    numbers: list[int] = []


@given(st.fixed_dictionaries({"flag": st.booleans(), "number": st.integers()}, optional={"text": st.text()}))
def test_what_the_schema_allows_is_what_validation_takes(arguments: dict[str, Any]) -> None:
    def act(flag: bool, number: int, text: str = "t", numbers: list[int] = []) -> None: ...  # noqa: B006

    expected = Everything.model_validate(arguments).model_dump()
    assert schema_of(act).validate(arguments) == expected
    with pytest.raises(ValidationError):
        schema_of(act).validate({**arguments, "more": 1})
