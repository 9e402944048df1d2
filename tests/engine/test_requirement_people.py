"""Questions to people in one process: who must answer what, for how long, and what is shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.conftest import Leap
from tests.engine.scenario import SESSION, Scene, add, boom, named, scene, spin
from tests.extensions.questions import answer, asking, decide, held, reply, result_of, results, settle
from zett_agent.agent import Agent
from zett_agent.client import AgentClient
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.tool import ToolExtension
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

DAY = 24 * 3600.0


async def gated(*calls: Any) -> Scene:
    """A scene where a call of ``refund`` needs a permission."""

    async def refund(amount: int) -> str:
        return f"refunded {amount}"

    rules = [
        PermissionRule("refund", "ask"),
        PermissionRule("forbidden", "deny", "never"),
        PermissionRule("*", "allow"),
    ]
    return await scene(
        list(calls),
        "done",
        tools=[named("refund", refund), named("forbidden", refund), add, boom],
        extensions=[PermissionExtension(rules), AskUserExtension()],
    )


SETTLED = {
    "invalid arguments": (call("add", id="x", left="bad", right=1), False),
    "unknown tool": (call("nothing", id="x"), False),
    "denied": (call("forbidden", id="x", amount=1), False),
    "failed": (call("boom", id="x"), False),
    "done": (call("add", id="x", left=1, right=1), True),
}


@pytest.mark.parametrize("kind", SETTLED)
async def test_hitl_07_only_what_is_still_open_needs_an_answer(kind: str) -> None:
    settled, success = SETTLED[kind]
    stage = await gated(settled, call("refund", id="r", amount=1))
    request, recorder = await held(stage, "permission_request")
    await settle()
    assert [wait.id for wait in stage.agent.pending_waits()] == ["r"]
    assert decide(stage.agent, "x") == [], "what is settled takes no answer, and that is no error"
    assert decide(stage.agent, "r") == ["PermissionExtension"]
    await request
    assert recorder.types[-1] == "run_completed"
    assert results(stage)["x"].success is success
    assert results(stage)["r"].text == "refunded 1"


async def test_hitl_02_hitl_05_two_questions_of_one_id_are_two_and_each_gets_its_own_answer() -> None:
    question = call("ask_user", id="q", question="?")
    stage = await scene([question], [question], "done", extensions=[AskUserExtension()])
    shown: list[str] = []

    def act(event: AgentEvent) -> None:
        assert event.payload is not None
        shown.append(event.payload["tool_call_id"])
        assert answer(stage.agent, shown[-1], answer=len(shown)) == ["AskUserExtension"]
        assert answer(stage.agent, shown[0], answer="again") == []

    await stage.play(recorder=EventRecorder().when("custom", act).when("custom", act))
    assert len(set(shown)) == 2
    assert [result_of(stage, one)["answer"] for one in shown] == [1, 2]


@pytest.mark.parametrize("name", ["ask_user", "refund"])
async def test_hitl_16_a_question_waits_for_days_and_an_answer_then_goes_on(name: str, leap: Leap) -> None:
    arguments = {"question": "?"} if name == "ask_user" else {"amount": 1}
    stage = await gated(call(name, id="q", **arguments))
    request, _ = await held(stage, "ask_user" if name == "ask_user" else "permission_request")
    for _ in range(3):
        leap(DAY)
        await spin()
    assert not request.done()
    assert [wait.expires_at for wait in stage.agent.pending_waits()] == [None]
    assert answer(stage.agent, answer="a") if name == "ask_user" else decide(stage.agent, "q")
    await request
    assert results(stage)["q"].success


async def test_hitl_09_hitl_17_a_client_that_comes_later_answers_from_what_it_lists() -> None:
    stage = await asking(strict_options=True)
    request, recorder = await held(stage)
    late = AgentClient(stage.agent)
    (wait,) = late.agent.pending_waits(config=SESSION)
    (shown,) = recorder.custom("ask_user")
    assert dict(wait.question or {}) == dict(shown.payload or {})
    assert (wait.tool, wait.arguments["question"], wait.session_id) == ("ask_user", "Which?", "s")
    assert wait.created_at.tzinfo is not None

    def reply_with(text: str) -> list[str]:
        event = ExternalEvent(next(iter(wait.response_events)), {wait.correlation_field: wait.id, "answer": text})
        return stage.agent.emit_external_event(event, config=AgentRunConfig(wait.session_id, wait.request_id))

    assert reply_with("z") == [], "the stored question says what fits"
    assert [one.id for one in stage.agent.pending_waits()] == ["q"]
    assert reply_with("b") == ["AskUserExtension"]
    await request
    assert result_of(stage)["answer"] == "b"


async def test_hitl_27_a_session_shows_only_what_can_still_be_answered_whatever_happens_elsewhere() -> None:
    question = [call("ask_user", id="q", question="?")]
    stage = await scene(question, question, question, "one", extensions=[AskUserExtension()])
    first, _ = await held(stage)
    for name in ("left", "stopped"):  # other sessions ask with the same id, and their questions end with them
        other = AgentRunConfig(name)
        recorder = EventRecorder()
        if name == "left":
            await recorder.record(stage.agent.stream("hi", config=other), until="custom")
        else:
            recorder.when("custom", lambda _, other=other: stage.agent.stop(other))  # type: ignore[misc]
            await recorder.record(stage.agent.stream("hi", config=other))
        assert stage.agent.pending_waits(config=other) == ()
        assert answer(stage.agent, config=other) == []
    assert [(wait.session_id, wait.id) for wait in stage.agent.pending_waits()] == [("s", "q")]
    assert answer(stage.agent, answer="still") == ["AskUserExtension"]
    await first
    assert stage.agent.pending_waits() == ()
    assert result_of(stage)["answer"] == "still"


# Every public way to a tool of people


class Asks(ExternalEventExtension):
    """An application's own question: whatever calls ``ask`` waits."""

    def __init__(self) -> None:
        super().__init__(response_event_name="said", correlation_field="id")

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name == "ask":
            async with self._wait_for_external_event(context, call.id):
                await context.emit(
                    AgentEvent(AgentEventType.CUSTOM, context.session_id, name="asks", payload={"id": call.id})
                )


