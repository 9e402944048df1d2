"""``AskUserExtension``, through whole requests.

What its manual page says, and the tests that hold it:

- the tool is registered and its call waits for an answer; after it the usual life of a call goes on, TOOL_STARTED
  first: test_b05_a_question_waits_for_its_answer_before_the_call_starts
- the event that asks, by name, session and payload: test_the_event_that_asks_is_the_documented_one
- the answer, an ExternalEvent with ``tool_call_id`` for the session's config:
  test_the_documented_answer_reaches_the_model
- its payload is the application's: test_the_payload_of_an_answer_reaches_the_model_unchanged
- unrelated, malformed, stale and mis-addressed events are taken by nobody:
  test_hitl_12_hitl_20_an_answer_that_is_not_for_the_question_is_refused
- nor are duplicates: test_hitl_20_the_first_answer_wins
- nor are answers to what was cancelled or closed, whose route is gone:
  test_rule_4_a_late_answer_to_a_closed_stream_is_refused, test_a_late_answer_to_a_cancelled_consumer_is_refused
- RunCancelledEvent cancels the wait, on_error ends it with the error, both wake it:
  test_being_told_of_a_cancel_wakes_the_call, test_being_told_of_an_error_wakes_the_call_with_that_error
- the base class routes, synchronises and wakes the loop, from any thread:
  test_an_answer_from_another_thread_wakes_the_loop
- accept says True for what it took, leaves the rest to others, changes no argument:
  test_accept_leaves_what_is_not_its_own_to_others
- the tool finds the answer of its own context: test_one_extension_serves_two_sessions_with_the_same_call_id
- showing is not answering: test_hitl_26_a_question_without_an_answer_stays_open
- a client that forwards the event to a UI: test_the_client_shows_the_question_to_whoever_iterates
- the inherited hooks: test_hooks_of_a_waiting_extension.py
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from tests.engine.scenario import ANSWER, lines
from tests.extensions.questions import SESSION, answer, asking, held, note, reply, result_of, results, scene, settle
from zett_agent import AgentError, AgentExtension, AgentRunConfig, AgentRunContext, ExternalEvent
from zett_agent.agent import Agent
from zett_agent.client import create_agent
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.extensions.ask_user import AskUserEvent, AskUserExtension, AskUserRequest, AskUserResult
from zett_agent.extensions.events import RunCancelledEvent
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.messages import ImageContent, ImageUrlSource, TextContent, ToolCall
from zett_agent.testing import EXTENSION_CHECKS, EventRecorder, ScriptedModel, call, raw_call
from zett_agent.testing.extensions import ExtensionCheck

PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_keeps_what_every_extension_must_keep(check: ExtensionCheck) -> None:
    await check(AskUserExtension)


# --- the protocol ---------------------------------------------------------------------------------------------------


async def test_b05_a_question_waits_for_its_answer_before_the_call_starts() -> None:
    stage = await asking()
    request, recorder = await held(stage)
    await settle()
    assert recorder.types == lines("model_started\nmodel_completed\ncustom")
    assert stage.agent.state.phase is AgentPhase.READY
    assert answer(stage.agent, answer="a") == ["AskUserExtension"]
    await request
    assert recorder.types[2:5] == ["custom", "tool_started", "tool_completed"]
    stage.check_messages()
    stage.model.assert_done()


async def test_the_event_that_asks_is_the_documented_one() -> None:
    stage = await asking()
    request, recorder = await held(stage)
    (event,) = recorder.custom("ask_user")
    assert isinstance(event, AskUserEvent)
    assert event.type is AgentEventType.CUSTOM
    assert event.session_id == "s"
    assert dict(event.payload or {}) == {
        "session_id": "s",
        "tool_call_id": "q",
        "question": "Which?",
        "options": ["a", "b"],
        "allow_multiple": False,
        "response_event": "ask_user_response",
    }
    assert not event.tool_calls
    answer(stage.agent)
    await request


async def test_options_that_are_not_given_are_an_empty_list() -> None:
    stage = await asking([call("ask_user", id="q", question="Why?", allow_multiple=True)])
    outcome = await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="so")))
    (event,) = outcome.recorder.custom("ask_user")
    assert event.payload is not None
    assert (event.payload["options"], event.payload["allow_multiple"]) == ([], True)


async def test_the_documented_answer_reaches_the_model() -> None:
    stage = await asking()
    outcome = await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="a")))
    assert result_of(stage) == {"tool_call_id": "q", "answer": "a"}
    assert outcome.lines == [
        *lines("model_started\nmodel_completed\ncustom ask_user\ntool_started ask_user(q)\ntool_completed ask_user(q)"),
        *ANSWER,
        "run_completed",
    ]


async def test_the_payload_of_an_answer_reaches_the_model_unchanged() -> None:
    payload = {"answer": ["ä", 1, None], "by": {"user": "ann", "at": 1.5, "sure": False}, "parts": []}
    stage = await asking()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, **payload)))
    assert results(stage)["q"].text == json.dumps(
        {"name": "ask_user_response", "payload": {"tool_call_id": "q", **payload}},
        ensure_ascii=False,
        separators=(",", ":"),
    )


async def test_the_tool_has_the_documented_schema() -> None:
    stage = await asking()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent)))
    (definition,) = stage.model.requests[0].tools
    properties = definition.parameters["properties"]
    assert (definition.name, definition.parameters["required"]) == ("ask_user", ["question"])
    assert list(properties) == ["question", "options", "allow_multiple"]
    assert (properties["question"]["minLength"], properties["question"]["maxLength"]) == (1, 4000)
    wanted, nothing = properties["options"]["anyOf"]
    assert (wanted["maxItems"], wanted["items"]["minLength"], wanted["items"]["maxLength"]) == (20, 1, 500)
    assert (nothing["type"], properties["allow_multiple"]["default"]) == ("null", False)


def test_the_event_the_request_and_the_result_are_public() -> None:
    request = AskUserRequest(question="Which?")
    event = AskUserEvent("s", ToolCall("q", "ask_user"), request)
    assert (event.name, event.phase) == ("ask_user", None)
    assert AskUserResult(name="n", payload={"a": 1}).model_dump() == {"name": "n", "payload": {"a": 1}}


# --- what is asked, and what is not ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": ""},
        {"question": "x" * 4001},
        {"question": "?", "options": ["a"] * 21},
        {"question": "?", "x": 1},
    ],
)
async def test_hitl_26_invalid_arguments_fail_without_a_question(arguments: dict[str, Any]) -> None:
    stage = await asking([ToolCall("q", "ask_user", arguments)])
    outcome = await stage.play()
    assert outcome.recorder.custom("ask_user") == []
    assert outcome.only("tool_") == ["tool_started ask_user(q)", "tool_failed ask_user(q)"]
    assert not results(stage)["q"].success


async def test_arguments_that_are_not_json_fail_without_a_question() -> None:
    stage = await asking([raw_call("ask_user", '{"question":', id="q")])
    outcome = await stage.play()
    assert outcome.only("custom", "tool_failed") == ["tool_failed ask_user(q)"]


class Meddler(AgentExtension):
    """Spoils the arguments of a question after they were checked and before it is asked."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        call.arguments["question"] = ""


