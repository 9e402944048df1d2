"""Holding a call until an outside answer arrives: routing, order, refusal, expiry, clean-up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.engine.scenario import SESSION, Scene, add, lines, scene, spin, story
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, RunCancelledEvent
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import EXTENSION_CHECKS, EventRecorder, call, error, text
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent, Wait


class Approvals(ExternalEventExtension):
    """Asks before its one tool runs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(response_event_name="approval", correlation_field="tool_call_id")
        self.options = options

    async def on_tool(self, context: AgentRunContext) -> None:
        @tool
        def approve(action: str) -> str:
            """Ask for approval."""
            answer = self._take_external_event(context)
            return f"{action}: {answer.payload['ok']}"

        context.register_tool(approve)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name != "approve" or call.error is not None:
            return
        async with self._wait_for_external_event(context, call.id, **self.options):
            payload = {"tool_call_id": call.id, "action": call.arguments["action"]}
            await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="ask", payload=payload))


def answer(call_id: str, ok: Any = True, *, name: str = "approval") -> ExternalEvent:
    return ExternalEvent(name, {"tool_call_id": call_id, "ok": ok})


ASK = [call("approve", id="q1", action="rm")]


async def asking(*steps: Any, approvals: Approvals | None = None, **options: Any) -> tuple[Scene, Approvals]:
    """A scene with the extension."""
    approvals = approvals or Approvals()
    stage = await scene(*(steps or (ASK, "done")), extensions=[approvals], tools=[add], **options)
    return stage, approvals


def replying(stage: Scene, *events: ExternalEvent, config: AgentRunConfig = SESSION) -> EventRecorder:
    """Answer when asked, and note who took it."""
    recorder = EventRecorder()
    replies: Iterator[ExternalEvent] = iter(events)
    for _ in events:
        recorder.when("custom", lambda _: stage.agent.emit_external_event(next(replies), config=config))
    return recorder


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_behaves_as_every_extension_must(check: Any) -> None:
    await check(Approvals)


async def test_a_call_is_held_before_it_starts_until_the_answer_comes() -> None:
    stage, approvals = await asking()
    outcome = await stage.play(recorder=replying(stage, answer("q1")))
    assert [line for line in outcome.phases if "tool" in line or "custom" in line] == lines("""
        custom ask [ready]
        tool_started approve(q1) [running_tool]
        tool_completed approve(q1) [ready]
    """)
    assert outcome.story[2:] == ["tool q1 ok: rm: True", "assistant done"]
    assert approvals._books == {} and approvals._staged == {}


async def test_hitl_20_the_first_answer_wins_and_every_other_is_refused() -> None:
    stage, _ = await asking()
    taken: list[list[str]] = []

    def act(event: AgentEvent) -> None:
        for config in (None, SESSION):
            for entry in (answer("q1", "yes"), answer("q1", "no")):
                taken.append(stage.agent.emit_external_event(entry, config=config))

    outcome = await stage.play(recorder=EventRecorder().when("custom", act))
    assert taken == [["Approvals"], [], [], []]
    assert outcome.story[2] == "tool q1 ok: rm: yes"
    assert stage.agent.emit_external_event(answer("q1"), config=SESSION) == []


@pytest.mark.parametrize(
    ("event", "config"),
    [
        (answer("q1", name="other"), SESSION),
        (answer("q2"), SESSION),
        (ExternalEvent("approval", {"ok": True}), SESSION),
        (ExternalEvent("approval", {"tool_call_id": 1}), SESSION),
        (answer("q1"), AgentRunConfig("another")),
        (answer("q1"), AgentRunConfig("s", "another request")),
    ],
)
async def test_hitl_12_what_is_not_addressed_to_the_question_changes_nothing(
    event: ExternalEvent, config: AgentRunConfig
) -> None:
    stage, _ = await asking()
    recorder = EventRecorder()
    taken: list[list[str]] = []

    def act(_: AgentEvent) -> None:
        taken.append(stage.agent.emit_external_event(event, config=config))
        assert len(stage.agent.pending_waits()) == 1
        taken.append(stage.agent.emit_external_event(answer("q1")))

    outcome = await stage.play(recorder=recorder.when("custom", act))
    assert taken == [[], ["Approvals"]]
    assert outcome.error is None