def _ask_of(gate: Asks) -> Any:
    @tool
    async def ask(context: AgentRunContext) -> str:
        """Ask."""
        return str(gate._take_external_event(context).payload["text"])

    return ask


class Registers(Asks):
    """Registers its tool by itself."""

    async def on_tool(self, context: AgentRunContext) -> None:
        context.register_tool(_ask_of(self))


@pytest.mark.parametrize("path", ["tools of the agent", "tool extension", "own extension"])
async def test_hitl_26_a_tool_of_people_waits_whichever_way_it_was_registered(path: str) -> None:
    gate = Registers() if path == "own extension" else Asks()
    tools = [_ask_of(gate)] if path == "tools of the agent" else []
    more = [ToolExtension([_ask_of(gate)])] if path == "tool extension" else []
    stage = await scene([call("ask", id="q")], "done", tools=tools, extensions=[gate, *more])
    request, _ = await held(stage, "asks")
    await settle()
    assert not request.done()
    assert [(wait.id, wait.tool) for wait in stage.agent.pending_waits()] == [("q", "ask")]
    assert stage.agent.emit_external_event(ExternalEvent("said", {"id": "q", "text": "yes"})) == [gate.name]
    await request
    assert results(stage)["q"].text == "yes"


@pytest.mark.parametrize("end", ["stop", "aclose", "failure"])
async def test_hitl_26_ui_04_whatever_ends_a_question_early_leaves_a_failed_result_and_no_question(end: str) -> None:
    def answers(request: Any) -> Any:
        return "again" if len(model.requests) > 1 else [call("ask_user", id="q", question="?"), call("boom", id="b")]

    class Fails(AskUserExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            if end == "failure" and call.name == "boom":
                raise RuntimeError("elsewhere")

    model = FunctionModel(answers)
    agent = await Agent.create(model, config=SESSION, tools=[boom], extensions=[Fails()])
    recorder = EventRecorder()
    if end == "stop":
        recorder.when("custom", lambda _: agent.stop())
    elif end == "aclose":
        recorder.when("custom", lambda _: agent.aclose())
    if end == "failure":
        with pytest.raises(RuntimeError, match="elsewhere"):
            await recorder.record(agent.stream("hi"))
    else:
        await recorder.record(agent.stream("hi"))
    assert recorder.types[-1] == ("run_failed" if end == "failure" else "run_cancelled")
    asked = [message for message in agent.state.messages if getattr(message, "tool_call_id", None) == "q"]
    assert [(getattr(message, "success", None), bool(message.content)) for message in asked] == [(False, True)]
    assert agent.pending_waits() == () and answer(agent) == []
    assert (await agent.run("next")).content == "again"


async def test_hitl_20_an_answer_that_comes_twice_is_taken_once_even_when_it_is_the_same() -> None:
    stage = await asking()
    taken: list[list[str]] = []
    request, _ = await held(stage)
    event = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": "a"})
    for _ in range(3):
        taken.append(stage.agent.emit_external_event(event, config=SESSION))
        await settle()
    await request
    assert taken == [["AskUserExtension"], [], []]


async def test_hitl_01_calls_before_and_after_a_question_have_one_result_each_and_ran_once() -> None:
    ran: list[int] = []

    async def probe(n: int) -> int:
        ran.append(n)
        return n

    calls = [call("probe", id="a", n=1), call("ask_user", id="q", question="?"), call("probe", id="b", n=2)]
    with ScriptedModel(calls, "done") as model:
        agent = await Agent.create(
            model, config=SESSION, tools=[named("probe", probe)], extensions=[AskUserExtension()]
        )
        await EventRecorder().when("custom", reply(agent, answer="x")).record(agent.stream("hi"))
        last = model.requests[-1].messages
    assert sorted(ran) == [1, 2]
    assert [getattr(message, "tool_call_id", None) for message in last[-3:]] == ["a", "q", "b"]