async def test_arguments_that_another_hook_spoils_fail_without_a_question() -> None:
    stage = await scene(
        [call("ask_user", id="q", question="Which?")], "done", extensions=[AskUserExtension(), Meddler()]
    )
    outcome = await stage.play()
    assert outcome.only("custom", "tool_failed") == ["tool_failed ask_user(q)"]
    assert "question" in results(stage)["q"].text


class Refuser(AgentExtension):
    """Refuses every call."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        call.error = "not here"


async def test_what_another_extension_refuses_is_not_asked() -> None:
    stage = await scene(
        [call("ask_user", id="q", question="Which?")], "done", extensions=[AskUserExtension(), Refuser()]
    )
    outcome = await stage.play()
    assert outcome.only("custom", "tool_failed") == ["tool_failed ask_user(q)"]
    assert results(stage)["q"].text == "not here"


async def test_hitl_26_a_question_without_an_answer_stays_open() -> None:
    stage = await asking()
    request, recorder = await held(stage)
    await settle()
    assert not request.done()
    (wait,) = stage.agent.pending_waits()
    assert (wait.id, wait.tool, wait.event_name, wait.extension) == ("q", "ask_user", "ask_user", "AskUserExtension")
    assert wait.question == dict(recorder.custom("ask_user")[0].payload or {})
    answer(stage.agent)
    await request
    assert stage.agent.pending_waits() == ()


async def test_hitl_26_a_stopped_question_has_a_failed_result_that_says_so() -> None:
    stage = await asking()
    request, recorder = await held(stage)
    stage.agent.stop()
    await request
    assert recorder.types[-1] == "run_cancelled"
    (result,) = [message for message in stage.agent.state.messages if message.role == "tool"]
    assert "stopped" in result.content and not getattr(result, "success", True)


# --- several questions ----------------------------------------------------------------------------------------------


async def test_b05_hitl_02_questions_of_one_response_are_open_at_once_and_answered_in_any_order() -> None:
    stage = await asking([call("ask_user", id=f"q{n}", question=f"colour {n}") for n in (1, 2, 3)])
    request, recorder = await held(stage, count=3)
    assert [wait.id for wait in stage.agent.pending_waits()] == ["q1", "q2", "q3"]
    for n in (3, 1, 2):
        assert answer(stage.agent, f"q{n}", answer=n) == ["AskUserExtension"]
        await settle()
    await request
    assert [event.tool_calls[0].id for event in recorder.of("tool_completed")] == ["q3", "q1", "q2"]
    assert [result_of(stage, f"q{n}")["answer"] for n in (1, 2, 3)] == [1, 2, 3]
    stage.check_messages()


async def test_hitl_02_a_payload_that_is_used_again_changes_no_earlier_answer() -> None:
    stage = await asking([call("ask_user", id=f"q{n}", question=f"colour {n}") for n in (1, 2)])
    request, _ = await held(stage, count=2)
    payload: dict[str, Any] = {"answer": {}}
    for n in (1, 2):
        payload["tool_call_id"] = f"q{n}"
        payload["answer"]["n"] = n
        assert stage.agent.emit_external_event(ExternalEvent("ask_user_response", payload), config=SESSION)
    await request
    assert [result_of(stage, f"q{n}")["answer"] for n in (1, 2)] == [{"n": 1}, {"n": 2}]


async def test_rule_3_b05_core_28_a_question_holds_back_no_sibling() -> None:
    stage = await scene(
        [
            call("note", id="n", text="x"),
            call("ask_user", id="q", question="Which?"),
            call("ask_user", id="r", question="?"),
        ],
        "done",
        tools=[note],
        extensions=[AskUserExtension()],
    )
    request, recorder = await held(stage, count=2)
    await settle()
    assert [event.tool_calls[0].id for event in recorder.of("tool_completed")] == ["n"]
    answer(stage.agent, "q")
    await settle()
    assert [event.tool_calls[0].id for event in recorder.of("tool_completed")] == ["n", "q"]
    answer(stage.agent, "r")
    await request
    assert list(results(stage)) == ["n", "q", "r"]


async def test_one_extension_serves_two_sessions_with_the_same_call_id() -> None:
    model = ScriptedModel(*[[call("ask_user", id="q", question="Which?")]] * 2, "done", "done")
    agent = await Agent.create(model, config=SESSION, extensions=[AskUserExtension()])
    red, blue = (AgentRunConfig(session_id=name) for name in ("red", "blue"))

    async def play(config: AgentRunConfig) -> EventRecorder:
        recorder = EventRecorder().when("custom", lambda _: barrier.wait())
        return await recorder.record(agent.stream("hi", config=config))

    barrier = asyncio.Barrier(3)
    both = asyncio.gather(play(red), play(blue))
    await barrier.wait()
    assert answer(agent, config=blue, answer="blue") and answer(agent, config=red, answer="red")
    for config, recorder in zip((red, blue), await both, strict=True):
        (result,) = recorder.of("tool_completed")
        assert result.message is not None
        assert json.loads(str(result.message.content))["payload"]["answer"] == config.session_id


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "config"),
    [
        (ExternalEvent("another_name", {"tool_call_id": "q"}), SESSION),
        (ExternalEvent("ask_user_response", {}), SESSION),
        (ExternalEvent("ask_user_response", {"tool_call_id": 7}), SESSION),
        (ExternalEvent("ask_user_response", {"tool_call_id": "other"}), SESSION),
        (ExternalEvent("ask_user_response", {"tool_call_id": "q"}), AgentRunConfig(session_id="other")),
        (ExternalEvent("ask_user_response", {"tool_call_id": "q"}), AgentRunConfig("s", request_id="other")),
    ],
    ids=["name", "no id", "no text", "other call", "other session", "other request"],
)
async def test_hitl_12_hitl_20_an_answer_that_is_not_for_the_question_is_refused(
    event: ExternalEvent, config: AgentRunConfig
) -> None:
    stage = await asking()
    request, _ = await held(stage)
    assert stage.agent.emit_external_event(event, config=config) == []
    await settle()
    assert not request.done()
    assert answer(stage.agent, answer="b") == ["AskUserExtension"]
    await request
    assert result_of(stage)["answer"] == "b"


async def test_an_answer_may_name_the_request() -> None:
    stage = await asking()
    request, _ = await held(stage)
    (wait,) = stage.agent.pending_waits()
    assert answer(stage.agent, config=AgentRunConfig("s", request_id=wait.request_id)) == ["AskUserExtension"]
    await request


async def test_hitl_20_the_first_answer_wins() -> None:
    stage = await asking()
    request, _ = await held(stage)
    assert answer(stage.agent, answer="a") == ["AskUserExtension"]
    assert answer(stage.agent, answer="b") == answer(stage.agent, answer="a") == []
    recorder = await request
    assert answer(stage.agent, answer="b") == []
    assert result_of(stage)["answer"] == "a"
    assert len(recorder.of("tool_started")) == 1


async def test_hitl_20_of_many_threads_one_wins() -> None:
    stage = await asking()
    request, _ = await held(stage)
    together, taken = threading.Barrier(8), list[int]()

    def race(n: int) -> None:
        together.wait()
        taken.extend(n for _ in answer(stage.agent, answer=n))

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    await request
    for thread in threads:
        thread.join()
    assert [result_of(stage)["answer"]] == taken


async def test_an_answer_from_another_thread_wakes_the_loop() -> None:
    stage = await asking()
    request, _ = await held(stage)
    assert await asyncio.to_thread(answer, stage.agent, answer="a") == ["AskUserExtension"]
    await request


async def test_hitl_12_queued_steering_is_no_answer() -> None:
    stage = await asking()
    request, _ = await held(stage)
    assert stage.steer("yes, a") == ["SteeringExtension"]
    await settle()
    assert [wait.id for wait in stage.agent.pending_waits()] == ["q"]
    answer(stage.agent, answer="b")
    await request
    assert result_of(stage)["answer"] == "b"
    assert stage.model.requests[-1].messages[-1].content == "yes, a"


async def test_accept_leaves_what_is_not_its_own_to_others() -> None:
    class Other(ExternalEventExtension):
        def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
            return True

    ask = AskUserExtension()
    stage = await scene(
        [call("ask_user", id="q", question="Which?")],
        "done",
        extensions=[ask, Other(response_event_name="x", correlation_field="y")],
    )
    request, _ = await held(stage)
    payload = {"tool_call_id": "q", "answer": {"deep": [1]}}
    event = ExternalEvent("ask_user_response", payload)
    assert ask.accept(None, event) is False
    assert stage.agent.emit_external_event(event, config=SESSION) == ["Other", "AskUserExtension"]
    assert stage.agent.emit_external_event(event, config=SESSION) == ["Other"]
    assert payload == {"tool_call_id": "q", "answer": {"deep": [1]}}
    await request


# --- ends without an answer -----------------------------------------------------------------------------------------


async def test_rule_4_a_late_answer_to_a_closed_stream_is_refused() -> None:
    stage = await asking()
    await EventRecorder().record(stage.agent.stream("hi"), until="custom")
    assert stage.agent.pending_waits() == ()
    assert answer(stage.agent) == []
    stage.check_messages()


async def test_a_late_answer_to_a_cancelled_consumer_is_refused() -> None:
    stage = await asking()
    request, _ = await held(stage)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert answer(stage.agent) == []
    assert stage.agent.state.phase is AgentPhase.CANCELLED


class Catcher(AskUserExtension):
    """Keeps the context of the request, and what its wait ended with."""

    context: AgentRunContext
    ended_by: BaseException | None = None

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        self.context = context
        try:
            await super().before_tool(context, call)
        except BaseException as error:
            self.ended_by = error
            raise


async def test_being_told_of_a_cancel_wakes_the_call() -> None:
    ask = Catcher()
    stage = await scene([call("ask_user", id="q", question="Which?")], extensions=[ask])
    request, _ = await held(stage)
    now = RunCancelledEvent(AgentPhase.READY, stage.agent.pending_waits()[0].created_at, 0)
    await ask.on_event(ask.context, now)
    with pytest.raises(AgentError):
        await request
    assert isinstance(ask.ended_by, asyncio.CancelledError)
    assert answer(stage.agent) == []


async def test_being_told_of_an_error_wakes_the_call_with_that_error() -> None:
    ask, error = Catcher(), RuntimeError("lost")
    stage = await scene([call("ask_user", id="q", question="Which?")], extensions=[ask])
    request, _ = await held(stage)
    await ask.on_error(ask.context, error)
    with pytest.raises(RuntimeError, match="lost"):
        await request
    assert ask.ended_by is error


async def test_a_failing_sibling_ends_the_wait_of_a_question() -> None:
    class Fails(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            if call.name == "note":
                await shown.wait()
                raise RuntimeError("broken gate")

    shown = asyncio.Event()
    stage = await scene(
        [call("ask_user", id="q", question="Which?"), call("note", id="n", text="x")],
        tools=[note],
        extensions=[AskUserExtension(), Fails()],
    )
    outcome = await stage.play(recorder=EventRecorder().when("custom", lambda _: shown.set()))
    assert isinstance(outcome.error, RuntimeError)
    assert answer(stage.agent) == []


# --- a time limit ---------------------------------------------------------------------------------------------------


async def test_hitl_10_after_the_timeout_the_default_is_the_answer_and_says_so() -> None:
    stage = await asking(timeout=0.005, default="b")
    await stage.play()
    assert result_of(stage) == {
        "tool_call_id": "q",
        "answer": "b",
        "is_default": True,
        "note": "Nobody answered within 0.005 seconds; this is the default answer.",
    }
    assert answer(stage.agent) == []


async def test_hitl_10_without_a_default_the_call_fails_and_the_request_goes_on() -> None:
    stage = await asking(timeout=0.005)
    outcome = await stage.play()
    assert outcome.only("tool_failed", "run_") == ["tool_failed ask_user(q)", "run_completed"]
    assert results(stage)["q"].text == "Nobody answered within 0.005 seconds, and no default answer fits."


async def test_hitl_10_a_default_that_strict_options_would_refuse_is_none() -> None:
    stage = await asking(timeout=0.005, default="c", strict_options=True)
    await stage.play()
    assert not results(stage)["q"].success


async def test_hitl_10_an_answer_in_time_is_no_default() -> None:
    stage = await asking(timeout=60, default="b")
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="a")))
    assert result_of(stage) == {"tool_call_id": "q", "answer": "a"}


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), True, "5"])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        AskUserExtension(timeout=timeout)


def test_a_default_needs_a_timeout_and_must_be_json() -> None:
    with pytest.raises(ValueError, match="timeout"):
        AskUserExtension(default="a")
    with pytest.raises(ValueError, match="default"):
        AskUserExtension(timeout=1, default={1, 2})  # type: ignore[arg-type]


# --- strict options -------------------------------------------------------------------------------------------------


async def test_hitl_17_strict_options_refuse_what_is_not_offered_and_the_question_stays_open() -> None:
    stage = await asking(strict_options=True)
    request, _ = await held(stage)
    with_parts = {"answer": "a", "parts": [{"type": "text", "text": "z"}]}
    refused: list[dict[str, Any]] = [{"answer": "z"}, {"answer": ["a"]}, {}, with_parts]
    for wrong in refused:
        assert answer(stage.agent, **wrong) == []
    assert [wait.id for wait in stage.agent.pending_waits()] == ["q"]
    assert answer(stage.agent, answer="b") == ["AskUserExtension"]
    await request
    assert result_of(stage)["answer"] == "b"


async def test_strict_options_take_several_where_the_question_does() -> None:
    stage = await asking(
        [call("ask_user", id="q", question="Which?", options=["a", "b"], allow_multiple=True)], strict_options=True
    )
    request, _ = await held(stage)
    for wrong in ([], ["a", "z"], "z"):
        assert answer(stage.agent, answer=wrong) == []
    assert answer(stage.agent, answer=["b", "a"]) == ["AskUserExtension"]
    await request


async def test_strict_options_take_any_answer_to_a_free_question() -> None:
    stage = await asking([call("ask_user", id="q", question="Why?")], strict_options=True)
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="because")))
    assert result_of(stage)["answer"] == "because"


async def test_hitl_17_without_strict_options_any_answer_reaches_the_model() -> None:
    stage = await asking()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="neither")))
    assert result_of(stage)["answer"] == "neither"


# --- parts ----------------------------------------------------------------------------------------------------------


async def _with_parts(*parts: Any) -> Any:
    stage = await asking()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, parts=list(parts))))
    return results(stage)["q"]


def _image(url: str = PIXEL, **fields: Any) -> dict[str, Any]:
    return {"type": "image", "name": "sketch", "content_url": url, **fields}


async def test_parts_reach_the_model_as_text_and_images() -> None:
    result = await _with_parts(
        {"type": "text", "text": "Like this:"},
        {"type": "text", "text": ""},
        _image(mime_type="image/png"),
    )
    assert result.success
    assert result.content == [
        TextContent("Like this:"),
        ImageContent(ImageUrlSource(PIXEL), alt_text="sketch"),
    ]


async def test_white_space_around_and_within_a_data_url_is_ignored() -> None:
    result = await _with_parts(_image(f" {PIXEL[:30]}\n{PIXEL[30:]} "))
    assert result.content == [ImageContent(ImageUrlSource(PIXEL), alt_text="sketch")]


async def test_parts_without_any_content_leave_the_payload_as_it_is() -> None:
    result = await _with_parts({"type": "text", "text": ""})
    assert json.loads(result.text)["payload"]["parts"] == [{"type": "text", "text": ""}]


async def test_parts_that_are_no_list_are_the_applications_own() -> None:
    stage = await asking()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, parts="wheels")))
    assert result_of(stage)["parts"] == "wheels"


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"type": "text"}, "parts.0.text.text: Field required"),
        ({"type": "video"}, "parts.0"),
        ({"type": "text", "text": "x", "bold": True}, "Extra inputs are not permitted"),
        (_image(name=""), "parts.0.image.name"),
        (_image(name="x" * 501), "parts.0.image.name"),
        (_image(mime_type="x" * 256), "parts.0.image.mime_type"),
        (_image("https://example.org/a.png"), "'sketch' is not given as a data:image"),
        (_image("data:text/plain;base64,aGk="), "'sketch' is not given as a data:image"),
        (_image("data:image/png,abc"), "'sketch' is not given as a data:image"),
        (_image("data:image/png;base64,!!!"), "'sketch' is not valid base64"),
        (_image("data:image/png;base64,"), "'sketch' is empty"),
    ],
)
async def test_parts_that_cannot_be_used_fail_the_call(part: dict[str, Any], says: str) -> None:
    result = await _with_parts(part)
    assert not result.success
    assert says in result.text


async def test_parts_are_bounded_in_number() -> None:
    assert (await _with_parts(*[{"type": "text", "text": "x"}] * 513)).success
    assert "at most 513" in (await _with_parts(*[{"type": "text", "text": "x"}] * 514)).text
    assert (await _with_parts(*[_image()] * 32)).success
    assert "33 images; at most 32" in (await _with_parts(*[_image()] * 33)).text


async def test_images_are_bounded_in_size() -> None:
    half = "data:image/png;base64," + "AAAA" * (5_000_000 // 3) + "AAA="  # 5,000,000 bytes
    assert (await _with_parts(_image(half), _image(half))).success
    assert "10000008 bytes; at most 10000000" in (await _with_parts(_image(half), _image(half), _image())).text


async def test_a_long_list_of_faults_is_cut() -> None:
    result = await _with_parts(*[{"type": "text"}] * 7)
    assert result.text.endswith("- and 2 more")


# --- the example of the page ----------------------------------------------------------------------------------------


async def test_the_client_shows_the_question_to_whoever_iterates() -> None:
    ask_user = AskUserExtension()
    model = ScriptedModel([call("ask_user", id="call-7", question="Which format?", options=["A", "B"])], "done")
    client = await create_agent(model, extensions=[ask_user])
    shown: list[AgentEvent] = []
    async for event in client.stream("Help me choose a format"):
        if event.name == "ask_user" and event.payload is not None:
            shown.append(event)
            payload = {"tool_call_id": event.payload["tool_call_id"], "answer": "A"}
            config = AgentRunConfig(session_id=event.payload["session_id"])
            assert client.emit_external_event(ExternalEvent("ask_user_response", payload), config=config)
    assert [event.payload["question"] for event in shown if event.payload] == ["Which format?"]
