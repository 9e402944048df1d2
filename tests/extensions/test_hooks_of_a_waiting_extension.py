"""What the manual's pages say of the hooks that ``AskUserExtension`` inherits, held on an extension that waits.

- after_model, after_run, before_run: test_messages_are_in_the_history_when_their_hooks_run
- after_tool: test_after_tool_changes_what_everybody_sees, test_after_tool_gets_the_error_of_a_failed_call,
  test_a_result_that_after_tool_refuses_is_not_appended
- after_turn: test_after_turn_runs_once_when_every_call_is_settled, test_steering_is_appended_when_after_turn_runs,
  test_a_turn_that_never_completed_has_no_after_turn
- before_model: test_a_request_is_rebuilt_after_each_before_model, test_the_example_of_before_model
- before_turn: test_before_turn_comes_first_in_a_turn_and_its_edits_reach_the_model
- name: test_a_name_is_the_class_name_unless_it_is_given
- on_compact: test_on_compact_is_all_that_a_compaction_does
- on_message: test_on_message_replaces_the_input_which_is_appended_once
- on_model_request: test_on_model_request_wraps_request_and_stream, test_the_default_closes_the_inner_stream
- on_state: test_on_state_puts_instructions_first
- on_success: test_on_success_runs_once_before_the_end, test_an_error_of_on_success_prevents_the_end
- on_tool_call: test_on_tool_call_wraps_the_handler
- pending: test_pending_counts_every_agent_and_session
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tests.engine.scenario import SESSION, add, boom
from tests.extensions.questions import answer, held, reply, results, scene
from zett_agent import AgentExtension, AgentRunConfig, AgentRunContext, AssistantMessage, ModelRequest, ToolCall
from zett_agent.agent import Agent
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import ModelRequestNext, ToolCallNext
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.messages import SystemMessage, ToolMessage, UserMessage
from zett_agent.model import ModelEvent
from zett_agent.testing import EventRecorder, ScriptedModel, call, stall, text
from zett_agent.tools.base import ToolResult, tool

QUESTION = [call("ask_user", id="q", question="Which?")]


async def answered(extension: AskUserExtension, *steps: Any, **options: Any) -> Any:
    """A request whose first step asks and is answered."""
    stage = await scene(QUESTION, *(steps or ("done",)), extensions=[extension], **options)
    return stage, await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, answer="a")))


async def test_messages_are_in_the_history_when_their_hooks_run() -> None:
    class Looks(AskUserExtension):
        def __init__(self) -> None:
            super().__init__()
            self.last: list[tuple[str, str]] = []
            self.published: list[str] = []

        subscribes = (ExtensionEvent,)

        def look(self, hook: str, context: AgentRunContext) -> None:
            assert context.transcript.last is not None
            self.last.append((hook, context.transcript.last.role.value))

        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            await super().on_event(context, event)
            if isinstance(event, MessageAppendedEvent):
                self.published.append(event.message.role.value)

        async def before_run(self, context: AgentRunContext) -> None:
            self.look("before_run", context)
            assert self.published == ["user"]

        async def after_model(self, context: AgentRunContext, response: Any) -> None:
            self.look("after_model", context)
            assert context.transcript.last is response.message

        async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
            self.look("after_run", context)
            assert context.transcript.last is result

    looks = Looks()
    await answered(looks)
    assert looks.last == [
        ("before_run", "user"),
        ("after_model", "assistant"),
        ("after_model", "assistant"),
        ("after_run", "assistant"),
    ]


async def test_after_tool_changes_what_everybody_sees() -> None:
    class Shortens(AskUserExtension):
        errors: list[Any] = []  # noqa: RUF012 - one instance per test

        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            self.errors.append(error)
            result.content = "short"

    stage, outcome = await answered(Shortens())
    assert results(stage)["q"].content == "short"
    assert outcome.recorder.of("tool_completed")[0].message.content == "short"
    assert outcome.story[-2] == "tool q ok: short"
    assert Shortens.errors == [None]


async def test_after_tool_gets_the_error_of_a_failed_call() -> None:
    errors: list[BaseException | None] = []

    class Looks(AskUserExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            errors.append(error)

    stage = await scene([call("boom", id="b")], "done", tools=[boom], extensions=[Looks()])
    await stage.play()
    assert [type(error) for error in errors] == [ValueError]


async def test_a_result_that_after_tool_refuses_is_not_appended() -> None:
    class Refuses(AskUserExtension):
        async def after_tool(
            self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
        ) -> None:
            raise RuntimeError("not this")

    _, outcome = await answered(Refuses(), "unused")
    assert isinstance(outcome.error, RuntimeError)
    assert '"answer"' not in outcome.story[-1]


class Turns(AskUserExtension):
    """Notes the ends of turns, and what the history ends with then."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[tuple[tuple[str, ...], str]] = []

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        assert context.transcript.open_calls == ()
        assert context.transcript.last is not None
        self.turns.append((tuple(call.id for call in result.tool_calls), context.transcript.last.role.value))


