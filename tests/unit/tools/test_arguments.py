"""What a model sends as arguments (ARGS-01, ARGS-02, ARGS-03, ARGS-06)."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, WithJsonSchema

from zett_agent.exceptions import ToolArgumentsError
from zett_agent.json_types import utf8_text
from zett_agent.messages import ToolCall
from zett_agent.tools.arguments import decode_tool_arguments, tool_call_from_arguments
from zett_agent.tools.base import tool


@pytest.mark.parametrize("payload", [None, "", "  \n", "null", " null ", '""', '"{}"', "{}"])
def test_args_01_nothing_at_all_is_no_arguments(payload: str | None) -> None:
    assert decode_tool_arguments(payload) == {}


def test_an_object_is_decoded_with_raw_control_characters() -> None:
    assert decode_tool_arguments('{"text": "a\n\tb"}') == {"text": "a\n\tb"}


def test_an_object_that_was_encoded_twice_is_decoded_twice() -> None:
    assert decode_tool_arguments(json.dumps(json.dumps({"q": "x"}))) == {"q": "x"}


@pytest.mark.parametrize(
    "payload",
    [
        '{"q":"x"}}',
        '{"q":1}{"q":2}',
        '```json\n{"q":1}\n```',
        "{'q': 1}",
        '{"q":1,}',
        '{"q": NaN}',
        '{"q": -Infinity}',
        '{"q": 1e999}',
        '{"q": ',
        "[" * 100_000,
        '{"n": ' + "9" * 5000 + "}",
    ],
)
def test_args_03_broken_json_is_an_error_and_never_mended(payload: str) -> None:
    with pytest.raises(ToolArgumentsError, match=r"not valid JSON \(.+\); send one JSON object"):
        decode_tool_arguments(payload)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ("[1]", "a list"),
        ("1", "a number"),
        ("2.5", "a number"),
        ("true", "a boolean"),
        ('"\\"x\\""', "a string"),
        ('"x"', "a string"),
    ],
)
def test_args_03_what_is_no_object_is_an_error(payload: str, kind: str) -> None:
    with pytest.raises(ToolArgumentsError, match=f"one JSON object, not {kind}"):
        decode_tool_arguments(payload)


def test_args_03_half_a_character_never_reaches_the_history() -> None:
    decoded = decode_tool_arguments('{"a\\ud800": ["\\uDFFF", "\\ud83d\\ude00", "\\\\ud800"], "raw": "\ud800"}')
    assert decoded == {"a\ufffd": ["\ufffd", "😀", "\\ud800"], "raw": "\ufffd"}


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_what_json_can_say_comes_back_as_it_was_and_encodes(value: dict[str, Any]) -> None:
    decoded = decode_tool_arguments(json.dumps(value))
    assert decoded == value
    json.dumps(decoded, ensure_ascii=False).encode()


def test_a_call_with_good_arguments_has_no_error() -> None:
    assert tool_call_from_arguments("c1", "search", '{"q": 1}') == ToolCall("c1", "search", {"q": 1})


def test_args_03_a_call_with_broken_arguments_carries_the_error_and_nothing_invented() -> None:
    call = tool_call_from_arguments("c1", "search", '{"q": ')
    assert (call.id, call.name, call.arguments) == ("c1", "search", {})
    assert call.error is not None
    assert "not valid JSON" in call.error


@pytest.mark.parametrize(
    ("text", "clean"), [("plain", "plain"), ("grün", "grün"), ("\ud83d\ude00", "😀"), ("é\udc00", "é\ufffd")]
)
def test_text_is_made_encodable(text: str, clean: str) -> None:
    assert utf8_text(text) == clean


class Tone(StrEnum):
    WARM = "warm"
    COLD = "cold"


class Filter(BaseModel):
    field: str
    limit: int = 5
    tags: list[str] = []


class ByName(BaseModel):
    kind: Literal["name"]
    name: str = "anybody"


class ById(BaseModel):
    kind: Literal["id"]
    ids: list[int] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    right: Annotated[int, Field(ge=0)] = 1


@tool
def search(
    query: str,
    limit: int = 10,
    filters: list[Filter] = [],  # noqa: B006 - the tool never changes it
    target: Annotated[ByName | ById, Field(discriminator="kind")] | None = None,
    weights: dict[str, int] = {},  # noqa: B006
    tone: Tone = Tone.WARM,
    point: Point | None = None,
    pairs: tuple[Pair, ...] = (),
    numbers: int | list[int] = 0,
    unique: frozenset[int] = frozenset(),
) -> str:
    """Search."""
    return query


def checked(**arguments: Any) -> dict[str, Any]:
    return search.check({"query": "q", **arguments})


def test_args_02_a_string_with_a_list_becomes_the_list_that_the_schema_wants() -> None:
    assert checked(filters='[{"field": "a"}]') == {"query": "q", "filters": [{"field": "a"}]}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("weights", '{"a": 1}', {"a": 1}),
        ("target", '{"kind": "id"}', {"kind": "id"}),
        ("point", '{"x": 1}', {"x": 1}),
        ("pairs", "[[1, 2]]", [[1, 2]]),
        ("numbers", "[1]", [1]),
        ("unique", "[1]", [1]),
    ],
)
def test_args_02_each_kind_of_container_is_decoded(name: str, text: str, value: object) -> None:
    assert checked(**{name: text})[name] == value


def test_args_02_strings_deep_inside_are_decoded_too() -> None:
    assert checked(filters=[{"field": "a"}, '{"field": "b"}'])["filters"] == [{"field": "a"}, {"field": "b"}]
    assert checked(filters=[{"field": "a", "tags": '["x"]'}])["filters"] == [{"field": "a", "tags": ["x"]}]
    assert checked(target={"kind": "id", "ids": "[1]"})["target"] == {"kind": "id", "ids": [1]}
    assert checked(pairs=["[1, 2]"])["pairs"] == [[1, 2]]


@pytest.mark.parametrize("text", ['["a"]', '{"a": 1}', "null", "7"])
def test_args_02_a_string_field_stays_the_string_it_is(text: str) -> None:
    assert search.check({"query": text}) == {"query": text}


@pytest.mark.parametrize("text", ["a, b", "7", '{"field": "a"}', "[NaN]", "[" * 100_000, '["a"'])
def test_args_02_a_string_that_holds_no_fitting_container_is_an_error(text: str) -> None:
    with pytest.raises(ToolArgumentsError, match=r"- filters: Input should be a valid list$"):
        checked(filters=text)


def test_args_02_a_string_is_decoded_once_only() -> None:
    with pytest.raises(ToolArgumentsError, match="valid list"):
        checked(filters=json.dumps(json.dumps([])))


def test_args_06_null_for_a_defaulted_field_is_not_given() -> None:
    assert checked(limit=None, filters=None, tone=None) == {"query": "q"}


def test_args_06_null_for_a_defaulted_field_deep_inside_is_not_given() -> None:
    assert checked(filters=[{"field": "a", "limit": None}])["filters"] == [{"field": "a"}]
    assert checked(target={"kind": "name", "name": None})["target"] == {"kind": "name"}
    assert checked(point={"x": 1, "y": None})["point"] == {"x": 1}


def test_args_06_a_nullable_field_keeps_null() -> None:
    assert checked(target=None, point=None) == {"query": "q", "target": None, "point": None}


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": None},
        {"filters": [{"field": None}]},
        {"filters": [None]},
        {"weights": {"a": None}},
        {"unknown": None},
        {"pairs": [[1, None]]},
        {"pairs": [[None]]},
        {"numbers": [None]},
    ],
)
def test_args_06_null_for_what_is_required_or_no_field_at_all_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolArgumentsError):
        checked(**arguments)


def test_args_06_an_unmendable_call_is_answered_with_what_was_wrong_at_first() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        checked(query=None, limit=None, filters="[1]")
    assert str(caught.value).splitlines() == [
        "The arguments do not fit the tool:",
        "- query: Input should be a valid string",
        "- limit: Input should be a valid integer",
        "- filters: Input should be a valid list",
    ]


def test_args_02_the_input_is_never_changed() -> None:
    given_arguments = {"query": "q", "limit": None, "filters": [{"field": "a", "tags": '["x"]'}, {"field": "b"}]}
    before = copy.deepcopy(given_arguments)
    result = search.check(given_arguments)
    assert given_arguments == before
    assert result["filters"] == [{"field": "a", "tags": ["x"]}, {"field": "b"}]


def test_args_02_a_whole_list_of_repairs_is_made_at_once() -> None:
    result = checked(weights='{"a": 1}', limit=None, filters='[{"field": "a"}]')
    assert result == {"query": "q", "weights": {"a": 1}, "filters": [{"field": "a"}]}


def test_args_01_a_missing_field_is_named_without_links() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        search.check({})
    assert str(caught.value) == "The arguments do not fit the tool:\n- query: is required"


def test_core_38_an_unknown_argument_is_answered_with_the_names_that_exist() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        checked(limits=3, limited="no")
    assert str(caught.value).splitlines() == [
        "The arguments do not fit the tool:",
        "- limits: is not expected",
        "- limited: is not expected",
        "The parameters are: query, limit, filters, target, weights, tone, point, pairs, numbers, unique.",
    ]


def test_an_unknown_argument_of_a_tool_without_parameters_says_so() -> None:
    @tool
    def now() -> str:
        """Tell the time."""
        return "noon"

    with pytest.raises(ToolArgumentsError, match="The parameters are: none"):
        now.check({"zone": "UTC"})


def test_core_38_the_error_stays_short_however_much_is_wrong() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        checked(unique=["x"] * 30, **{"y" * 1000: 1})
    text = str(caught.value)
    assert "- and 21 more" in text
    assert re.search(r"pydantic|https?://", text) is None
    assert max(map(len, text.splitlines())) <= 303


def test_args_06_a_field_that_the_schema_does_not_show_keeps_its_null() -> None:
    @tool
    def narrow(by: Annotated[list[Filter], WithJsonSchema({"type": "array"})]) -> int:
        """Narrow it down."""
        return len(by)

    with pytest.raises(ToolArgumentsError, match=r"- by\.0\.limit: Input should be a valid integer"):
        narrow.check({"by": [{"field": "a", "limit": None}]})


def test_a_dictionary_key_named_like_the_tag_of_a_union_does_no_harm() -> None:
    with pytest.raises(ToolArgumentsError):
        checked(numbers={"int": None})


def test_many_lists_beside_each_other_are_not_deep() -> None:
    wide = [1, *[[]] * 200]
    assert decode_tool_arguments(json.dumps({"wide": wide})) == {"wide": wide}