async def test_core_28_hitl_02_two_questions_of_one_response_are_asked_at_once_and_answered_in_any_order() -> None:
    stage, _ = await asking(
        [
            call("approve", id="q1", action="a"),
            call("add", id="x", left=1, right=1),
            call("approve", id="q2", action="b"),
        ],
        "done",
    )
    recorder = EventRecorder()
    asked: list[str] = []

    def act(event: AgentEvent) -> None:
        assert event.payload is not None
        asked.append(event.payload["tool_call_id"])
        if len(asked) == 2:
            for call_id in ("q2", "q1"):
                assert stage.agent.emit_external_event(answer(call_id, f"for {call_id}"))

    outcome = await stage.play(recorder=recorder.when("custom", act).when("custom", act))
    assert asked == ["q1", "q2"]
    assert outcome.only("tool_completed")[0] == "tool_completed add(x)", "a call that waits holds back no sibling"
    assert outcome.story[2:5] == ["tool q1 ok: a: for q1", "tool x ok: 2", "tool q2 ok: b: for q2"]


async def test_core_28_hitl_12_steering_does_not_answer_a_question() -> None:
    stage, _ = await asking()

    def act(event: AgentEvent) -> None:
        assert stage.steer("yes, also tests")
        assert len(stage.agent.pending_waits()) == 1
        assert stage.agent.emit_external_event(answer("q1"))

    outcome = await stage.play(recorder=EventRecorder().when("custom", act))
    assert outcome.story[2:] == ["tool q1 ok: rm: True", "user yes, also tests", "assistant done"]


async def test_hitl_09_open_questions_can_be_listed_with_all_that_a_client_needs() -> None:
    stage, _ = await asking()
    waits: list[tuple[Wait, ...]] = []

    def act(event: AgentEvent) -> None:
        waits.append(stage.agent.pending_waits(config=SESSION))
        waits.append(stage.agent.pending_waits(config=AgentRunConfig("another")))
        stage.agent.emit_external_event(answer("q1"))

    await stage.play(recorder=EventRecorder().when("custom", act))
    (wait,), none = waits
    assert none == ()
    assert (wait.id, wait.session_id, wait.extension, wait.tool) == ("q1", "s", "Approvals", "approve")
    assert (wait.arguments, wait.event_name) == ({"action": "rm"}, "ask")
    assert wait.question == {"tool_call_id": "q1", "action": "rm"}
    assert wait.created_at <= datetime.now(UTC) and wait.expires_at is None
    assert stage.agent.pending_waits() == ()


async def test_an_answer_may_be_checked_before_it_is_taken_and_the_question_stays_open() -> None:
    class Strict(Approvals):
        def validate_answer(self, wait: Wait, event: ExternalEvent) -> bool:
            return isinstance(event.payload["ok"], bool)

    stage, _ = await asking(approvals=Strict())
    recorder = EventRecorder()
    taken: list[list[str]] = []

    def act(event: AgentEvent) -> None:
        for ok in ("maybe", True):
            taken.append(stage.agent.emit_external_event(answer("q1", ok)))

    outcome = await stage.play(recorder=recorder.when("custom", act))
    assert taken == [[], ["Strict"]]
    assert outcome.story[2] == "tool q1 ok: rm: True"


async def test_an_answer_from_another_thread_wakes_the_request() -> None:
    stage, _ = await asking()

    def act(event: AgentEvent) -> None:
        threading.Thread(target=stage.agent.emit_external_event, args=(answer("q1"),)).start()

    assert (await stage.play(recorder=EventRecorder().when("custom", act))).story[2] == "tool q1 ok: rm: True"


async def test_hitl_10_a_question_may_expire_into_its_default() -> None:
    stage, _ = await asking(approvals=Approvals(timeout=0.001, default=answer("q1", "by default")))
    assert (await stage.play()).story[2] == "tool q1 ok: rm: by default"


