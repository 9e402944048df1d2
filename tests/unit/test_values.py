"""The small values of floor 0: ids, JSON, configs, waits, stops, events, errors."""

from __future__ import annotations

import dataclasses
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zett_agent import event_queue, exceptions, resume
from zett_agent._runtime.channel import Channel
from zett_agent._runtime.resumption import classify_resume
from zett_agent.config import AgentRunConfig, checked_config
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.ids import new_uuid7
from zett_agent.json_types import copy_json, is_flat_json, json_object, utf8_text
from zett_agent.stop import StopInfo, StopReason, classify_stop
from zett_agent.waits import ExternalEvent, Wait


def test_ids_are_uuids_of_version_7_in_the_order_they_were_made() -> None:
    made = [new_uuid7() for _ in range(5_000)]
    assert sorted(made) == made and len(set(made)) == len(made)
    assert all(len(text) == 36 and text[14] == "7" and text[19] in "89ab" for text in made)
    stamp = int(made[0].replace("-", "")[:12], 16) / 1000
    assert abs(stamp - datetime.now(UTC).timestamp()) < 60


def test_ids_of_several_threads_differ() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(new_uuid7() for _ in range(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 4_000


def test_json_objects_are_copied_and_nothing_is_coerced() -> None:
    given = {"a": [1, {"b": None}], "c": 1.5, "d": True, "e": "x"}
    copied = json_object(given, field_name="metadata")
    assert copied == given and copied is not given
    assert json_object(None, field_name="metadata") == {}


@pytest.mark.parametrize(
    "bad",
    [
        {1: "x"},
        {"a": (1,)},
        {"a": {1}},
        {"a": b"x"},
        {"a": datetime.now(UTC)},
        {"a": float("nan")},
        {"a": [float("inf")]},
        {"a": {"b": {2: 3}}},
        [("a", 1)],
    ],
)
def test_what_is_not_strict_json_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(ValueError, match="metadata"):
        json_object(bad, field_name="metadata")


def test_blank_keys_are_refused_where_keys_matter() -> None:
    assert json_object({" ": 1}, field_name="metadata") == {" ": 1}
    with pytest.raises(ValueError, match="tags must not have a blank key"):
        json_object({" ": 1}, field_name="tags", nonempty_keys=True)


def test_json_values_are_copied_deeply() -> None:
    given: Any = {"a": [1, {"b": 2}]}
    copied = copy_json(given)
    given["a"][1]["b"] = 3
    assert copy_json("text") == "text"
    assert copied == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("value", "flat"),
    [
        ({}, True),
        ({"a": "x", "b": 1, "c": -2.5, "d": None, "e": True}, True),
        ({"a": 10**18}, False),
        ({"a": float("nan")}, False),
        ({"a": float("-inf")}, False),
        ({"a": [1]}, False),
        ({"a": StopReason.OTHER}, False),
        ({1: 1}, False),
    ],
)
def test_an_object_of_usual_atoms_is_known_at_a_glance(value: Any, flat: bool) -> None:
    assert is_flat_json(value) is flat


@given(st.text(st.sampled_from('a\u00e9\ud800\udbff\udc00\udfff\U0001f600"\\\n')))
def test_core_32_text_is_made_encodable_as_a_codec_would(text: str) -> None:
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert utf8_text(text) == expected


def test_core_30_every_id_of_a_config_is_stripped_and_a_blank_one_is_none() -> None:
    config = AgentRunConfig(" s ", "\tr", " p ", "  ")
    assert config == AgentRunConfig("s", "r", "p", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.session_id = "x"  # type: ignore[misc]


def test_a_config_is_told_from_the_id_of_a_session() -> None:
    config = AgentRunConfig("s")
    assert checked_config(None) is None and checked_config(config) is config
    with pytest.raises(TypeError, match=r"^config must be an AgentRunConfig, not str$"):
        checked_config("s")  # type: ignore[arg-type]


def test_a_config_refuses_what_is_no_id() -> None:
    with pytest.raises(ValueError, match="session_id must be a string or None, not int"):
        AgentRunConfig(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must differ"):
        AgentRunConfig("s", parent_session_id="s ")


@pytest.mark.parametrize(
    ("name", "payload", "error"), [(" ", {}, ValueError), ("x", [], TypeError), ("x", {1: 2}, TypeError)]
)
def test_an_external_event_needs_a_name_and_a_payload(name: str, payload: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ExternalEvent(name, payload)


def test_a_wait_has_sensible_defaults() -> None:
    wait = Wait("id", "s", "r", "Ext", frozenset({"answer"}), "tool_call_id", datetime.now(UTC))
    assert wait.arguments == {} and wait.question is None and wait.expires_at is None


@pytest.mark.parametrize(
    ("raw", "calls", "reason"),
    [
        (None, False, "end_turn"),
        (None, True, "tool_use"),
        ("stop", True, "tool_use"),
        ("end_turn", False, "end_turn"),
        (" STOP_SEQUENCE ", False, "end_turn"),
        ("tool_calls", False, "tool_use"),
        ("length", True, "max_output"),
        ("MAX_TOKENS", False, "max_output"),
        ("model_length", False, "context_full"),
        ("SAFETY", False, "refusal"),
        ("pause_turn", False, "paused"),
        ("network_error", False, "interrupted"),
        ("something new", False, "other"),
        ("", False, "other"),
    ],
)
def test_stops_are_classified_by_the_providers_word(raw: str | None, calls: bool, reason: str) -> None:
    stop = classify_stop(raw, has_tool_calls=calls)
    assert stop.reason == reason and stop.raw == raw
    assert stop.ok is (reason in ("end_turn", "tool_use"))
    assert stop.refused is (reason == "refusal")
    assert stop.truncated is (reason in ("max_output", "context_full"))


def test_the_category_of_a_refusal_defaults_to_the_providers_word() -> None:
    assert classify_stop("SAFETY").category == "SAFETY"
    assert classify_stop("SAFETY", category="violence", message="no", recommended_model="m").category == "violence"
    assert classify_stop("length").category is None


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (StopInfo(StopReason.END_TURN), "end_turn"),
        (StopInfo(StopReason.REFUSAL, "refusal"), "refusal"),
        (StopInfo(StopReason.REFUSAL, "safety"), "refusal (safety)"),
        (StopInfo(StopReason.REFUSAL, "safety", "violence", "no"), "refusal (violence): no"),
    ],
)
def test_a_stop_describes_itself_in_one_line(stop: StopInfo, text: str) -> None:
    assert stop.describe() == text


def test_a_custom_event_needs_a_name() -> None:
    for name in (None, "", "  "):
        with pytest.raises(ValueError, match="non-blank name"):
            AgentEvent(AgentEventType.CUSTOM, "s", name=name)
    assert AgentEvent(AgentEventType.CUSTOM, "s", name="x").payload is None


def test_a_phase_says_whether_a_request_may_begin() -> None:
    free = {phase for phase in AgentPhase if phase.accepts_new_request}
    assert free == {AgentPhase.CREATED, AgentPhase.COMPLETED, AgentPhase.FAILED, AgentPhase.CANCELLED}


def test_errors_carry_what_happened() -> None:
    http = exceptions.ProviderHTTPError("m", status_code=500, reason="r", preview="p", is_html=True)
    assert (http.status_code, http.reason, http.preview, http.is_html, str(http)) == (500, "r", "p", True, "m")
    timeout = exceptions.ProviderTimeoutError("m", phase="idle", seconds=3)
    assert (timeout.phase, timeout.seconds) == ("idle", 3)
    refusal = exceptions.ProviderRefusalError(StopInfo(StopReason.REFUSAL))
    assert refusal.stop.refused and str(refusal) == "the provider refused: refusal"
    assert isinstance(exceptions.ToolArgumentsError("x"), ValueError)
    assert isinstance(exceptions.ToolTimeoutError("x"), TimeoutError)


def test_the_paths_of_the_interface_lead_to_the_parts() -> None:
    assert event_queue.AgentEventQueue is Channel
    assert resume.classify_resume is classify_resume
