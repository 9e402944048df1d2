"""Nobody poisons a history with what no provider can send: it would fail every later request of its session."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import (
    CONFIG,
    MISUSE,
    WRONG,
    Says,
    answered,
    edited,
    history,
    hooked,
    look,
    made,
    played,
)
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.events import InternalMessageEvent, SteeringMessageEvent
from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call, check_transcript, text
from zett_agent.waits import ExternalEvent

CONTENTS: list[Any] = [None, 5, b"x", {"a": 1}, ["a"], [None], ("a",)]
PICTURE = ImageUrlSource("https://a/b.png")


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
@pytest.mark.parametrize("kind", [SystemMessage, UserMessage, AssistantMessage, AgentMessage, ToolMessage])
def test_a_message_is_not_made_with_a_wrong_content(kind: Any, content: Any) -> None:
    fields: dict[str, Any] = {"tool_call_id": "c", "name": "t"} if kind is ToolMessage else {}
    with pytest.raises(TypeError, match="content must"):
        kind(content=content, **fields)


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("source", lambda: ImageContent(source=WRONG)),
        ("detail", lambda: ImageContent(PICTURE, detail=WRONG)),
        ("alt_text", lambda: ImageContent(PICTURE, alt_text=WRONG)),
        ("text", lambda: TextContent(text=WRONG)),
        ("url", lambda: ImageUrlSource(WRONG)),
        ("media_type", lambda: ImageBytesSource(data=b"x", media_type=WRONG)),
        ("data", lambda: ImageBytesSource(data=WRONG, media_type="image/png")),
        ("reasoning", lambda: AssistantMessage(reasoning=WRONG)),
        ("tool_calls", lambda: AssistantMessage(tool_calls=WRONG)),
        ("tool_calls", lambda: AssistantMessage(tool_calls=(call for call in [ToolCall("c", "t")]))),  # type: ignore[arg-type]
        ("tool_calls", lambda: AssistantMessage(tool_calls=[WRONG])),
        ("tool_calls", lambda: AssistantMessage(tool_calls="abc")),  # type: ignore[arg-type]
    ],
)
def test_a_part_of_a_message_checks_what_it_is_made_of(field: str, build: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=f"{field} must"):
        build()


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
async def test_an_input_with_a_wrong_content_is_refused_before_anything_is_changed(content: Any) -> None:
    agent = await made(FunctionModel(lambda request: "hello"))
    with pytest.raises(MISUSE, match="content"):
        await agent.run(edited(UserMessage(content=""), content=content), config=CONFIG)
    assert agent.get_state("clumsy") is None and not agent.pending


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
async def test_rule_1_an_input_that_on_message_breaks_fails_its_request_and_no_later_one(content: Any) -> None:
    async def poison(context: AgentRunContext) -> None:
        if context.input_message is not None and context.input_message.text == "go":
            context.input_message.content = content

    agent = await made(FunctionModel(lambda request: "hello"), extensions=[hooked("on_message", poison)])
    _, failure = await played(agent)
    assert isinstance(failure, TypeError) and "content" in str(failure)
    assert (await agent.run("again", config=CONFIG)).content == "hello"
    assert [message.content for message in history(agent)[1:]] == ["again", "hello"]


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
async def test_rule_1_a_result_that_after_tool_breaks_is_closed_with_a_failed_one(content: Any) -> None:
    async def poison(context: Any, call: Any, result: ToolMessage, error: Any) -> None:
        result.content = content

    agent = await made(
        ScriptedModel([call("look")], [text("x")]), tools=[look], extensions=[hooked("after_tool", poison)]
    )
    seen, failure = await played(agent)
    assert isinstance(failure, TypeError) and "content" in str(failure)
    assert history(agent)[-1].text.startswith("It ran to its end, but its result was lost")
    assert seen.types[-2:] == ["tool_failed", "run_failed"]
    check_transcript(history(agent))


CONTEXT: dict[str, Callable[[AgentRunContext], Any]] = {
    "append_message": lambda context: context.append_message(WRONG),
    "add_message": lambda context: context.add_message(WRONG),
    "insert": lambda context: context.add_message(WRONG, index=0),
    "replace_messages": lambda context: context.replace_messages([*context.state.messages, WRONG]),
    "emit": lambda context: context.emit(WRONG),
    "emit_nowait": lambda context: context.emit_nowait(WRONG),
    "publish": lambda context: context.publish(WRONG),
    "register_tool": lambda context: context.register_tool(WRONG),
    "register_server_tool": lambda context: context.register_server_tool(WRONG),
}


@pytest.mark.parametrize("method", CONTEXT)
async def test_a_context_refuses_what_is_no_message_event_or_tool_and_changes_nothing(method: str) -> None:
    async def misuse(context: AgentRunContext) -> None:
        before = list(context.state.messages)
        try:
            result = CONTEXT[method](context)
            if inspect.isawaitable(result):
                await result
        finally:
            assert context.state.messages == before

    _, failure = await played(await made(Says(), extensions=[hooked("before_run", misuse)]))
    assert isinstance(failure, TypeError) and "not object" in str(failure)


POISONED: dict[str, Callable[[], Any]] = {
    "user": lambda: edited(UserMessage(content=""), content=["a"]),
    "assistant": lambda: edited(AssistantMessage(), content=b"x"),
    "calls": lambda: edited(AssistantMessage(), tool_calls=[1]),
    "arguments": lambda: AssistantMessage(tool_calls=[ToolCall("c", "look", {"at": [object()]})]),
    "agent": lambda: edited(AgentMessage(content=""), content=None),
    "system": lambda: edited(SystemMessage(content=""), content=5),
    "twins": lambda: AssistantMessage(tool_calls=[ToolCall("c", "look"), ToolCall("c", "look")]),
}


@pytest.mark.parametrize("method", ["append_message", "add_message", "insert", "replace_messages"])
@pytest.mark.parametrize("kind", POISONED)
async def test_rule_1_a_message_that_cannot_be_sent_enters_no_history(method: str, kind: str) -> None:
    async def misuse(context: AgentRunContext) -> None:
        message = POISONED[kind]()
        if method == "append_message":
            await context.append_message(message)
        elif method == "replace_messages":
            context.replace_messages([*context.state.messages, message])
        else:
            context.add_message(message, index=0 if method == "insert" else None)

    agent = await made(Says(), extensions=[hooked("before_run", misuse)], tools=[look])
    _, failure = await played(agent)
    if kind == "twins" and method == "replace_messages":  # what a history of unknown origin gets mended
        assert failure is None
    else:
        assert isinstance(failure, (*MISUSE, AgentProtocolError))
        assert [type(message) for message in history(agent)] == [SystemMessage, UserMessage]
    check_transcript(history(agent))


async def test_a_steering_message_that_was_broken_since_it_was_made_is_refused() -> None:
    taken: list[Any] = []

    def steer(_: Any) -> None:
        message = edited(UserMessage(content="new"), content=[None])
        taken.append(agent.emit_external_event(ExternalEvent("steering_message", {"message": message}), config=CONFIG))

    agent = await made(Says(answered(tool_calls=[ToolCall("c", "look")])), tools=[look])
    await EventRecorder().when("tool_started", steer).record(agent.stream("go", config=CONFIG))
    assert taken == [[]] and history(agent)[-1].content == "fine"


@pytest.mark.parametrize(
    ("kind", "message"),
    [(SteeringMessageEvent, UserMessage(content="")), (InternalMessageEvent, AgentMessage(content=""))],
)
def test_a_notification_with_a_message_checks_its_content(kind: Any, message: Any) -> None:
    with pytest.raises(TypeError, match="content"):
        kind(edited(message, content=b"x"))