async def test_hitl_10_a_question_that_expires_without_a_default_fails_the_request_with_a_typed_error() -> None:
    stage, _ = await asking(approvals=Approvals(timeout=0.001))
    outcome = await stage.play()
    assert outcome.lines[-1] == "run_failed ToolTimeoutError"
    assert outcome.story[2].startswith("tool q1 failed")


async def test_closing_the_stream_removes_the_question_and_a_late_answer_is_refused() -> None:
    stage, approvals = await asking()
    await EventRecorder().record(stage.agent.stream("hi"), until="custom")
    assert stage.agent.state.phase is AgentPhase.CANCELLED
    assert stage.agent.emit_external_event(answer("q1"), config=SESSION) == []
    assert stage.agent.pending_waits() == () and approvals._books == {}
    stage.check_messages()


async def test_ui_04_stopping_resolves_the_question_as_cancelled() -> None:
    stage, _ = await asking()
    outcome = await stage.play(recorder=EventRecorder().when("custom", lambda _: stage.agent.stop()))
    assert outcome.lines[-1] == "run_cancelled"
    assert outcome.story[2] == "tool q1 failed: Not run: the request was stopped first."


@pytest.mark.parametrize("wake", ["cancel", "error"])
async def test_the_hooks_wake_the_waits_of_their_request_when_they_are_called_directly(wake: str) -> None:
    woken: list[str] = []

    class Direct(Approvals):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async def waiting() -> None:
                try:
                    async with self._wait_for_external_event(context, call.id):
                        pass
                except asyncio.CancelledError:
                    woken.append("cancelled")
                except RuntimeError as failure:
                    woken.append(str(failure))

            task = asyncio.ensure_future(waiting())
            await spin()
            if wake == "cancel":
                await self.on_event(context, RunCancelledEvent(AgentPhase.READY, datetime.now(UTC), 0))
            else:
                await self.on_error(context, RuntimeError("over"))
            await task
            call.error = "nobody answered"

    stage, _ = await asking(approvals=Direct())
    await stage.play()
    assert woken == (["cancelled"] if wake == "cancel" else ["over"])


async def test_a_hook_that_is_called_directly_wakes_only_its_own_waits() -> None:
    class Other(Approvals):
        """The same under another name."""

        async def on_tool(self, context: AgentRunContext) -> None:
            """Its tool is there already."""

        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            task = asyncio.ensure_future(Approvals.before_tool(approvals, context, call))
            await spin()
            await self.on_error(context, RuntimeError("not yours"))
            await self.on_event(context, ExtensionEvent())
            assert not task.done()
            assert context.waitbook.answer(call.id, answer(call.id))
            await task

    class Tool(Approvals):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            """Waits for nothing by itself."""

    approvals = Tool()
    stage = await scene(ASK, "done", extensions=[approvals, Other()])
    assert (await stage.play()).story[2] == "tool q1 ok: rm: True"


async def test_a_failure_elsewhere_ends_the_wait() -> None:
    class Fails(AgentExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            raise RuntimeError("elsewhere")

    approvals = Approvals()
    stage = await scene(
        [call("approve", id="q1", action="a"), call("add", id="x", left=1, right=1)],
        extensions=[approvals, Fails()],
        tools=[add],
    )
    outcome = await stage.play()
    assert str(outcome.error) == "elsewhere"
    assert approvals._books == {}
    assert stage.agent.emit_external_event(answer("q1"), config=SESSION) == []


@pytest.mark.parametrize("bad", ["", " ", None, 3])
async def test_the_id_of_a_wait_must_not_be_blank(bad: Any) -> None:
    class Blank(Approvals):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, bad):
                pass

    stage, _ = await asking(approvals=Blank())
    outcome = await stage.play()
    assert str(outcome.error) == "correlation_id must not be blank"


async def test_an_id_waits_once() -> None:
    class Twice(Approvals):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, call.id), self._wait_for_external_event(context, call.id):
                pass

    stage, approvals = await asking(approvals=Twice())
    outcome = await stage.play()
    assert str(outcome.error) == "'q1' of session 's' waits already"
    assert approvals._books == {}


