"""The manual's page on events and user input, statement by statement.

Showing progress (``context.emit``)
- a hook shows progress as a CUSTOM event: test_a_hook_shows_its_progress_to_the_application
- the application gets exactly this event in on_custom_event: the same

Watching without showing
- MessageAppendedEvent carries timing and usage, in order: test_an_observer_learns_timing_and_usage_without_reading_text
- cached input and reasoning are parts of input and output: test_cached_input_and_reasoning_are_not_counted_twice
- a notification of one's own reaches every on_event, by priority:
  test_a_notification_reaches_every_extension_by_priority
- another type answers it, without recursion: test_a_reaction_is_published_as_another_type
- notifications are not streamed: test_notifications_are_not_streamed
- ``target`` reaches one extension, ValueError when it names none: test_a_target_reaches_one_extension_only

Holding a call
- the wait stands before the event is shown, so an answer at once is safe:
  test_an_answer_within_the_emitting_hook_is_taken
- leaving the ``async with`` waits without blocking the loop: test_a_wait_does_not_block_the_loop
- the tool runs after the answer is there, and uses it up: test_the_tool_runs_once_and_uses_the_answer_up
- the subclass owns the schema, the event and the check of the answer: test_the_tool_checks_what_was_accepted

Answering
- the config routes, the payload is business; the list names who took it: test_the_program_of_the_page
- duplicates, other sessions, other requests, expired routes, other names: test_what_the_base_class_refuses
- acceptance is delivery only: test_the_tool_checks_what_was_accepted
- RunCancelledEvent cancels waits: test_a_cancelled_request_ends_its_waits
- on_error ends them with the error: test_a_failed_request_ends_its_waits_with_its_error
- an accepted answer given twice runs the tool once: test_the_tool_runs_once_and_uses_the_answer_up

Going on
- InternalMessageEvent asks for one more step, within bounds: test_an_extension_asks_for_one_more_step_within_the_bounds
- steering goes before internal input: test_steering_goes_before_an_internal_message
- neither interrupts a response that is being received: test_neither_interrupts_a_response_that_is_being_received
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest

from tests.engine.scenario import SESSION
from tests.extensions.questions import held, results, scene, settle
from zett_agent import (
    AgentEvent,
    AgentEventDispatcher,
    AgentEventType,
    AgentExtension,
    AgentMessage,
    AgentRunConfig,
    AgentRunContext,
    ExternalEvent,
    ExternalEventExtension,
    ModelRequest,
    ModelUsage,
    ToolCall,
    create_agent,
    tool,
)
from zett_agent.exceptions import AgentIterationLimitError, ToolTimeoutError
from zett_agent.extensions import ToolGuidelinesExtension
from zett_agent.extensions.events import ExtensionEvent, InternalMessageEvent, MessageAppendedEvent
from zett_agent.testing import EventRecorder, ScriptedModel, call, stall, text, usage


class Confirm(ExternalEventExtension):
    """Offers ``confirm``, a tool that says what a person said."""

    def __init__(self) -> None:
        super().__init__(response_event_name=["confirm.reply", "confirm.late"], correlation_field="call")
        self.asked: list[str] = []
        self.ran = 0

    async def on_tool(self, context: AgentRunContext) -> None:
        @tool
        def confirm(what: str) -> str:
            """Ask a person whether something may be done.

            Args:
                what: What would be done.

            Guidelines:
                - Confirm before anything that cannot be undone.
            """
            self.ran += 1
            said = self._take_external_event(context).payload.get("yes")
            if not isinstance(said, bool):
                raise ValueError("yes must be true or false")
            return f"{what}: {'yes' if said else 'no'}"

        context.register_tool(confirm)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name == "confirm":
            async with self._wait_for_external_event(context, call.id):
                await self.ask(context, call)

    async def ask(self, context: AgentRunContext, call: ToolCall) -> None:
        payload = {"call": call.id, "what": call.arguments["what"]}
        await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="confirm.asked", payload=payload))


CALL = [call("confirm", id="c", what="wipe")]


def say(
    agent: Any, yes: Any = True, *, name: str = "confirm.reply", config: AgentRunConfig = SESSION, **more: Any
) -> list[str]:
    """Reply to the call ``c``."""
    accepted: list[str] = agent.emit_external_event(
        ExternalEvent(name, {"call": "c", "yes": yes, **more}), config=config
    )
    return accepted


# --- showing progress -----------------------------------------------------------------------------------------------


async def test_a_hook_shows_its_progress_to_the_application() -> None:
    class Progress(AgentExtension):
        def __init__(self) -> None:
            self.emitted: list[AgentEvent] = []

        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            payload = {"step": len(self.emitted) + 1}
            event = AgentEvent(AgentEventType.CUSTOM, context.session_id, name="progress.step", payload=payload)
            self.emitted.append(event)
            await context.emit(event)

    class Screen(AgentEventDispatcher):
        seen: list[AgentEvent] = []  # noqa: RUF012 - one screen per test

        async def on_custom_event(self, event: AgentEvent) -> None:
            self.seen.append(event)

    progress, screen = Progress(), Screen()
    client = await create_agent(
        ScriptedModel([call("nothing", id="n")], "done"), extensions=[progress], event_dispatcher=screen
    )
    await client.run("hi")
    assert len(screen.seen) == 2
    assert all(seen is emitted for seen, emitted in zip(screen.seen, progress.emitted, strict=True))
    assert [dict(event.payload or {}) for event in screen.seen] == [{"step": 1}, {"step": 2}]


# --- watching without showing ---------------------------------------------------------------------------------------


async def test_an_observer_learns_timing_and_usage_without_reading_text() -> None:
    class Observer(AgentExtension):
        def __init__(self) -> None:
            self.seen: list[MessageAppendedEvent] = []

        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, MessageAppendedEvent):
                self.seen.append(event)

    observer = Observer()
    stage = await scene([text("done"), usage(10, 5, cached=4, reasoning=2)], extensions=[observer])
    await stage.play()
    asked, answered = observer.seen
    assert (asked.message.role.value, asked.usage) == ("user", None)
    assert answered.usage == ModelUsage(10, 5, cache_read_tokens=4, reasoning_tokens=2)
    assert answered.timing.started_at.tzinfo is UTC
    assert answered.timing.started_at <= answered.timing.completed_at
    assert answered.timing.content_started_at is not None


def test_cached_input_and_reasoning_are_not_counted_twice() -> None:
    assert ModelUsage(10, 5, cache_read_tokens=4, reasoning_tokens=2).total_tokens == 15
    with pytest.raises(ValueError):
        ModelUsage(1, 5, cache_read_tokens=4)
    with pytest.raises(ValueError):
        ModelUsage(1, 1, reasoning_tokens=2)


@dataclass(frozen=True)
class Knock(ExtensionEvent):
    """Somebody knocked."""

    door: int


@dataclass(frozen=True)
class Opened(ExtensionEvent):
    """Somebody opened."""

    door: int


class Door(AgentExtension):
    """Notes knocks, and says so when it opens."""

    def __init__(self, name: str, priority: int, heard: list[str], *, opens: bool = False) -> None:
        self.name, self.priority = name, priority
        self.heard, self.opens = heard, opens

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, Knock | Opened):
            self.heard.append(f"{self.name} {type(event).__name__} {event.door}")
        if isinstance(event, Knock) and self.opens:
            await context.publish(Opened(event.door))


class Visitor(AgentExtension):
    """Knocks when the request begins."""

    def __init__(self, *targets: str | None) -> None:
        self.targets = targets

    async def before_run(self, context: AgentRunContext) -> None:
        for number, target in enumerate(self.targets):
            await context.publish(Knock(number), target=target)


async def _knocking(*targets: str | None, opens: bool = False) -> tuple[Any, list[str]]:
    heard: list[str] = []
    doors = [Door("back", 300, heard), Door("front", 1, heard, opens=opens), Visitor(*targets)]
    stage = await scene("done", extensions=doors)
    return await stage.play(), heard


async def test_a_notification_reaches_every_extension_by_priority() -> None:
    _, heard = await _knocking(None)
    assert heard == ["front Knock 0", "back Knock 0"]


async def test_a_reaction_is_published_as_another_type() -> None:
    _, heard = await _knocking(None, opens=True)
    assert heard == ["front Knock 0", "front Opened 0", "back Opened 0", "back Knock 0"]


async def test_notifications_are_not_streamed() -> None:
    outcome, _ = await _knocking(None, opens=True)
    assert outcome.only("custom") == []


async def test_a_target_reaches_one_extension_only() -> None:
    _, heard = await _knocking("back", None)
    assert heard == ["back Knock 0", "front Knock 1", "back Knock 1"]
    outcome, heard = await _knocking("side")
    assert isinstance(outcome.error, ValueError)
    assert heard == []


# --- holding a call -------------------------------------------------------------------------------------------------


async def test_the_program_of_the_page() -> None:
    config = AgentRunConfig(session_id="demo", request_id="one")
    model = ScriptedModel(CALL, "It is done.")
    client = await create_agent(model, config=config, extensions=[Confirm(), ToolGuidelinesExtension()])
    said: list[str] = []
    async for event in client.stream("Wipe it"):
        if event.type is AgentEventType.CUSTOM and event.name == "confirm.asked" and event.payload is not None:
            said.append(f"{event.payload['what']}?")
            reply = ExternalEvent("confirm.reply", {"call": event.payload["call"], "yes": True})
            assert client.agent.emit_external_event(reply, config=config) == ["Confirm"]
            assert client.agent.emit_external_event(reply, config=config) == []
        elif event.type is AgentEventType.RUN_COMPLETED and event.message is not None:
            said.append(str(event.message.content))
    assert said == ["wipe?", "It is done."]
    assert "Confirm before anything" in str(model.requests[0].messages[1].content)
    assert model.requests[1].messages[-1].content == "wipe: yes"


async def test_an_answer_within_the_emitting_hook_is_taken() -> None:
    class Hasty(Confirm):
        async def ask(self, context: AgentRunContext, call: ToolCall) -> None:
            assert say(stage.agent) == ["Hasty"]
            await super().ask(context, call)

    stage = await scene(CALL, "done", extensions=[Hasty()])
    await stage.play()
    assert results(stage)["c"].text == "wipe: yes"


async def test_a_wait_does_not_block_the_loop() -> None:
    stage = await scene(CALL, "done", extensions=[Confirm()])
    request, _ = await held(stage, "confirm.asked")
    for _ in range(100):
        await asyncio.sleep(0)
    assert not request.done()
    say(stage.agent)
    await request


async def test_the_tool_runs_once_and_uses_the_answer_up() -> None:
    confirm = Confirm()
    stage = await scene(CALL, "done", extensions=[confirm])
    request, recorder = await held(stage, "confirm.asked")
    assert confirm.ran == 0
    assert (say(stage.agent), say(stage.agent), say(stage.agent, False)) == (["Confirm"], [], [])
    await request
    assert (confirm.ran, len(recorder.of("tool_started"))) == (1, 1)
    assert confirm._staged == {}
    assert say(stage.agent) == []


async def test_the_tool_checks_what_was_accepted() -> None:
    stage = await scene(CALL, "done", extensions=[Confirm()])
    request, _ = await held(stage, "confirm.asked")
    assert say(stage.agent, "perhaps") == ["Confirm"]
    await request
    assert (results(stage)["c"].success, results(stage)["c"].text) == (False, "ValueError: yes must be true or false")


async def test_what_the_base_class_refuses() -> None:
    stage = await scene(CALL, "done", extensions=[Confirm()])
    request, _ = await held(stage, "confirm.asked")
    agent = stage.agent
    (wait,) = agent.pending_waits()
    assert say(agent, name="other.reply") == []
    assert say(agent, call="another") == say(agent, call=None) == []
    assert say(agent, config=AgentRunConfig("other")) == []
    assert say(agent, config=AgentRunConfig("s", "another request")) == []
    assert say(agent, name="confirm.late", config=AgentRunConfig("s", wait.request_id)) == ["Confirm"]
    assert say(agent) == []
    await request
    assert say(agent) == []


async def test_a_wait_may_narrow_the_names_of_its_answer() -> None:
    class Narrow(Confirm):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            async with self._wait_for_external_event(context, call.id, response_event_name="confirm.late"):
                await self.ask(context, call)

    stage = await scene(CALL, "done", extensions=[Narrow()])
    request, _ = await held(stage, "confirm.asked")
    assert say(stage.agent) == []
    assert say(stage.agent, name="confirm.late") == ["Narrow"]
    await request


async def test_a_cancelled_request_ends_its_waits() -> None:
    confirm = Confirm()
    stage = await scene(CALL, extensions=[confirm])
    request, recorder = await held(stage, "confirm.asked")
    stage.agent.stop()
    await request
    assert recorder.types[-1] == "run_cancelled"
    assert (say(stage.agent), confirm._books, confirm.ran) == ([], {}, 0)


async def test_a_failed_request_ends_its_waits_with_its_error() -> None:
    class Catching(Confirm):
        ended_by: BaseException | None = None

        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            self.context = context
            try:
                await super().before_tool(context, call)
            except BaseException as error:
                self.ended_by = error
                raise

    confirm, error = Catching(), RuntimeError("lost")
    stage = await scene(CALL, extensions=[confirm])
    request, _ = await held(stage, "confirm.asked")
    await confirm.on_error(confirm.context, error)
    with pytest.raises(RuntimeError):
        await request
    assert confirm.ended_by is error


async def test_other_notifications_and_other_requests_end_no_wait() -> None:
    confirm = Confirm()
    contexts: list[AgentRunContext] = []

    class Keeps(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            contexts.append(context)

    stage = await scene(CALL, "done", extensions=[confirm, Keeps()])
    request, _ = await held(stage, "confirm.asked")
    await confirm.on_event(contexts[0], Knock(1))
    other = await scene("done", extensions=[Keeps()])
    await other.play()
    await confirm.on_error(contexts[1], RuntimeError("another request"))
    assert say(stage.agent) == ["Confirm"]
    await request


async def test_an_answer_that_no_tool_took_is_forgotten_with_its_request() -> None:
    class Idle(Confirm):
        async def on_tool(self, context: AgentRunContext) -> None:
            @tool
            async def confirm(what: str) -> str:
                """Look at nothing."""
                return "done"

            context.register_tool(confirm)

    confirm = Idle()
    stage = await scene(CALL, "done", extensions=[confirm])
    request, _ = await held(stage, "confirm.asked")
    say(stage.agent)
    await request
    assert confirm._staged == {}


async def test_a_call_without_an_answer_has_none_to_take() -> None:
    class Silent(Confirm):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            pass

    stage = await scene(CALL, "done", extensions=[Silent()])
    await stage.play()
    assert results(stage)["c"].text == "RuntimeError: no answer is staged for call 'c'"


@pytest.mark.parametrize(
    ("correlation_id", "error"), [("", ValueError), (" ", ValueError), (7, ValueError), ("twice", RuntimeError)]
)
async def test_a_wait_needs_an_id_that_does_not_wait_yet(correlation_id: Any, error: type[Exception]) -> None:
    class Waits(ExternalEventExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            async with (
                self._wait_for_external_event(context, correlation_id),
                self._wait_for_external_event(context, correlation_id),
            ):
                pass

    stage = await scene(extensions=[Waits(response_event_name="a", correlation_field="b")])
    assert isinstance((await stage.play()).error, error)


async def test_a_wait_for_something_else_than_a_call_has_an_id_of_its_own() -> None:
    class Waits(ExternalEventExtension):
        said: Any = None

        async def before_run(self, context: AgentRunContext) -> None:
            async with self._wait_for_external_event(context, "start"):
                payload = {"b": "start"}
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="ask", payload=payload))
            self.said = self._take_external_event(context, "start").payload["said"]

    waits = Waits(response_event_name="a", correlation_field="b")
    stage = await scene("done", extensions=[waits])
    request, _ = await held(stage, "ask")
    (wait,) = stage.agent.pending_waits()
    assert (wait.id, wait.tool, wait.arguments) == ("start", None, {})
    answer = ExternalEvent("a", {"b": "start", "said": "go"})
    assert stage.agent.emit_external_event(answer, config=SESSION) == ["Waits"]
    await request
    assert waits.said == "go"


async def test_a_wait_may_end_by_itself() -> None:
    class Waits(ExternalEventExtension):
        ended: Any = None

        async def before_run(self, context: AgentRunContext) -> None:
            try:
                async with self._wait_for_external_event(context, "x", timeout=0.001):
                    pass
            except ToolTimeoutError as error:
                self.ended = error
            default = ExternalEvent("a", {"b": "y", "said": "nothing"})
            async with self._wait_for_external_event(context, "y", timeout=0.001, default=default):
                pass
            assert self._take_external_event(context, "y") is default

    waits = Waits(response_event_name="a", correlation_field="b")
    stage = await scene("done", extensions=[waits])
    assert (await stage.play()).error is None
    assert "nobody answered in time" in str(waits.ended)


@pytest.mark.parametrize(
    ("names", "field"), [("", "b"), (" ", "b"), ([], "b"), (["a", ""], "b"), ([7], "b"), ("a", ""), ("a", 7)]
)
def test_names_and_field_must_not_be_blank(names: Any, field: Any) -> None:
    with pytest.raises(ValueError):
        ExternalEventExtension(response_event_name=names, correlation_field=field)


# --- going on -------------------------------------------------------------------------------------------------------


class Reviewer(AgentExtension):
    """Asks for more after each of the first answers."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def after_model(self, context: AgentRunContext, response: Any) -> None:
        if self.left:
            self.left -= 1
            await context.publish(InternalMessageEvent(AgentMessage(content="look again")))


