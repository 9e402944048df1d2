"""From a tool's return value to the content of its message (ARGS-05)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_serializer

from zett_agent.exceptions import ToolError
from zett_agent.messages import ImageContent, ImageUrlSource, TextContent
from zett_agent.tools.results import result_content, serialize_result, shorten

LONE = "\ud800"
IMAGE = ImageContent(ImageUrlSource("https://example.org/a.png"), alt_text="a")


class Size(Enum):
    SMALL = 1


class Tone(StrEnum):
    WARM = "warm"


class Report(BaseModel):
    title: str
    data: bytes = b""


@dataclass
class Point:
    x: float
    label: str = "p"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is: é", "as is: é"),
        ("", ""),
        (Tone.WARM, "warm"),
        (None, "null"),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        ({"ü": True}, '{"ü":true}'),
        (b"abc", '"abc"'),
        (Size.SMALL, "1"),
        (date(2026, 1, 2), '"2026-01-02"'),
        (Report(title="t"), '{"title":"t","data":""}'),
        (Point(1.5), '{"x":1.5,"label":"p"}'),
        (2**80, str(2**80)),
        ([TextContent("a"), "b"], '[{"text":"a"},"b"]'),
        ((TextContent("a"),), '[{"text":"a"}]'),
    ],
)
def test_a_value_becomes_text_or_compact_json(value: object, text: str) -> None:
    assert result_content(value) == text


def test_a_string_of_a_string_enum_is_a_plain_string() -> None:
    assert type(serialize_result(Tone.WARM)) is str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "null"),
        ([math.inf, {"a": -math.inf}], '[null,{"a":null}]'),
        (Point(math.nan), '{"x":null,"label":"p"}'),
    ],
)
def test_args_05_what_is_not_finite_becomes_null(value: object, text: str) -> None:
    assert serialize_result(value) == text


def test_args_05_a_model_that_insists_on_nan_does_not_get_it_through() -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="constants")
        value: float
        note: str = "NaN ü"

    assert serialize_result(Loose(value=math.inf)) == '{"value":null,"note":"NaN ü"}'


def test_bytes_that_are_not_utf_8_become_base64_wherever_they_are() -> None:
    raw = b"\xff\x00"
    text = base64.b64encode(raw).decode()
    value = {"a": [raw, b"ok"], "b": {"c": (raw,)}, "m": Report(title="t", data=raw), "d": bytearray(raw)}
    assert json.loads(serialize_result(value)) == {
        "a": [text, "ok"],
        "b": {"c": [text]},
        "m": {"title": "t", "data": text},
        "d": text,
    }


def test_lone_surrogates_are_replaced_wherever_they_are() -> None:
    assert serialize_result(LONE) == "\ufffd"
    value = {LONE: [Point(1, LONE)], "model": Report(title=LONE), "pair": "\ud83d\ude00", "n": 1, "tone": Tone.WARM}
    assert json.loads(serialize_result(value)) == {
        "\ufffd": [{"x": 1, "label": "\ufffd"}],
        "model": {"title": "\ufffd", "data": ""},
        "pair": "😀",
        "n": 1,
        "tone": "warm",
    }


class Broken(BaseModel):
    value: int = 1

    @field_serializer("value")
    def refuse(self, value: int) -> int:
        raise KeyError("boom")


def test_what_cannot_be_written_is_a_tool_error_that_names_the_type() -> None:
    with pytest.raises(ToolError, match=r"the returned object cannot be written as JSON: .*<class 'object'>"):
        serialize_result(object())
    with pytest.raises(ToolError, match="the returned dict cannot be written"):
        serialize_result({"a": LONE, "b": Point})
    with pytest.raises(ToolError, match="the returned Broken cannot be written"):
        serialize_result(Broken())


def test_what_contains_itself_is_a_tool_error() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ToolError, match="the returned list cannot be written as JSON: it is nested too deeply"):
        serialize_result(ring)


def test_parts_stay_parts() -> None:
    text = TextContent("a")
    assert result_content(text) == [text]
    assert result_content(IMAGE) == [IMAGE]
    parts = [text, IMAGE]
    content = result_content(parts)
    assert content == parts
    assert content is not parts


def test_parts_are_made_encodable() -> None:
    image = ImageContent(ImageUrlSource("https://example.org/a.png"), alt_text=LONE)
    bare = ImageContent(ImageUrlSource("https://example.org/a.png"))
    content = result_content([TextContent(LONE), image, bare])
    assert content == [TextContent("\ufffd"), ImageContent(image.source, alt_text="\ufffd"), bare]


def test_another_serializer_is_used_and_its_text_made_encodable() -> None:
    assert result_content([1], lambda value: f"{value}{LONE}") == "[1]\ufffd"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text(st.characters()) | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(ANYTHING)
def test_args_05_every_result_is_strict_json_in_utf_8(value: object) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    text = serialize_result(value)
    text.encode()
    if not isinstance(value, str):
        json.loads(text, parse_constant=refuse)


def test_args_05_an_iterator_that_fails_half_way_is_no_shorter_result() -> None:
    def rows() -> Iterator[int]:
        yield 1
        raise OSError("the line is lost")

    for value in (rows(), {"rows": rows()}):
        with pytest.raises(ToolError, match="cannot be read again"):
            serialize_result(value)


def test_whatever_a_value_raises_while_it_is_read_is_a_tool_error() -> None:
    class Closed(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            raise OSError("closed")

        def __iter__(self) -> Iterator[str]:
            raise OSError("closed")

        def __len__(self) -> int:
            return 1

    with pytest.raises(ToolError, match="the returned Closed cannot be written as JSON: closed"):
        serialize_result(Closed())


def test_core_39_a_long_text_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    content = shorten("a" * 600 + "b" * 300 + "c" * 400, 900)
    assert isinstance(content, str)
    assert content.startswith("a" * 600 + "\n[400 characters are left out")
    assert content.endswith("\n" + "c" * 300)


@pytest.mark.parametrize("content", ["x" * 9, "", [IMAGE], [TextContent("x" * 4), IMAGE, TextContent("x" * 5)]])
def test_core_39_what_is_short_enough_stays_the_same_object(content: Any) -> None:
    assert shorten(content, 9) is content


def test_core_39_of_several_texts_the_first_are_kept_and_images_stay_whole() -> None:
    parts: list[TextContent | ImageContent] = [
        TextContent("a" * 6),
        IMAGE,
        TextContent("b" * 30),
        TextContent("c" * 1000),
        IMAGE,
    ]
    kept = shorten(parts, 12)
    assert isinstance(kept, list)
    texts = [part.text for part in kept if isinstance(part, TextContent)]
    assert [part for part in kept if not isinstance(part, TextContent)] == [IMAGE, IMAGE]
    assert texts[0] == "a" * 6
    assert texts[1].startswith("bbbb\n[24 characters")
    assert texts[2].startswith("[1,000 characters")


@given(st.text(max_size=400), st.integers(1, 60))
def test_core_39_a_cut_text_is_never_longer_than_its_limit_and_the_notice(text: str, limit: int) -> None:
    cut = shorten(text, limit)
    assert isinstance(cut, str)
    assert len(cut) <= max(len(text), limit + 110)
    assert (cut == text) is (len(text) <= limit)


def test_core_39_a_part_that_is_cut_within_leaves_nothing_to_mention_behind_it() -> None:
    kept = shorten([TextContent("a" * 30), IMAGE], 12)
    assert isinstance(kept, list) and len(kept) == 2