async def test_hitl_05_an_answer_is_taken_once_and_only_by_its_call() -> None:
    class Greedy(Approvals):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            with pytest.raises(RuntimeError, match="no answer is staged for call 'q1'"):
                self._take_external_event(context, "q1")
            with pytest.raises(RuntimeError, match="no answer is staged for call"):
                self._take_external_event(context)

    stage, _ = await asking(approvals=Greedy())
    outcome = await stage.play(recorder=replying(stage, answer("q1")))
    assert outcome.error is None and outcome.story[2] == "tool q1 ok: rm: True"


async def test_an_answer_that_no_tool_took_is_dropped_with_the_request() -> None:
    class Idle(Approvals):
        async def on_tool(self, context: AgentRunContext) -> None:
            @tool
            def approve(action: str) -> str:
                """Take nothing."""
                return "never asked"

            context.register_tool(approve)

    stage, approvals = await asking(approvals=Idle())
    await stage.play(recorder=replying(stage, answer("q1")))
    assert approvals._staged == {}


async def test_one_wait_may_have_an_answer_of_its_own_name() -> None:
    stage, _ = await asking(approvals=Approvals(response_event_name="special"))
    taken: list[list[str]] = []

    def act(event: AgentEvent) -> None:
        for name in ("approval", "special"):
            taken.append(stage.agent.emit_external_event(answer("q1", name=name)))

    await stage.play(recorder=EventRecorder().when("custom", act))
    assert taken == [[], ["Approvals"]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExternalEventExtension(response_event_name="", correlation_field="id"),
        lambda: ExternalEventExtension(response_event_name=[], correlation_field="id"),
        lambda: ExternalEventExtension(response_event_name=["a", " "], correlation_field="id"),
        lambda: ExternalEventExtension(response_event_name="a", correlation_field=" "),
    ],
)
def test_names_must_not_be_blank(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="blank"):
        make()


async def test_several_names_may_answer() -> None:
    extension = ExternalEventExtension(response_event_name=["yes", "no"], correlation_field="id")
    assert extension.response_event_names == {"yes", "no"}
    assert not extension.accept(None, ExternalEvent("yes", {"id": "x"}))
    assert not extension.accept(AgentRunConfig(request_id="r"), ExternalEvent("yes", {"id": "x"}))


async def test_two_sessions_may_wait_with_the_same_call_id() -> None:
    stage, _ = await asking(ASK, ASK, "one", "two")

    async def run(session_id: str) -> list[str]:
        config = AgentRunConfig(session_id)
        recorder = replying(stage, answer("q1", session_id), config=config)
        await recorder.record(stage.agent.stream("hi", config=config))
        state = stage.agent.get_state(session_id)
        assert state is not None
        return story(state.messages)

    both = await asyncio.gather(run("a"), run("b"))
    assert [messages[2] for messages in both] == ["tool q1 ok: rm: a", "tool q1 ok: rm: b"]


@pytest.mark.parametrize("end", ["answered", "expired", "abandoned"])
async def test_the_log_tells_what_became_of_a_wait(end: str) -> None:
    store = MemorySessionStore()
    approvals = Approvals(timeout=0.001, default=answer("q1")) if end == "expired" else Approvals()
    stage = await scene(ASK, "done", extensions=[approvals], store=store, memory=False)
    open_then: list[int] = []

    async def act(event: AgentEvent) -> None:
        open_then.append(len(await store.waits("s")))
        if end == "answered":
            stage.agent.emit_external_event(answer("q1"))
        elif end == "abandoned":
            stage.agent.stop()

    await stage.play(recorder=EventRecorder().when("custom", act))
    kinds = [record.kind.value for record in await store.load("s") if record.kind.value.startswith("wait")]
    assert open_then == [1], "logged before it is asked"
    assert kinds == ["wait_opened", "wait_answered" if end == "answered" else "wait_closed"]
    assert await store.waits("s") == []


async def test_a_model_that_fails_while_nothing_waits_is_no_concern_of_the_extension() -> None:
    stage, _ = await asking([text("x"), error(ConnectionError())])
    assert (await stage.play()).lines[-1] == "run_failed ConnectionError"
