from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import MAX_DEPTH, json_object
from zett_agent.storage.strict import (
    Fields,
    checked_json,
    checked_object,
    clean_text,
    from_text,
    optional_string,
    string,
    time_text,
    to_line,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Ratio(float):
    pass


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("käse 🙂", "käse 🙂"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("end\ud83d", "end\ufffd"),
        ("\ud83d\ude42", "🙂"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_are_joined(text: str, expected: str) -> None:
    assert clean_text(text) == expected
    assert string(text, "x") == expected


def test_a_copy_shares_nothing_and_equals_the_original() -> None:
    value: Any = {"a": [1, 2.5, None, True, {"b": []}], "c": "text", "": {}}
    copied: Any = checked_json(value, "x")
    assert copied == value
    copied["a"][4]["b"].append(1)
    assert value["a"] == [1, 2.5, None, True, {"b": []}]


def test_enum_members_become_plain_values() -> None:
    value = {Colour.RED: Colour.RED, "level": Level.LOW, "ratio": Ratio(0.5)}
    copied = checked_object(value, "x")
    assert copied == {"red": "red", "level": 1, "ratio": 0.5}
    assert [type(item) for pair in copied.items() for item in pair] == [str, str, str, int, str, float]


def test_any_mapping_is_an_object_at_the_top() -> None:
    assert checked_object(MappingProxyType({"a": 1}), "x") == {"a": 1}
    assert checked_object({}, "x") == {}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": (1, 2)}, r"attributes\['a'\] must be JSON, not tuple"),
        ({"a": [{"b": b""}]}, r"attributes\['a'\]\[0\]\['b'\] must be JSON, not bytes"),
        ({"a": {1: 2}}, r"attributes\['a'\] must have string keys, not int"),
        ({"a": [0.0, float("nan")]}, r"attributes\['a'\]\[1\] must be a finite number"),
        ({"a": float("-inf")}, r"attributes\['a'\] must be a finite number"),
        ({"a": 10**4300}, r"attributes\['a'\] has more than 4300 digits"),
        ({"a": datetime.now(UTC)}, r"attributes\['a'\] must be JSON, not datetime"),
    ],
)
def test_core_32_what_is_not_json_is_refused_by_the_name_of_its_key(value: Any, problem: str) -> None:
    with pytest.raises(StoredFormatError, match=f"^{problem}$"):
        checked_json(value, "attributes")
    with pytest.raises(StoredFormatError, match=f"^{problem}$"):
        checked_object(value, "attributes")
    with pytest.raises(ValueError, match=f"^{problem}$"):
        json_object(value, field_name="attributes")


def test_keys_that_cleaning_would_make_one_are_refused() -> None:
    with pytest.raises(StoredFormatError, match=r"^x\['a'\] has keys that differ only in lone surrogates$"):
        checked_json({"a": dict.fromkeys("\ud800\udc00", 1)}, "x")


def test_an_object_must_be_a_mapping() -> None:
    with pytest.raises(StoredFormatError, match=r"^arguments must be an object, not list$"):
        checked_object([], "arguments")


def test_nesting_has_a_bound_and_a_cycle_is_found_by_it() -> None:
    assert checked_json(nested(MAX_DEPTH), "x") == nested(MAX_DEPTH)
    with pytest.raises(StoredFormatError, match="is nested more than 200 deep"):
        checked_json(nested(MAX_DEPTH + 1), "x")
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(StoredFormatError, match="is nested more than 200 deep"):
        checked_json(cycle, "x")
    with pytest.raises(StoredFormatError, match="is nested more than 200 deep"):
        to_line(cycle, "x")


def test_opaque_values_keep_lone_surrogates() -> None:
    assert checked_json(["\ud800", {"\udc00": "x"}], "x", opaque=True) == ["\ud800", {"\udc00": "x"}]


def test_a_line_has_no_line_break_and_comes_back_whole() -> None:
    value = {"text": "a\nb\r\u2028c\u2029d\x85e\x0bf\x1cg\ud800h 🙂"}
    line = to_line(value, "x")
    assert len(line.splitlines()) == 1
    assert line.encode().decode() == line
    assert "🙂" in line
    assert from_text(line) == value


def test_integers_keep_their_precision() -> None:
    value = [2**53 + 1, 2**64 + 1, -(2**200), 10**4300 - 1]
    assert from_text(to_line(value, "x")) == value


@pytest.fixture
def few_digits() -> Iterator[None]:
    """An application may have lowered Python's limit on the digits of an integer."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(limit)


@pytest.mark.usefixtures("few_digits")
def test_a_lowered_limit_on_digits_is_a_storage_error() -> None:
    with pytest.raises(StoredFormatError, match="^body is not JSON: Exceeds the limit"):
        to_line({"a": 10**1000}, "body")


def test_a_line_of_what_is_not_json_names_the_key() -> None:
    with pytest.raises(StoredFormatError, match=r"^body\['a'\] must be a finite number$"):
        to_line({"a": float("nan")}, "body")


DEEP, LONG = pytest.param("[" * 100_000, id="deep"), pytest.param("9" * 5000, id="long")


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", "[Infinity]", "-Infinity", "1e999", DEEP, LONG])
def test_text_that_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(StoredFormatError, match="^broken JSON: "):
        from_text(text)


def test_the_error_of_a_broken_text_does_not_quote_it() -> None:
    with pytest.raises(StoredFormatError) as caught:
        from_text('{"key": "sk-secret')
    assert "sk-secret" not in str(caught.value)


def test_times_are_written_in_utc_with_microseconds() -> None:
    east = timezone(timedelta(hours=2))
    assert time_text(datetime(2025, 1, 2, 3, 4, 5, tzinfo=east), "at") == "2025-01-02T01:04:05.000000+00:00"


@pytest.mark.parametrize("value", [datetime(2025, 1, 2), "2025-01-02T03:04:05Z", None])
def test_core_59_a_time_without_a_zone_is_refused(value: object) -> None:
    with pytest.raises(StoredFormatError, match="^at must be a datetime with a time zone$"):
        time_text(value, "at")


def test_a_time_before_the_first_year_of_utc_is_refused() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(StoredFormatError, match="^at is outside of the years that UTC has$"):
        time_text(early, "at")
    with pytest.raises(StoredFormatError, match=r"^r\.at must be an ISO 8601 time with its zone, not str$"):
        Fields({"at": early.isoformat()}, "r").time("at")


def test_strings_are_checked() -> None:
    assert optional_string(None, "x") is None
    assert optional_string("a", "x") == "a"
    with pytest.raises(StoredFormatError, match="^x must be a string, not int$"):
        optional_string(1, "x")


def test_fields_are_read_by_name_and_type() -> None:
    at = datetime(2025, 1, 2, 3, 4, 5, 678901, UTC)
    data = {"t": "x", "n": None, "b": True, "i": 7, "l": [1], "o": {"k": [1]}, "at": at.isoformat(), "unknown": 1}
    read = Fields(data, "r")
    assert (read.text("t"), read.optional_text("n"), read.optional_text("t")) == ("x", None, "x")
    assert (read.flag("b"), read.integer("i"), read.array("l"), read.mapping("o")) == (True, 7, [1], {"k": [1]})
    assert read.part("o").array("k") == [1]
    assert (read.time("at"), read.optional_time("at"), read.optional_time("n")) == (at, at, None)
    assert read.time("at").tzinfo is UTC


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("text", "a string"),
        ("optional_text", "a string or null"),
        ("flag", "true or false"),
        ("integer", "an integer"),
        ("array", "a list"),
        ("time", "a string"),
    ],
)
def test_a_field_that_is_absent_or_wrong_is_named(method: str, expected: str) -> None:
    read = Fields({"x": 1.5}, "record.body")
    with pytest.raises(StoredFormatError, match=rf"^record\.body\.y is missing; it must be {expected}$"):
        getattr(read, method)("y")
    with pytest.raises(StoredFormatError, match=rf"^record\.body\.x must be {expected}, not float$"):
        getattr(read, method)("x")


def test_true_is_no_integer_and_a_number_no_object() -> None:
    read = Fields({"x": True}, "r")
    with pytest.raises(StoredFormatError, match="must be an integer, not bool"):
        read.integer("x")
    with pytest.raises(StoredFormatError, match=r"^r\.x must be an object, not bool$"):
        read.part("x")
    with pytest.raises(StoredFormatError, match=r"^r\.x must be an object, not bool$"):
        read.mapping("x")


@pytest.mark.parametrize("text", ["yesterday", "2025-01-02T03:04:05", "2025-13-02T03:04:05+00:00"])
def test_a_stored_time_must_be_iso_8601_with_its_zone(text: str) -> None:
    with pytest.raises(StoredFormatError, match=r"^r\.at must be an ISO 8601 time with its zone"):
        Fields({"at": text}, "r").time("at")
