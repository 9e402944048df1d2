from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from zett_agent.exceptions import StorageError, StoredFormatError
from zett_agent.storage.codec import (
    decode_event,
    decode_record,
    decode_timing,
    decode_usage,
    decode_wait,
    encode_record,
)
from zett_agent.storage.records import FORMAT_VERSION, Record, RecordKind

AT = datetime(2025, 1, 2, 3, 4, 5, 678901, UTC)
RECORD = Record("s", 3, AT, RecordKind.TASK, 1, {"käse": [1, 2.5, None]})
USAGE = {
    "input_tokens": 2,
    "output_tokens": 1,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "cache_reported": True,
    "reasoning_tokens": 0,
}


def line(**changes: object) -> str:
    return json.dumps({**json.loads(encode_record(RECORD)), **changes})


def test_a_record_is_one_line_of_json() -> None:
    assert encode_record(RECORD) == (
        '{"format":1,"session_id":"s","seq":3,"at":"2025-01-02T03:04:05.678901+00:00","kind":"task",'
        '"body":{"käse":[1,2.5,null]}}'
    )


def test_a_record_comes_back_as_it_was() -> None:
    restored = decode_record(encode_record(RECORD))
    assert restored == RECORD
    assert type(restored.kind) is RecordKind
    assert restored.at.tzinfo is UTC


def test_core_59_a_time_of_another_zone_is_the_same_moment() -> None:
    tokyo = AT.astimezone(timezone(timedelta(hours=9)))
    assert decode_record(encode_record(Record("s", 1, tokyo, RecordKind.TASK, 1, {}))).at == AT


def test_core_59_session_ids_may_have_any_length() -> None:
    record = Record("日" * 500, 1, AT, RecordKind.TASK, 1, {})
    assert decode_record(encode_record(record)) == record


def test_persist_08_a_newer_format_is_refused_and_both_versions_are_named() -> None:
    newer = f"format {FORMAT_VERSION + 1}; this version reads formats up to {FORMAT_VERSION}$"
    with pytest.raises(StoredFormatError, match=newer):
        decode_record(json.dumps({"format": FORMAT_VERSION + 1}))
    assert issubclass(StoredFormatError, StorageError)


def test_unknown_keys_of_a_known_format_are_ignored() -> None:
    assert decode_record(line(later={"x": 1})) == RECORD


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 0}, "a record has format 0; the first format is 1"),
        ({"format": "1"}, "record.format must be an integer, not str"),
        ({"format": True}, "record.format must be an integer, not bool"),
        ({"seq": 0}, "record.seq must be at least 1, not 0"),
        ({"kind": "rumour"}, "record.kind must be a known kind of record, not str"),
        ({"kind": None}, "record.kind must be a string, not NoneType"),
        ({"body": []}, "record.body must be an object, not list"),
        ({"at": "2025-01-02T03:04:05"}, "record.at must be an ISO 8601 time with its zone, not str"),
        ({"session_id": 1}, "record.session_id must be a string, not int"),
    ],
)
def test_a_broken_record_is_refused_by_the_name_of_the_field(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(StoredFormatError) as caught:
        decode_record(line(**changes))
    assert str(caught.value) == problem


@pytest.mark.parametrize("cut", range(0, 130, 7))
def test_persist_04_a_torn_line_is_refused(cut: int) -> None:
    text = encode_record(RECORD)
    with pytest.raises(StoredFormatError, match="^broken JSON: "):
        decode_record(text[: min(cut, len(text) - 1)])


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"'])
def test_json_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(StoredFormatError, match="^record must be an object, not "):
        decode_record(text)


def test_a_body_that_is_not_json_is_refused_by_the_name_of_its_key() -> None:
    body: dict[str, Any] = {"x": [AT]}
    with pytest.raises(StoredFormatError, match=r"^record\['body'\]\['x'\]\[0\] must be JSON, not datetime$"):
        encode_record(Record("s", 1, AT, RecordKind.TASK, 1, body))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(StoredFormatError, match="^at must be a datetime with a time zone$"):
        encode_record(Record("s", 1, AT.replace(tzinfo=None), RecordKind.TASK, 1, {}))


def test_broken_parts_of_a_body_are_refused_by_name() -> None:
    with pytest.raises(StoredFormatError, match="^wait must be an object, not NoneType$"):
        decode_wait(None)
    with pytest.raises(StoredFormatError, match=r"^event: name must not be blank$"):
        decode_event({"name": " ", "payload": {}})
    with pytest.raises(StoredFormatError, match=r"^usage: token counts must not be negative$"):
        decode_usage({**USAGE, "output_tokens": -1})
    with pytest.raises(StoredFormatError, match=r"^usage\.cache_reported must be true or false, not int$"):
        decode_usage({**USAGE, "cache_reported": 1})
    with pytest.raises(StoredFormatError, match=r"^timing\.started_at is missing; it must be a string$"):
        decode_timing({})
