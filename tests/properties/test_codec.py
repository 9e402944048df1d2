"""Whatever a conversation holds comes back from the log as it was, and whatever a log holds is read or refused.

A failing example prints its blob (``print_blob`` in conftest): ``@reproduce_failure`` with it repeats the example.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason
from zett_agent.storage import records
from zett_agent.storage.codec import (
    decode_event,
    decode_message,
    decode_messages,
    decode_record,
    decode_wait,
    encode_message,
    encode_messages,
    encode_record,
)
from zett_agent.storage.records import Record, RecordKind
from zett_agent.storage.strict import clean_text
from zett_agent.waits import ExternalEvent, Wait

# Keys that the codec itself uses, and others' escapes for bytes: user data made of them must come back too (core-32).
TELLING = st.sampled_from(
    ["kind", "data", "text", "source", "media_type", "url", "__kcs_bytes__", "__bytes__", "$type", ""]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | TELLING
)
BIG = st.integers(min_value=-(2**300), max_value=2**300)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | BIG,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TELLING | st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TELLING | st.text(), VALUES, max_size=4)
OPTIONAL = st.none() | st.text()
MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))

SOURCES = st.builds(ImageUrlSource, st.text().map("https://".__add__)) | st.builds(
    ImageBytesSource, st.binary(min_size=1), st.text().map("image/".__add__)
)
PARTS = st.builds(TextContent, st.text()) | st.builds(ImageContent, SOURCES, st.sampled_from(ImageDetail), OPTIONAL)
CONTENT = st.text() | st.lists(PARTS, max_size=4)
CALLS = st.builds(ToolCall, st.text(), st.text(), OBJECTS, OPTIONAL)
STOPS = st.builds(StopInfo, st.sampled_from(StopReason), OPTIONAL, OPTIONAL, OPTIONAL, OPTIONAL, OBJECTS)
COMMON: dict[str, Any] = {
    "attributes": OBJECTS,
    "persist": st.booleans(),
    "include_in_messages": st.booleans(),
}
ASSISTANTS = st.builds(
    AssistantMessage,
    content=st.text(),
    reasoning=OPTIONAL,
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    provider=OPTIONAL,
    model=OPTIONAL,
    replay_blocks=st.lists(VALUES, max_size=3).map(tuple),
    stop=st.none() | STOPS,
    **COMMON,
)
MESSAGES: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(SystemMessage, content=st.text(), **COMMON),
    st.builds(UserMessage, content=CONTENT, **COMMON),
    ASSISTANTS,
    st.builds(ToolMessage, tool_call_id=st.text(), name=st.text(), content=CONTENT, success=st.booleans(), **COMMON),
    st.builds(AgentMessage, content=st.text(), **COMMON),
)
WAITS = st.builds(
    Wait,
    id=st.text(),
    session_id=st.text(),
    request_id=st.text(),
    extension=st.text(),
    response_events=st.frozensets(st.text(), max_size=3),
    correlation_field=st.text(),
    created_at=MOMENTS,
    tool=OPTIONAL,
    arguments=OBJECTS,
    event_name=OPTIONAL,
    question=st.none() | OBJECTS,
    expires_at=st.none() | MOMENTS,
)
RECORDS = st.builds(Record, st.text(), st.integers(1, 2**63), MOMENTS, st.sampled_from(RecordKind), st.just(1), OBJECTS)
# Text as a program may hold it and UTF-8 cannot.
BROKEN_TEXT = st.text(st.characters() | st.sampled_from("\ud800\udbff\udc00\udfff"))


@given(st.lists(MESSAGES, max_size=3))
def test_every_message_comes_back_equal(messages: list[AnyMessage]) -> None:
    restored = decode_messages(encode_messages(messages))
    assert restored == messages
    assert [type(message) for message in restored] == [type(message) for message in messages]


@given(MESSAGES)
def test_encoding_a_restored_message_gives_the_same_json(message: AnyMessage) -> None:
    encoded = cast("JsonValue", encode_message(message))
    assert encode_message(decode_message(encoded)) == encoded


@given(RECORDS)
def test_every_record_comes_back_equal_from_one_line(record: Record) -> None:
    line = encode_record(record)
    assert len(line.splitlines()) == 1
    assert decode_record(line.encode().decode()) == record
    assert encode_record(decode_record(line)) == line


@given(RECORDS, st.integers(-720, 720))
def test_core_59_the_zone_of_a_time_makes_no_difference(record: Record, minutes: int) -> None:
    elsewhere = record.at.astimezone(timezone(timedelta(minutes=minutes)))
    moved = Record(record.session_id, record.seq, elsewhere, record.kind, record.format, record.body)
    assert encode_record(moved) == encode_record(record)


@given(WAITS)
def test_every_wait_comes_back_equal(wait: Wait) -> None:
    line = encode_record(records.wait_opened(wait).numbered("s", 1))
    assert decode_wait(decode_record(line).body["wait"]) == wait


@given(st.text().filter(str.strip), OBJECTS, MOMENTS)
def test_every_answer_comes_back_equal(name: str, payload: dict[str, Any], at: datetime) -> None:
    event = ExternalEvent(name, payload)
    line = encode_record(records.wait_answered("w", event, at=at).numbered("s", 1))
    assert decode_event(decode_record(line).body["event"]) == event


@given(BROKEN_TEXT)
def test_lone_surrogates_never_stop_a_message(text: str) -> None:
    message = AssistantMessage(content=text, attributes={text: [text]}, replay_blocks=(text,))
    written = encode_messages([message])
    assert written.encode().decode() == written
    (restored,) = decode_messages(written)
    assert isinstance(restored, AssistantMessage)
    assert (restored.content, restored.attributes) == (clean_text(text), {clean_text(text): [clean_text(text)]})
    assert restored.replay_blocks == (json.loads(json.dumps(text)),)


@given(st.text() | VALUES.map(json.dumps))
def test_any_line_is_a_record_or_refused(line: str) -> None:
    try:
        record = decode_record(line)
    except StoredFormatError:
        return
    assert isinstance(record, Record)


@settings(max_examples=300)
@given(RECORDS, st.data())
def test_persist_04_a_line_cut_anywhere_is_refused(record: Record, data: st.DataObject) -> None:
    line = encode_record(record)
    cut = data.draw(st.integers(0, len(line) - 1))
    try:
        decode_record(line[:cut])
    except StoredFormatError:
        return
    raise AssertionError(f"a torn line was read: {line[:cut]!r}")


@settings(max_examples=300)
@given(MESSAGES, st.data())
def test_a_message_with_any_one_value_replaced_is_read_or_refused(message: AnyMessage, data: st.DataObject) -> None:
    encoded = cast("dict[str, Any]", encode_message(message))
    place = encoded
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES)
    try:
        encode_message(decode_message(cast("JsonValue", encoded)))
    except StoredFormatError:
        return
