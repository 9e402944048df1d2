"""``PermissionExtension``: policies, and what a person can decide."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.engine.scenario import Scene
from tests.extensions.questions import decide, held, note, reply, results, scene, settle
from zett_agent import AgentExtension, AgentRunConfig, AgentRunContext, ExternalEvent, ImageContent, TextContent
from zett_agent.exceptions import ToolRejectedError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.permission import (
    PermissionAnswer,
    PermissionDecision,
    PermissionExtension,
    PermissionRequest,
    PermissionRequestEvent,
    PermissionRule,
)
from zett_agent.messages import ImageUrlSource, ToolCall
from zett_agent.testing import EXTENSION_CHECKS, EventRecorder, call
from zett_agent.testing.extensions import ExtensionCheck
from zett_agent.tools.base import tool

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def refund(amount: int, note: str = "none") -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


@tool
async def picture(name: str) -> list[TextContent | ImageContent]:
    """Draw something."""
    return [TextContent(name), ImageContent(ImageUrlSource("data:image/png;base64,aGk="))]


@tool
async def breaks(amount: int) -> str:
    """Fail."""
    raise RuntimeError(f"no {amount}")


async def gated(policy: Any = (), *calls: Any, **options: Any) -> Scene:
    """A scene with one gate, whose model calls ``refund(5)`` unless told otherwise."""
    return await scene(
        list(calls) or [call("refund", id="r", amount=5)],
        "done",
        tools=[refund, note, picture, breaks],
        extensions=[PermissionExtension(policy, **options)],
    )


def text(stage: Scene, call_id: str = "r") -> str:
    return results(stage)[call_id].text


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
@pytest.mark.parametrize("policy", ["allow", "deny"])
async def test_it_keeps_what_every_extension_must_keep(check: ExtensionCheck, policy: str) -> None:
    await check(lambda: PermissionExtension(default=policy))


# --- policies -------------------------------------------------------------------------------------------------------


async def test_hitl_18_what_the_policy_allows_runs_without_a_question() -> None:
    stage = await gated(lambda request: PermissionDecision.ALLOW)
    outcome = await stage.play()
    assert outcome.only("custom", "tool_") == ["tool_started refund(r)", "tool_completed refund(r)"]
    assert ran == [5]


async def test_hitl_18_what_the_policy_denies_never_runs_and_the_model_is_told_why() -> None:
    stage = await gated(lambda request: ("deny", "not today"))
    outcome = await stage.play()
    assert outcome.only("custom", "tool_") == ["tool_started refund(r)", "tool_failed refund(r)"]
    assert isinstance(outcome.recorder.of("tool_failed")[0].error, ToolRejectedError)
    assert text(stage) == "Refused by the permission policy: not today"
    assert ran == []


async def test_a_policy_may_be_async_and_sees_the_whole_call() -> None:
    seen: list[PermissionRequest] = []

    async def policy(request: PermissionRequest) -> str:
        seen.append(request)
        await asyncio.sleep(0)
        return "allow"

    stage = await gated(policy)
    await stage.play()
    (request,) = seen
    assert (request.tool, request.session_id, request.tool_call_id, request.path) == ("refund", "s", "r", ())
    assert request.request_id
    assert request.sent == {"amount": 5}
    assert request.arguments == {"amount": 5, "note": "none"}
    assert request.definition is refund.definition
    assert request.reason is None


async def test_args_02_a_policy_judges_what_the_tool_gets_not_how_the_model_wrote_it() -> None:
    rules = [PermissionRule("refund", "deny", when=lambda arguments: arguments["amount"] == 500)]
    stage = await gated(rules, call("refund", id="r", amount="500"), default="allow")
    await stage.play()
    assert ran == []


async def test_a_policy_cannot_change_what_runs() -> None:
    def policy(request: PermissionRequest) -> str:
        assert isinstance(request.arguments, dict) and isinstance(request.sent, dict)
        request.arguments["amount"] = request.sent["amount"] = 9
        return "allow"

    stage = await gated(policy)
    await stage.play()
    assert ran == [5]


class Point(BaseModel):
    x: int


async def test_a_policy_sees_models_and_bytes_as_json() -> None:
    seen: list[Any] = []

    def policy(request: PermissionRequest) -> str:
        seen.append(request.arguments)
        return "allow"

    @tool
    async def draw(at: Point, ink: bytes = b"\xff") -> str:
        """Draw."""
        return "drawn"

    gate = PermissionExtension(policy)
    stage = await scene([call("draw", id="d", at={"x": 1})], "done", tools=[draw], extensions=[gate])
    await stage.play()
    assert seen == [{"at": {"x": 1}, "ink": "_w=="}]
    assert results(stage)["d"].success


async def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        PermissionRule("refund", "allow", when=lambda arguments: arguments["amount"] <= 100),
        PermissionRule("refund", "deny", "too much", when=lambda arguments: arguments["amount"] > 1000),
        PermissionRule("note*", "allow"),
        PermissionRule("*", "deny", "unknown"),
    ]
    stage = await gated(
        rules,
        *(call("refund", id=f"r{amount}", amount=amount) for amount in (100, 500, 5000)),
        call("note", id="n", text="x"),
    )
    await stage.play()
    assert sorted(ran) == [100]
    assert [text(stage, key) for key in ("r500", "r5000", "n")] == [
        "Refused by the permission policy: unknown",
        "Refused by the permission policy: too much",
        "noted x",
    ]


@pytest.mark.parametrize("policy", [(), lambda request: None], ids=["rules", "callable"])
async def test_the_default_is_for_what_the_policy_says_nothing_of(policy: Any) -> None:
    stage = await gated(policy, default="deny")
    await stage.play()
    assert text(stage) == "Refused by the permission policy."
    assert (await (await gated(policy, default="allow")).play()).only("tool_completed")


def _raises(request: PermissionRequest) -> str:
    raise KeyError("secret")


@pytest.mark.parametrize(
    "policy",
    [
        _raises,
        lambda request: "maybe",
        lambda request: True,
        lambda request: ("allow", 7),
        lambda request: ("allow", "a", "b"),
        [PermissionRule("*", "allow", when=lambda arguments: arguments["missing"])],
    ],
)
async def test_hitl_18_a_policy_that_fails_denies(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    stage = await gated(policy, default="allow")
    outcome = await stage.play()
    assert outcome.only("tool_failed", "run_") == ["tool_failed refund(r)", "run_completed"]
    assert text(stage).startswith("Refused by the permission policy: the permission policy failed with ")
    assert "secret" not in text(stage)
    assert "the permission policy failed on a call of refund" in caplog.text
    assert ran == []


async def test_invalid_calls_are_not_judged() -> None:
    stage = await gated(_raises, call("refund", id="r", amount="x"), call("nothing", id="n"))
    await stage.play()
    assert "amount" in text(stage) and "no tool named" in text(stage, "n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tool": "", "decision": "allow"}, ValueError),
        ({"tool": " ", "decision": "allow"}, ValueError),
        ({"tool": 7, "decision": "allow"}, ValueError),
        ({"tool": "a", "decision": "perhaps"}, ValueError),
    ],
)
def test_a_rule_that_says_nothing_is_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        PermissionRule(**arguments)


@pytest.mark.parametrize("options", [{"default": "perhaps"}, {"timeout": 0}])
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError):
        PermissionExtension(**options)


def test_a_policy_is_a_callable_or_rules() -> None:
    with pytest.raises(TypeError, match="not of str"):
        PermissionExtension(["refund"])  # type: ignore[list-item]


# --- what a person decides ------------------------------------------------------------------------------------------


async def test_hitl_18_an_ask_holds_the_call_before_it_starts_whatever_the_user_told_the_model() -> None:
    rules = [PermissionRule("refund", "ask", "above 100", when=lambda arguments: arguments["amount"] > 100)]
    stage = await gated(rules, call("refund", id="r", amount=500), default="allow")
    request, recorder = await held(stage, "permission_request")
    await settle()
    assert recorder.types == ["model_started", "model_completed", "custom"]
    (event,) = recorder.custom("permission_request")
    assert isinstance(event, PermissionRequestEvent)
    assert dict(event.payload or {}) == {
        "session_id": "s",
        "tool_call_id": "r",
        "tool": "refund",
        "arguments": {"amount": 500},
        "path": [],
        "reason": "above 100",
        "response_event": "permission_response",
    }
    assert ran == []
    assert decide(stage.agent, "r") == ["PermissionExtension"]
    await request
    assert ran == [500]
    assert text(stage) == "refunded 500"


async def test_hitl_21_hitl_22_each_kind_of_decision() -> None:
    stage = await gated((), *(call("refund", id=f"r{n}", amount=n) for n in range(1, 6)))
    request, _ = await held(stage, "permission_request", count=5)
    agent = stage.agent
    assert decide(agent, "r1")
    assert decide(agent, "r2", "reject", message="too costly")
    assert decide(agent, "r3", arguments={"amount": "x"})
    assert decide(agent, "r4", arguments={"amount": 40})
    await settle()
    assert not request.done()  # an undecided call stays pending
    assert [wait.id for wait in agent.pending_waits()] == ["r5"]
    assert decide(agent, "r5", "respond", result="did it by hand")
    await request
    assert list(results(stage)) == ["r1", "r2", "r3", "r4", "r5"]
    assert ran == [1, 40]
    assert text(stage, "r1") == "refunded 1"
    assert (text(stage, "r2"), results(stage)["r2"].success) == ("Rejected: too costly", False)
    assert "amount" in text(stage, "r3") and not results(stage)["r3"].success
    assert text(stage, "r4") == '[A person changed the arguments of this call to {"amount": 40}]\nrefunded 40'
    assert (text(stage, "r5"), results(stage)["r5"].success) == ("did it by hand", True)
    stage.check_messages()


async def test_core_11_the_history_keeps_what_the_model_said_and_the_result_tells_of_the_edit() -> None:
    stage = await gated()
    recorder = EventRecorder().when("custom", reply(stage.agent, decision="approve", arguments={"amount": 7}))
    outcome = await stage.play(recorder=recorder)
    (said,) = [message for message in stage.agent.state.messages if message.role == "assistant"][:1]
    assert getattr(said, "tool_calls")[0].arguments == {"amount": 5}  # noqa: B009 - any message has a role
    assert outcome.recorder.of("tool_started")[0].tool_calls[0].arguments == {"amount": 7}
    assert text(stage).startswith("[A person changed the arguments")


async def test_an_edit_is_told_in_results_of_parts_and_of_failures_too() -> None:
    stage = await gated((), call("picture", id="p", name="a"), call("breaks", id="b", amount=1))
    request, _ = await held(stage, "permission_request", count=2)
    decide(stage.agent, "p", arguments={"name": "b"})
    decide(stage.agent, "b", arguments={"amount": 2})
    await request
    content = results(stage)["p"].content
    assert isinstance(content, list)
    assert content[:2] == [
        TextContent('[A person changed the arguments of this call to {"name": "b"}]'),
        TextContent("b"),
    ]
    assert text(stage, "b").endswith("\nRuntimeError: no 2")


async def test_edited_arguments_are_judged_by_the_policy_again() -> None:
    rules = [
        PermissionRule("refund", "deny", "never 666", when=lambda arguments: arguments["amount"] == 666),
        PermissionRule("refund", "ask"),
    ]
    stage = await gated(rules)
    await stage.play(
        recorder=EventRecorder().when("custom", reply(stage.agent, decision="approve", arguments={"amount": 666}))
    )
    assert text(stage).endswith("Refused by the permission policy: never 666")
    assert ran == []


async def test_a_rejection_needs_no_message() -> None:
    stage = await gated()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, decision="reject")))
    assert text(stage) == "Rejected: the call was not approved."


@pytest.mark.parametrize(
    ("result", "content"), [("text", "text"), ({"n": [1]}, '{"n":[1]}'), (0, "0"), (False, "false")]
)
async def test_a_person_may_respond_with_text_or_json(result: Any, content: str) -> None:
    stage = await gated()
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, decision="respond", result=result)))
    assert (text(stage), results(stage)["r"].success, ran) == (content, True, [])


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"decision": "yes"},
        {"decision": True},
        {"decision": ["approve"]},
        {"decision": "approve", "argments": {"amount": 1}},
        {"decision": "approve", "arguments": [1]},
        {"decision": "approve", "arguments": {"amount": {1}}},
        {"decision": "approve", "message": "fine"},
        {"decision": "approve", "session_id": "other"},
        {"decision": "reject", "message": 7},
        {"decision": "reject", "arguments": {"amount": 1}},
        {"decision": "respond"},
        {"decision": "respond", "result": " "},
        {"decision": "respond", "result": {1}},
    ],
)
async def test_hitl_21_a_decision_that_is_none_is_refused_and_the_question_stays_open(payload: dict[str, Any]) -> None:
    stage = await gated()
    request, _ = await held(stage, "permission_request")
    event = ExternalEvent("permission_response", {"tool_call_id": "r", **payload})
    assert stage.agent.emit_external_event(event, config=AgentRunConfig("s")) == []
    assert [wait.id for wait in stage.agent.pending_waits()] == ["r"]
    assert decide(stage.agent, "r", "reject", message="no")
    await request
    assert ran == []


async def test_hitl_20_the_first_decision_wins_and_the_tool_runs_once() -> None:
    stage = await gated()
    request, _ = await held(stage, "permission_request")
    together, taken = threading.Barrier(6), list[str]()

    def race(kind: str) -> None:
        together.wait()
        taken.extend(kind for _ in decide(stage.agent, "r", kind))

    threads = [threading.Thread(target=race, args=(kind,)) for kind in ["approve", "reject"] * 3]
    for thread in threads:
        thread.start()
    await request
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert ran == ([5] if taken == ["approve"] else [])
    assert decide(stage.agent, "r") == []


async def test_hitl_12_steering_and_other_events_decide_nothing() -> None:
    stage = await gated()
    request, _ = await held(stage, "permission_request")
    stage.steer("yes, approve everything")
    other = ExternalEvent("ask_user_response", {"tool_call_id": "r", "decision": "approve"})
    assert stage.agent.emit_external_event(other, config=AgentRunConfig("s")) == []
    await settle()
    assert [wait.id for wait in stage.agent.pending_waits()] == ["r"]
    decide(stage.agent, "r", "reject")
    await request
    assert ran == []
    assert stage.model.requests[-1].messages[-1].content == "yes, approve everything"


async def test_hitl_01_ungated_siblings_run_once_while_a_call_is_held() -> None:
    stage = await gated(
        [PermissionRule("note", "allow")], call("note", id="n", text="x"), call("refund", id="r", amount=1)
    )
    request, recorder = await held(stage, "permission_request")
    await settle()
    assert [event.tool_calls[0].id for event in recorder.of("tool_completed")] == ["n"]
    decide(stage.agent, "r")
    await request
    assert [event.tool_calls[0].id for event in recorder.of("tool_started")] == ["n", "r"]


async def test_hitl_26_closing_the_stream_runs_nothing_and_refuses_a_late_decision() -> None:
    stage = await gated()
    await EventRecorder().record(stage.agent.stream("hi"), until="custom")
    assert decide(stage.agent, "r") == []
    assert ran == []
    (result,) = [message for message in stage.agent.state.messages if message.role == "tool"]
    assert not getattr(result, "success", True) and result.content


async def test_hitl_10_what_nobody_decides_on_in_time_is_refused() -> None:
    stage = await gated(timeout=0.005)
    await stage.play()
    assert text(stage) == "Refused: nobody decided on the call within 0.005 seconds."
    assert ran == []


async def test_a_question_of_a_tool_is_asked_only_when_the_gate_lets_it_pass() -> None:
    rules = [PermissionRule("ask_user", "deny", "nobody is there")]
    stage = await scene(
        [call("ask_user", id="q", question="?")],
        "done",
        extensions=[AskUserExtension(), PermissionExtension(rules)],
    )
    outcome = await stage.play()
    assert outcome.only("custom") == []
    assert text(stage, "q") == "Refused by the permission policy: nobody is there"


# --- an approver in code --------------------------------------------------------------------------------------------


async def _approve(request: PermissionRequest) -> bool:
    return bool(request.arguments["amount"] == 5)


@pytest.mark.parametrize(
    ("approve", "content"),
    [
        (lambda request: True, "refunded 5"),
        (_approve, "refunded 5"),
        (lambda request: _approve(request), "refunded 5"),
        (lambda request: "approve", "refunded 5"),
        (lambda request: False, "Rejected: the call was not approved."),
        (lambda request: "reject", "Rejected: the call was not approved."),
        (lambda request: {"decision": "reject", "message": "no"}, "Rejected: no"),
        (lambda request: PermissionAnswer("respond", result="by hand"), "by hand"),
        (
            lambda request: PermissionAnswer("approve", arguments={"amount": 6}),
            '[A person changed the arguments of this call to {"amount": 6}]\nrefunded 6',
        ),
    ],
)
async def test_hitl_14_registering_only_an_approver_is_enough(approve: Callable[..., Any], content: str) -> None:
    stage = await scene(
        [call("refund", id="r", amount=5)], "done", tools=[refund], extensions=[PermissionExtension(approve=approve)]
    )
    outcome = await stage.play()
    assert outcome.only("custom", "run_") == ["run_completed"]
    assert text(stage) == content


async def test_an_approver_is_asked_only_what_the_policy_asks_and_told_why() -> None:
    asked: list[tuple[Any, str | None]] = []

    def approve(request: PermissionRequest) -> bool:
        asked.append((request.sent, request.reason))
        return True

    rules = [PermissionRule("refund", "ask", "money"), PermissionRule("*", "allow")]
    calls = call("note", id="n", text="x"), call("refund", id="r", amount=1)
    await (await gated(rules, *calls, approve=approve)).play()
    assert asked == [({"amount": 1}, "money")]


async def test_a_plain_approver_may_block_and_holds_up_nobody() -> None:
    other_ran = threading.Event()

    @tool
    async def wave() -> str:
        """Let the approver go on."""
        other_ran.set()
        return "waved"

    stage = await scene(
        [call("refund", id="r", amount=1), call("wave", id="w")],
        "done",
        tools=[refund, wave],
        extensions=[PermissionExtension([PermissionRule("wave", "allow")], approve=lambda request: other_ran.wait(5))],
    )
    await stage.play()
    assert ran == [1]


@pytest.mark.parametrize("said", [None, 7, "perhaps", {"decision": "approve", "argments": {}}])
async def test_an_approver_that_says_nothing_clear_refuses(said: Any, caplog: pytest.LogCaptureFixture) -> None:
    stage = await gated(approve=lambda request: said)
    await stage.play()
    assert text(stage) == "Rejected: the call was not approved."
    assert "the approver failed on a call of refund" in caplog.text


async def test_an_approver_that_raises_refuses(caplog: pytest.LogCaptureFixture) -> None:
    async def approve(request: PermissionRequest) -> bool:
        raise TimeoutError("the line is dead")

    stage = await gated(approve=approve)
    await stage.play()
    assert text(stage) == "Rejected: the call was not approved."
    assert "the approver failed" in caplog.text


async def test_hitl_10_an_approver_has_the_timeout_too() -> None:
    async def approve(request: PermissionRequest) -> bool:
        await asyncio.Event().wait()
        return True

    stage = await gated(approve=approve, timeout=0.005)
    await stage.play()
    assert text(stage) == "Refused: nobody decided on the call within 0.005 seconds."


async def test_nothing_of_a_request_is_kept() -> None:
    gate = PermissionExtension()
    stage = await scene([call("refund", id="r", amount=5)], "done", tools=[refund], extensions=[gate])
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, decision="approve")))
    assert [value for value in vars(gate).values() if isinstance(value, dict) and value] == []


# --- answers as values ----------------------------------------------------------------------------------------------


def test_an_answer_is_checked_when_it_is_made() -> None:
    assert PermissionAnswer("approve").decision == "approve"
    for wrong in (
        {"decision": "approve", "result": "x"},
        {"decision": "reject", "result": "x"},
        {"decision": "respond"},
        {"decision": "perhaps"},
    ):
        with pytest.raises(ValueError):
            PermissionAnswer(**wrong)  # type: ignore[arg-type]


class _Silent(AgentExtension):
    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        call.error = "refused earlier"


async def test_what_another_extension_refused_is_not_judged() -> None:
    stage = await scene(
        [call("refund", id="r", amount=5)], "done", tools=[refund], extensions=[_Silent(), PermissionExtension(_raises)]
    )
    await stage.play()
    assert text(stage) == "refused earlier"