async def test_after_turn_runs_once_when_every_call_is_settled() -> None:
    turns = Turns()
    calls = [*QUESTION, call("boom", id="b"), call("nothing", id="n")]
    stage = await scene(calls, "done", tools=[boom], extensions=[turns])
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent)))
    assert turns.turns == [(("q", "b", "n"), "tool"), ((), "assistant")]


async def test_steering_is_appended_when_after_turn_runs() -> None:
    turns = Turns()
    stage = await scene(QUESTION, "done", extensions=[turns])
    request, _ = await held(stage)
    stage.steer("rather this")
    answer(stage.agent)
    await request
    assert turns.turns == [(("q",), "user"), ((), "assistant")]


async def test_a_turn_that_never_completed_has_no_after_turn() -> None:
    turns = Turns()
    stage = await scene(QUESTION, extensions=[turns])
    await EventRecorder().record(stage.agent.stream("hi"), until="custom")
    assert turns.turns == []


async def test_a_request_is_rebuilt_after_each_before_model() -> None:
    class Adds(AgentExtension):
        def __init__(self, name: str) -> None:
            self.name = name

        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            with pytest.raises(FrozenInstanceError):
                request.messages = ()  # type: ignore[misc]
            seen.append((len(request.messages), len(request.tools)))
            context.add_message(SystemMessage(content=self.name))
            context.tools[self.name] = replace(add, name=self.name)

    seen: list[tuple[int, int]] = []
    stage = await scene("done", extensions=[AskUserExtension(), Adds("one"), Adds("two")])
    await stage.play()
    assert seen == [(1, 1), (2, 2)]
    assert len(stage.model.requests[0].messages) == 3
    assert [definition.name for definition in stage.model.requests[0].tools] == ["ask_user", "one", "two"]


async def test_the_example_of_before_model() -> None:
    class Warns(AskUserExtension):
        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            if "ask_user" in {definition.name for definition in request.tools}:
                context.add_message(SystemMessage(content="Read before you ask."))

    stage = await scene("done", extensions=[Warns()])
    await stage.play()
    assert stage.model.requests[0].messages[-1].content == "Read before you ask."


async def test_before_turn_comes_first_in_a_turn_and_its_edits_reach_the_model() -> None:
    order: list[str] = []

    class Edits(AskUserExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            order.append("before_run")

        async def before_turn(self, context: AgentRunContext) -> None:
            order.append("before_turn")
            context.add_message(SystemMessage(content=f"turn {order.count('before_turn')}"))

        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            order.append(f"before_model {request.messages[-1].content}")

        async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
            order.append("after_turn")

    stage, _ = await answered(Edits())
    assert order == [
        "before_run",
        *("before_turn", "before_model turn 1", "after_turn"),
        *("before_turn", "before_model turn 2", "after_turn"),
    ]
    assert stage.model.requests[1].messages[-1].content == "turn 2"


async def test_a_name_is_the_class_name_unless_it_is_given() -> None:
    class Named(AskUserExtension):
        name = "given"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType] # as the manual has it

    given, assigned = Named(), AskUserExtension()
    assert (given.name, assigned.name) == ("given", "AskUserExtension")
    assigned.name = "other"
    stage = await scene(QUESTION, "done", extensions=[assigned])
    request, _ = await held(stage)
    assert answer(stage.agent) == ["other"]
    await request


