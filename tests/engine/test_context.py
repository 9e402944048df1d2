"""What hooks may do through the context of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.scenario import Outcome, add, lines, scene, story
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, ToolContext
from zett_agent.events import AgentEvent, AgentEventType, CompactionEvent, ExtensionEvent
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import MessageAppendedEvent
from zett_agent.messages import AgentMessage, AssistantMessage, SystemMessage, UserMessage
from zett_agent.model import ModelUsage, ServerToolDefinition
from zett_agent.testing import HookRecorder, call

Work = Callable[[AgentRunContext], Awaitable[Any]]


async def within(
    hook: str, work: Work, *, tools: Any = (), steps: Any = ("done",), **options: Any
) -> tuple[Outcome, HookRecorder]:
    """One request in which ``work`` runs in a hook, and what a recorder noted of it."""
    done: list[object] = []

    async def once(context: AgentRunContext, *rest: Any) -> None:
        if not done:
            done.append(work)
            await work(context)

    extension, recorder = AgentExtension(), HookRecorder()
    setattr(extension, hook, once)
    stage = await scene(*steps, tools=tools, extensions=[extension, recorder], **options)
    return await stage.play(), recorder


def appended(recorder: HookRecorder) -> list[str]:
    return [entry.detail for entry in recorder.of("on_event") if entry.detail.startswith("MessageAppended")]


async def test_a_custom_event_reaches_the_consumer_stamped_with_the_phase() -> None:
    async def work(context: AgentRunContext) -> None:
        event = AgentEvent(AgentEventType.CUSTOM, "s", name="note", payload={"n": 1})
        await context.emit(event)

    outcome, _ = await within("before_turn", work)
    assert outcome.phases[0] == "custom note [ready]"
    assert outcome.recorder.custom("note")[0].payload == {"n": 1}


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (AgentEvent(AgentEventType.TEXT_DELTA, "s"), "may emit CUSTOM and COMPACTION events, not text_delta"),
        (AgentEvent(AgentEventType.RUN_COMPLETED, "s"), "not run_completed"),
        (AgentEvent(AgentEventType.CUSTOM, "t", name="x"), "is for session 't', not 's'"),
        (AgentEvent(AgentEventType.COMPACTION_TEXT_DELTA, "s"), "needs the phase compacting, not ready"),
        (AgentEvent(AgentEventType.COMPACTION_COMPLETED, "s"), "cannot pass from ready to ready"),
    ],
)
async def test_an_event_that_is_not_the_extensions_to_emit_is_refused(event: AgentEvent, says: str) -> None:
    async def work(context: AgentRunContext) -> None:
        with pytest.raises(AgentProtocolError, match=says):
            await context.emit(event)

    outcome, _ = await within("before_turn", work)
    assert outcome.error is None


async def test_compaction_events_move_the_phase() -> None:
    async def work(context: AgentRunContext) -> None:
        for kind in ("started", "reasoning_delta", "text_delta"):
            await context.emit(AgentEvent(AgentEventType(f"compaction_{kind}"), "s", delta="x"))
        await context.publish(CompactionEvent(1, 1, 2, 2, "x"))
        await context.emit(AgentEvent(AgentEventType.COMPACTION_COMPLETED, "s", applied=True))

    outcome, recorder = await within("before_model", work)
    assert outcome.phases[:4] == lines("""
        compaction_started [compacting]
        compaction_reasoning_delta [compacting]
        compaction_text_delta [compacting]
        compaction_completed [ready]
    """)
    assert [entry.phase for entry in recorder.of("on_event") if entry.detail == "Compaction"] == ["compacting"]


async def test_core_43_compaction_waits_until_every_call_has_its_result() -> None:
    refused: list[str] = []

    async def work(context: AgentRunContext) -> None:
        with pytest.raises(AgentProtocolError, match="must wait until every call of the turn has its result") as error:
            await context.emit(AgentEvent(AgentEventType.COMPACTION_STARTED, "s"))
        refused.append(str(error.value))

    steps = ([call("add", left=1, right=1), call("add", left=2, right=2)], "done")
    for hook in ("after_tool", "before_tool"):
        outcome, _ = await within(hook, work, tools=[add], steps=steps)
        assert outcome.error is None
    assert len(refused) == 2


async def test_a_notification_reaches_every_extension_or_the_one_that_is_named() -> None:
    class Ping(ExtensionEvent):
        __slots__ = ()

    async def work(context: AgentRunContext) -> None:
        await context.publish(Ping())
        await context.publish(Ping(), target="HookRecorder")
        for target in ("Nobody", " "):
            with pytest.raises(ValueError, match="names 0 extensions"):
                await context.publish(Ping(), target=target)

    outcome, recorder = await within("before_run", work)
    assert outcome.error is None
    assert [entry.detail for entry in recorder.of("on_event")].count("Ping") == 2


async def test_a_tool_is_registered_for_one_request() -> None:
    async def work(context: AgentRunContext) -> None:
        context.register_tool(add)
        with pytest.raises(ValueError, match="'add' is already registered"):
            context.register_tool(add)

    outcome, _ = await within("on_tool", work, steps=([call("add", left=1, right=1)], "done"))
    assert outcome.story[2] == "tool call_1 ok: 2"


async def test_a_server_tool_is_offered_with_a_copy_of_its_configuration() -> None:
    configuration: dict[str, Any] = {"max_uses": 1}
    definition = ServerToolDefinition("web_search", configuration)

    class Offers(AgentExtension):
        async def on_tool(self, context: AgentRunContext) -> None:
            context.register_server_tool(definition)
            configuration["max_uses"] = 99
            with pytest.raises(ValueError, match="'web_search' is already registered"):
                context.register_server_tool(definition)

    stage = await scene("done", extensions=[Offers()])
    await stage.play()
    assert stage.model.requests[0].server_tools == (ServerToolDefinition("web_search", {"max_uses": 1}),)


async def test_messages_added_in_setup_are_announced_once_the_context_is_loaded() -> None:
    async def work(context: AgentRunContext) -> None:
        context.add_message(SystemMessage(content="second"))
        context.add_message(SystemMessage(content="first"), index=1)

    outcome, recorder = await within("on_state", work, system_prompt="S")
    assert outcome.story == ["system S", "system first", "system second", "user hi", "assistant done"]
    assert appended(recorder)[:3] == ["MessageAppended(system)"] * 3
    loaded = [entry.detail for entry in recorder.of("on_event")].index("loading_context->ready")
    assert [entry.detail for entry in recorder.of("on_event")][:loaded].count("MessageAppended(system)") == 3


async def test_a_message_added_before_a_model_call_is_in_its_request() -> None:
    async def work(context: AgentRunContext) -> None:
        context.add_message(AgentMessage(content="note"))
        context.add_message_event(context.transcript.view()[-1])

    outcome, recorder = await within("before_model", work)
    assert outcome.story == ["user hi", "agent note", "assistant done"]
    assert appended(recorder) == ["MessageAppended(user)", "MessageAppended(agent)", "MessageAppended(assistant)"]


async def test_replacing_the_history_announces_what_is_new_unless_told_not_to() -> None:
    for emit_new, announced in ((True, ["MessageAppended(user)"]), (False, [])):

        async def work(context: AgentRunContext, emit_new: bool = emit_new) -> None:
            kept = context.transcript.view()[0]
            context.replace_messages([kept, UserMessage(content="summary")], emit_new=emit_new)

        outcome, recorder = await within("before_turn", work)
        assert outcome.story == ["user hi", "user summary", "assistant done"]
        assert appended(recorder)[1:-1] == announced


async def test_a_message_that_was_replaced_before_the_flush_is_not_announced() -> None:
    async def work(context: AgentRunContext) -> None:
        context.add_message(AgentMessage(content="gone"))
        context.replace_messages([UserMessage(content="new")])

    outcome, recorder = await within("before_turn", work)
    assert outcome.story == ["user new", "assistant done"]
    assert appended(recorder) == ["MessageAppended(user)", "MessageAppended(user)", "MessageAppended(assistant)"]


async def test_a_message_may_be_appended_and_announced_at_once() -> None:
    usage: list[object] = []

    class Usage(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, MessageAppendedEvent):
                usage.append(event.usage)

        async def before_run(self, context: AgentRunContext) -> None:
            await context.append_message(AssistantMessage(content="earlier"), usage=ModelUsage(1, 1))
            await context.append_message(UserMessage(content="and now"))

    stage = await scene("done", extensions=[Usage()])
    assert (await stage.play()).story == ["user hi", "assistant earlier", "user and now", "assistant done"]
    assert usage[1] == ModelUsage(1, 1)


async def test_the_request_is_rebuilt_for_each_before_model_hook() -> None:
    seen: list[list[str]] = []

    class Sees(AgentExtension):
        def __init__(self, name: str) -> None:
            self.name = name

        async def before_model(self, context: AgentRunContext, request: Any) -> None:
            seen.append(story(request.messages))
            context.add_message(AgentMessage(content=self.name))
            context.tools.pop("add", None)

    stage = await scene("done", extensions=[Sees("a"), Sees("b")], tools=[add])
    await stage.play()
    assert seen == [["user hi"], ["user hi", "agent a"]]
    assert stage.model.requests[0].tools == ()
    assert story(stage.model.requests[0].messages) == ["user hi", "agent a", "agent b"]
    assert stage.agent.tools == {"add": add}


async def test_net_04_the_offered_tools_are_the_same_object_while_nothing_changes() -> None:
    stage = await scene([call("add", left=1, right=1)], "done", tools=[add])
    await stage.play()
    first, second = stage.model.requests
    assert first.tools is second.tools


async def test_the_context_knows_its_request() -> None:
    contexts: list[AgentRunContext] = []

    async def work(context: AgentRunContext) -> None:
        contexts.append(context)
        assert context.pending_waits() == ()
        assert context.state.phase.value == "ready"

    class Known(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            await work(context)

    stage = await scene("done", extensions=[Known()])
    config = AgentRunConfig("s", "r", "parent")
    await stage.agent.run("hi", config=config, metadata={"a": 1}, tags={"b": 2})
    context = contexts[0]
    assert (context.session_id, context.request_id, context.state.parent_session_id) == ("s", "r", "parent")
    assert (context.metadata, context.tags) == ({"a": 1}, {"b": 2})
    assert context.agent is stage.agent and context.extensions == stage.agent.extensions
    assert context in {context}
    tool_context = ToolContext(context, "c", "t")
    assert tool_context.inject(ToolContext) is tool_context
    with pytest.raises(TypeError, match="a tool cannot ask for int"):
        tool_context.inject(int)
    for field in ("session_id", "request_id"):
        nameless = replace(context, config=AgentRunConfig())
        with pytest.raises(AgentProtocolError, match="the request has no"):
            getattr(nameless, field)