async def test_an_extension_asks_for_one_more_step_within_the_bounds() -> None:
    stage = await scene("one", "two", extensions=[Reviewer(1)])
    assert (await stage.play()).only("internal_", "run_") == [
        "internal_message_started look again",
        "internal_message_completed look again",
        "run_completed",
    ]
    stage = await scene("one", "two", "three", extensions=[Reviewer(9)], max_internal_messages=2)
    assert isinstance((await stage.play()).error, AgentIterationLimitError)


async def test_steering_goes_before_an_internal_message() -> None:
    stage = await scene("one", "two", "three", extensions=[Reviewer(1)])
    recorder = EventRecorder().when("text_delta", lambda _: stage.steer("now this"))
    outcome = await stage.play(recorder=recorder)
    assert outcome.only("steering_started", "internal_message_started") == [
        "steering_started now this",
        "internal_message_started look again",
    ]


async def test_neither_interrupts_a_response_that_is_being_received() -> None:
    rest = stall()
    steps: Sequence[Any] = [text("the first"), rest, text(" half")]
    stage = await scene(steps, "two", "three")
    request = asyncio.ensure_future(EventRecorder().record(stage.agent.stream("hi")))
    await rest.reached.wait()
    stage.nudge("internal")
    stage.steer("urgent")
    await settle()
    assert len(stage.model.requests) == 1
    rest.release()
    recorder = await request
    assert stage.model.requests[1].messages[-2].content == "the first half"
    assert recorder.types.count("run_completed") == 1