async def test_on_compact_is_all_that_a_compaction_does() -> None:
    order: list[str] = []

    class Compacts(AskUserExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            order.append("on_tool")

        async def on_state(self, context: AgentRunContext) -> None:
            order.append("on_state")

        async def on_message(self, context: AgentRunContext) -> None:
            order.append("on_message")

        async def on_compact(self, context: AgentRunContext) -> None:
            order.append(f"on_compact of {len(context.transcript)}")

    stage = await scene("done", extensions=[Compacts()])
    await stage.play()
    order.clear()
    async for _ in stage.agent.compact():
        raise AssertionError("nothing was shown by any hook")
    assert order == ["on_tool", "on_state", "on_compact of 2"]
    assert len(stage.model.requests) == 1


async def test_on_message_replaces_the_input_which_is_appended_once() -> None:
    class Replaces(AskUserExtension):
        async def on_message(self, context: AgentRunContext) -> None:
            assert context.input_message is not None
            context.input_message = UserMessage(content=f"{context.input_message.text}!")

        async def before_run(self, context: AgentRunContext) -> None:
            assert [message.content for message in context.transcript.view()] == ["hi!"]

    stage = await scene("done", extensions=[Replaces()])
    assert (await stage.play()).story == ["user hi!", "assistant done"]


async def test_on_model_request_wraps_request_and_stream() -> None:
    class Wraps(AskUserExtension):
        async def on_model_request(
            self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
        ) -> AsyncIterator[ModelEvent]:
            async with aclosing(call_next(replace(request, cache_key="mine"))) as stream:  # type: ignore[type-var]
                async for event in stream:
                    yield event

    stage = await scene("done", extensions=[Wraps()])
    await stage.play()
    assert stage.model.requests[0].cache_key == "mine"


async def test_the_default_closes_the_inner_stream() -> None:
    closed: list[bool] = []

    class Provider:
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            try:
                yield ModelEvent.text("I")
                await asyncio.Event().wait()
            finally:
                closed.append(True)

    class Passes(AskUserExtension):
        async def on_model_request(
            self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
        ) -> AsyncIterator[ModelEvent]:
            async for event in super().on_model_request(context, request, call_next):
                yield event

    agent = await Agent.create(Provider(), config=SESSION, extensions=[Passes()])  # type: ignore[arg-type]
    await EventRecorder().record(agent.stream("hi"), until="text_delta")
    assert closed == [True]


async def test_on_state_puts_instructions_first() -> None:
    class Instructs(AskUserExtension):
        async def on_state(self, context: AgentRunContext) -> None:
            context.add_message(SystemMessage(content="Be brief."), index=0)

    stage = await scene("done", extensions=[Instructs()], system_prompt="You help.")
    await stage.play()
    assert [message.content for message in stage.model.requests[0].messages] == ["Be brief.", "You help.", "hi"]


class Succeeds(AskUserExtension):
    """Notes the end of a request, and may fail there."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.ends: list[str] = []

    async def after_run(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self.ends.append("after_run")

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self.ends.append(f"on_success {result.content}")
        if self.error is not None:
            raise self.error

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        await super().on_error(context, error)
        self.ends.append(f"on_error {error}")


async def test_on_success_runs_once_before_the_end() -> None:
    extension = Succeeds()
    _, outcome = await answered(extension)
    assert extension.ends == ["after_run", "on_success done"]
    assert outcome.lines[-1] == "run_completed"
    cancelled = Succeeds()
    stage = await scene(QUESTION, extensions=[cancelled])
    await EventRecorder().record(stage.agent.stream("hi"), until="custom")
    assert cancelled.ends == []


async def test_an_error_of_on_success_prevents_the_end() -> None:
    extension = Succeeds(RuntimeError("no"))
    _, outcome = await answered(extension)
    assert extension.ends == ["after_run", "on_success done", "on_error no"]
    assert outcome.only("run_") == ["run_failed RuntimeError"]


async def test_on_tool_call_wraps_the_handler() -> None:
    @tool
    async def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    class Wraps(AskUserExtension):
        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
            match call.id:
                case "adjust":
                    call.arguments["n"] = 10
                case "skip":
                    return "from elsewhere"
                case "fail":
                    raise RuntimeError("not now")
                case _:
                    pass
            return f"<{await call_next()}>"

    ids = ("adjust", "skip", "fail", "wrap")
    stage = await scene([call("double", id=each, n=1) for each in ids], "done", tools=[double], extensions=[Wraps()])
    await stage.play()
    assert [results(stage)[each].text for each in ids] == ["<20>", "from elsewhere", "RuntimeError: not now", "<2>"]


async def test_pending_counts_every_agent_and_session() -> None:
    shared = AskUserExtension()
    gates = stall(), stall()
    agents = [
        await Agent.create(ScriptedModel([text("I"), gate]), config=SESSION, extensions=[shared]) for gate in gates
    ]
    assert not shared.pending
    first = asyncio.ensure_future(agents[0].run("hi"))
    second = asyncio.ensure_future(agents[1].run("hi", config=AgentRunConfig("other")))
    for gate in gates:
        await gate.reached.wait()
    assert shared.pending
    gates[0].release()
    await first
    assert shared.pending
    gates[1].release()
    await second
    assert not shared.pending
