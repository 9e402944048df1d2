from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.replay import call, calls, delta
from zett_agent.json_types import JsonValue
from zett_agent.messages import ToolCall
from zett_agent.model import ModelEvent, ModelEventType, ModelResponse, ModelUsage
from zett_agent.providers.chat_stream import ChatStream, read_usage
from zett_agent.providers.chat_wire import ChatSettings
from zett_agent.stop import StopReason

SETTINGS = ChatSettings(provider="openai", model="m", endpoint="http://here/v1")


def read(*chunks: Mapping[str, Any]) -> tuple[list[ModelEvent], ModelResponse]:
    stream = ChatStream(SETTINGS)
    events = [event for chunk in chunks for event in stream.feed(chunk)]
    return events, stream.finish()


def read_calls(*elements: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of a response whose fragments come one per chunk; the deltas must add up to the same."""
    events, response = read(*(calls(element) for element in elements))
    streamed: dict[int, list[str]] = {}
    for event in events:
        assert event.tool_call_delta is not None
        parts = streamed.setdefault(event.tool_call_delta.index, ["", ""])
        parts[0] += event.tool_call_delta.id_delta
        parts[1] += event.tool_call_delta.name_delta
    assert [(item.id, item.name) for item in response.message.tool_calls] == [
        (parts[0], parts[1]) for _, parts in sorted(streamed.items())
    ]
    return list(response.message.tool_calls)


def test_text_and_reasoning_become_deltas_and_a_message() -> None:
    events, response = read(
        delta(role="assistant"),
        delta(reasoning_content="why "),
        delta(reasoning="not"),
        delta("Hel"),
        delta("lo"),
        delta(finish="stop"),
    )
    assert [(event.type, event.delta) for event in events] == [
        (ModelEventType.REASONING_DELTA, "why "),
        (ModelEventType.REASONING_DELTA, "not"),
        (ModelEventType.TEXT_DELTA, "Hel"),
        (ModelEventType.TEXT_DELTA, "lo"),
    ]
    assert (response.message.content, response.message.reasoning) == ("Hello", "why not")
    assert (response.message.provider, response.message.model) == ("openai", "m")
    assert response.stop is not None and response.stop.reason is StopReason.END_TURN


def test_text_in_parts_is_text() -> None:
    _, response = read(delta(content=None, role="assistant"), calls_free := delta("x"))
    assert calls_free and response.message.content == "x"
    parts = [{"type": "text", "text": "a"}, "junk", {"type": "thinking"}, {"type": "text", "text": "b"}]
    assert read({"choices": [{"delta": {"content": parts}}]})[1].message.content == "ab"


def test_stream_01_fragments_go_by_id_then_index_then_to_the_call_being_streamed() -> None:
    assert read_calls(call("{", id="a", name="f"), call("}"), call("{}", id="b", name="g")) == [
        ToolCall("a", "f"),
        ToolCall("b", "g"),
    ]


def test_stream_01_interleaved_fragments_go_to_their_index() -> None:
    assert read_calls(
        call("", index=0, id="a", name="f"),
        call("", index=1, id="b", name="g"),
        call('{"x"', index=0),
        call('{"y"', index=1),
        call(":1}", index=0),
        call(":2}", index=1),
    ) == [ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", {"y": 2})]


def test_stream_01_interleaved_fragments_without_index_go_to_their_id() -> None:
    assert read_calls(
        call("{", id="a", name="f"), call("{", id="b", name="g"), call("}", id="a"), call("}", id="b")
    ) == [ToolCall("a", "f"), ToolCall("b", "g")]


def test_stream_02_a_new_id_on_a_used_index_starts_a_new_call() -> None:
    assert read_calls(call('{"p":1}', index=0, id="a", name="read"), call('{"p":2}', index=0, id="b", name="read")) == [
        ToolCall("a", "read", {"p": 1}),
        ToolCall("b", "read", {"p": 2}),
    ]


def test_stream_02_a_seen_id_goes_to_its_call_whatever_its_index() -> None:
    assert read_calls(
        call('{"p"', index=0, id="a", name="f"), call("{", index=1, id="b", name="g"),
        call(":1}", index=7, id="a"), call("}", index=1, id="b"),
    ) == [ToolCall("a", "f", {"p": 1}), ToolCall("b", "g")]  # fmt: skip


def test_c05_an_id_and_a_name_that_are_repeated_per_chunk_are_not_concatenated() -> None:
    assert read_calls(
        call('{"x"', index=0, id="a", name="f"),
        call(":", index=0, id="a", name="f"),
        call("1}", index=0, id="a", name="f"),
    ) == [ToolCall("a", "f", {"x": 1})]
    assert read_calls(call('{"x"', id="a", name="f"), call(":1}", id="a", name="f")) == [ToolCall("a", "f", {"x": 1})]
    assert read_calls(call('{"x"', index=0, name="f"), call(":1}", index=0, name="f")) == [ToolCall("", "f", {"x": 1})]


def test_c05_an_index_that_comes_late_belongs_to_the_same_call() -> None:
    assert read_calls(call('{"x"', id="a", name="f"), call(":1}", index=0, id="a", name="f")) == [
        ToolCall("a", "f", {"x": 1})
    ]


def test_an_id_that_comes_late_belongs_to_the_call_being_streamed() -> None:
    assert read_calls(call("{", index=0, name="f"), call("}", index=0, id="a")) == [ToolCall("a", "f")]
    assert read_calls(call("{", name="f"), call("}", id="a")) == [ToolCall("a", "f")]
    assert read_calls(call("{}", id="a", name="f"), call("{}", id="b")) == [ToolCall("a", "f"), ToolCall("b", "")]


def test_a_name_in_fragments_is_put_together() -> None:
    assert read_calls(call(index=0, id="a", name="get_"), call("{}", index=0, name="time")) == [
        ToolCall("a", "get_time")
    ]
    assert read_calls(call(index=0, id="a", name="get_"), call("{}", index=0, name="get_time")) == [
        ToolCall("a", "get_time")
    ]


def test_parallel_03_calls_without_ids_stay_apart_and_their_ids_are_left_to_the_runtime() -> None:
    whole = call('{"q":1}', name="search")
    assert read_calls(whole, whole) == [ToolCall("", "search", {"q": 1})] * 2
    assert read_calls(call("{}", index=0, name="f"), call("{}", index=0, name="g")) == [
        ToolCall("", "f"),
        ToolCall("", "g"),
    ]
    assert read_calls(call("{", index=0, id="", name="f"), call("}", index=0, id="")) == [ToolCall("", "f")]


def test_parallel_03_an_id_used_for_two_calls_is_kept_for_the_first_only() -> None:
    assert read_calls(
        call('{"x"', index=0, id="a", name="f"), call('{"y"', index=1, id="a", name="g"),
        call(":1}", index=0, id="a"), call(":2}", index=1, id="a"),
    ) == [ToolCall("a", "f", {"x": 1}), ToolCall("", "g", {"y": 2})]  # fmt: skip


def test_args_01_empty_and_null_arguments_are_an_empty_object() -> None:
    assert read_calls(call("", id="a", name="f"), call(" \n", id="b", name="f"), call("null", id="c", name="f")) == [
        ToolCall(name, "f") for name in "abc"
    ]


def test_args_03_arguments_that_are_no_object_carry_an_error_and_nothing_invented() -> None:
    for text in ('{"q":"x"}}', '{"q":1}{"q":2}', '{"x": "a" b"}', "[1]"):
        (broken,) = read_calls(call(text, id="a", name="f"))
        assert broken.arguments == {} and broken.error


def test_arguments_that_come_decoded_are_taken() -> None:
    assert read_calls({"id": "a", "function": {"name": "f", "arguments": {"x": [1]}}}) == [
        ToolCall("a", "f", {"x": [1]})
    ]


def test_a_call_without_a_name_is_left_to_the_runtime() -> None:
    assert read_calls(call("{}", id="a")) == [ToolCall("a", "")]


def test_fragments_that_say_nothing_give_no_event() -> None:
    events, response = read(calls({}, {"function": None}), delta(tool_calls=["junk"]))
    assert events == [] and len(response.message.tool_calls) == 1


def test_stream_04_chunks_without_choices_are_legal_anywhere_and_their_usage_is_kept() -> None:
    events, response = read(
        {"choices": [], "prompt_filter_results": [{}]},
        {"choices": None},
        delta("hi", finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
    )
    assert [event.delta for event in events] == ["hi"]
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 5)


def test_other_choices_and_null_deltas_are_left_out() -> None:
    events, _ = read({"choices": [{"index": 1, "delta": {"content": "other"}}, 3]}, {"choices": [{"delta": None}]})
    assert events == []


def test_usage_01_later_values_replace_earlier_ones_field_by_field() -> None:
    _, response = read(
        {"usage": {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1}}},
        {"usage": {"completion_tokens": 16, "prompt_tokens": None, "prompt_tokens_details": {"audio_tokens": 0}}},
        {"choices": [{"delta": {}, "usage": {"completion_tokens": 17}}], "usage": None},
    )
    assert response.usage == ModelUsage(9, 17, cache_read_tokens=1)


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({}, ModelUsage(cache_reported=False)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, ModelUsage(3, 4, cache_reported=False)),
        ({"input_tokens": 3, "output_tokens": 4, "cached_tokens": 0}, ModelUsage(3, 4)),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 80}}, ModelUsage(100, 0, 80)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8, "cache_creation_input_tokens": 1}, ModelUsage(9, 0, 8, 1)),
        (
            {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}},
            ModelUsage(1, 9, cache_reported=False, reasoning_tokens=7),
        ),
        (
            {
                "input_tokens": 1,
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 7},
                "total_tokens": 10,
            },
            ModelUsage(1, 9, cache_reported=False, reasoning_tokens=7),
        ),
        ({"prompt_tokens": "many", "completion_tokens": True, "total_tokens": -1}, ModelUsage(cache_reported=False)),
    ],
)
def test_usage_03_counts_have_one_meaning(reported: dict[str, Any], usage: ModelUsage) -> None:
    assert read_usage(reported) == usage


def test_usage_05_reasoning_counted_beside_the_output_is_added_to_it() -> None:
    usage = read_usage(
        {
            "prompt_tokens": 20,
            "completion_tokens": 198,
            "total_tokens": 623,
            "reasoning_tokens": 405,
            "cached_tokens": 5,
        }
    )
    assert usage == ModelUsage(20, 603, 5, reasoning_tokens=405) and usage.total_tokens == 623


_COUNTS: st.SearchStrategy[JsonValue] = st.none() | st.integers(-5, 500) | st.text(max_size=3) | st.booleans()
_NAMES = [
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
    "cache_read_input_tokens",
]


@given(
    st.dictionaries(st.sampled_from(_NAMES), _COUNTS),
    st.dictionaries(st.sampled_from(_NAMES), _COUNTS),
    st.sampled_from(["prompt_tokens_details", "completion_tokens_details", "output_tokens_details"]),
)
def test_no_usage_that_a_service_reports_is_an_error(top: dict[str, Any], inner: dict[str, Any], name: str) -> None:
    read_usage({**top, name: inner})


def test_ends_04_refusal_text_is_shown_and_makes_the_stop_a_refusal() -> None:
    events, response = read(delta(refusal="I can't"), delta(refusal="."), delta(finish="stop"))
    assert [event.delta for event in events] == ["I can't", "."] and response.message.content == "I can't."
    assert response.stop is not None
    assert (response.stop.reason, response.stop.raw, response.stop.category, response.stop.message) == (
        StopReason.REFUSAL, "stop", "refusal", "I can't.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_OUTPUT),
        ("content_filter", StopReason.REFUSAL),
        ("error", StopReason.INTERRUPTED),
        ("made_up", StopReason.OTHER),
        (None, StopReason.END_TURN),
    ],
)
def test_the_finish_reason_becomes_the_stop(finish: str | None, reason: StopReason) -> None:
    response = read(delta("x"), delta(finish=finish))[1]
    assert response.finish_reason == finish and response.stop is not None and response.stop.reason is reason


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_stream_25_complete_calls_count_whatever_normal_reason_is_given(finish: str | None) -> None:
    response = read(calls(call("{}", id="a", name="f")), delta(finish=finish))[1]
    assert response.stop is not None and response.stop.reason is StopReason.TOOL_USE


def test_the_native_finish_reason_is_kept() -> None:
    chunk = {"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "eos"}]}
    response = read(chunk)[1]
    assert response.stop is not None and response.stop.detail == {"native_finish_reason": "eos"}


def test_stream_12_rule_12_what_a_service_attaches_to_a_call_is_kept_with_its_origin() -> None:
    extra = {"google": {"thought_signature": "QQ=="}}
    response = read(calls(call("{}", id="a", name="f")), calls({"id": "a", "extra_content": extra}))[1]
    assert response.message.replay_blocks == (
        {"type": "chat.extra_content", "endpoint": "http://here/v1", "call": 0, "extra_content": extra},
    )


_FRAGMENTS = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 3),
        "id": st.none() | st.sampled_from(["", "a", "b", "c"]),
        "function": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.none() | st.sampled_from(["", "f", "g", "ff"]),
                "arguments": st.none() | st.sampled_from(["", "{", "}", '{"x":1}', "null", "}}"]),
            },
        ),
    },
)


@given(st.lists(_FRAGMENTS, max_size=12))
def test_whatever_fragments_come_ids_are_distinct_and_deltas_add_up(fragments: list[dict[str, Any]]) -> None:
    events, response = read(*(calls(fragment) for fragment in fragments))
    ids = [item.id for item in response.message.tool_calls if item.id]
    assert len(ids) == len(set(ids))
    names = [""] * len(response.message.tool_calls)
    for event in events:
        assert event.tool_call_delta is not None
        names[event.tool_call_delta.index] += event.tool_call_delta.name_delta
    assert names == [item.name for item in response.message.tool_calls]
