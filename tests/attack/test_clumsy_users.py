"""What a program that only has the README may do wrong, and what it must see: a clear error, or no harm at all."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from zett_agent import exceptions
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.goal import GoalExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AssistantMessage, ImageBytesSource, ImageContent, TextContent, ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse, RetryOptions
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call, check_transcript, error, text
from zett_agent.tools.base import tool
from zett_agent.waits import ExternalEvent

CONFIG = AgentRunConfig(session_id="clumsy")
MISUSE = (TypeError, ValueError)
WRONG: Any = object()


@tool
async def look(at: object = None) -> str:
    """Look at something."""
    return "seen"


async def made(model: Any, **options: Any) -> Agent:
    return await Agent.create(model, config=CONFIG, **options)


async def played(agent: Agent) -> tuple[EventRecorder, BaseException | None]:
    """One request to its end, with the error that the consumer saw."""
    seen = EventRecorder()
    try:
        await seen.record(agent.stream("go", config=CONFIG))
    except BaseException as failure:
        return seen, failure
    return seen, None


def history(agent: Agent) -> list[Any]:
    state = agent.get_state("clumsy")
    assert state is not None
    return list(state.messages)


async def ticks() -> None:
    """Everything that can happen by itself has happened."""
    for _ in range(500):
        await asyncio.sleep(0)


class Says:
    """A model that yields what it is given, then answers properly."""

    retry = RetryOptions(max_retries=0)

    def __init__(self, *events: Any) -> None:
        self.events: list[Any] = list(events)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        events, self.events = self.events, []
        for event in events or [answered(content="fine")]:
            if isinstance(event, BaseException):
                raise event
            yield event


def answered(**message: Any) -> ModelEvent:
    return ModelEvent.completed(ModelResponse(message=AssistantMessage(**message)))


def hooked(hook: str, work: Callable[..., Any]) -> AgentExtension:
    extension = AgentExtension()
    setattr(extension, hook, work)
    return extension


# GeneratorExit is an exception like any other when somebody raises it and the loop runs on.

HOOKS = ["on_tool", "before_run", "after_model", "before_tool", "after_tool", "after_run", "on_success", "on_event"]


@pytest.mark.parametrize("hook", HOOKS)
async def test_rule_8_a_hook_that_raises_generator_exit_fails_its_request_with_one_terminal_event(hook: str) -> None:
    async def leave(*given: Any) -> None:
        raise GeneratorExit

    agent = await made(ScriptedModel([call("look")], [text("x")]), tools=[look], extensions=[hooked(hook, leave)])
    seen, failure = await played(agent)
    assert isinstance(failure, AgentProtocolError) and seen.types[-1] == "run_failed"
    check_transcript(history(agent))


async def test_rule_8_a_model_that_raises_generator_exit_fails_its_request_with_one_terminal_event() -> None:
    seen, failure = await played(await made(Says(GeneratorExit())))
    assert isinstance(failure, AgentProtocolError) and seen.types[-1] == "run_failed"


@pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
async def test_rule_7_a_tool_that_raises_generator_exit_is_that_calls_failed_result(plain: bool) -> None:
    async def leave() -> None:
        """Leave."""
        raise GeneratorExit

    def leave_at_once() -> None:
        """Leave."""
        raise GeneratorExit

    tools = [tool(name="leave")(leave_at_once if plain else leave)]
    agent = await made(ScriptedModel([call("leave")], [text("x")]), tools=tools)
    _, failure = await played(agent)
    assert failure is None and "GeneratorExit" in history(agent)[-2].content


async def test_rule_7_a_group_of_exceptions_tells_the_model_what_is_in_it() -> None:
    @tool
    async def groups() -> None:
        """Fail together."""
        raise ExceptionGroup("unhandled errors", [ValueError("the real reason")])

    agent = await made(ScriptedModel([call("groups")], [text("x")]), tools=[groups])
    await played(agent)
    assert "the real reason" in history(agent)[-2].content


# A cancel that nobody ordered is nobody's order.


async def test_rule_7_a_tool_that_leaves_a_cancel_behind_harms_its_own_call_only() -> None:
    @tool
    async def leaves() -> str:
        """Cancel, and return before it takes effect."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    agent = await made(ScriptedModel([call("leaves")], [text("x")]), tools=[leaves])
    assert (await played(agent))[0].types[-1] == "run_completed"


async def test_a_request_that_completed_does_not_cancel_whoever_awaits_it() -> None:
    async def leave(*given: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    agent = await made(Says(), extensions=[hooked("on_success", leave)])
    request = asyncio.create_task(agent.run("go", config=CONFIG))
    await asyncio.wait({request})
    assert not request.cancelled()


async def test_rule_8_stop_reaches_an_on_error_that_never_returns() -> None:
    reached = asyncio.Event()

    async def hang(*given: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    agent = await made(ScriptedModel([error(KeyError("x"))]), extensions=[hooked("on_error", hang)])
    request = asyncio.create_task(agent.run("go", config=CONFIG))
    await reached.wait()
    agent.stop(CONFIG)
    await ticks()
    ended = request.done()
    request.cancel()
    await asyncio.wait({request})
    assert ended


# A session is free when its request has ended, whatever the consumer does.


@pytest.mark.parametrize("ending", ["stop", "aclose"])
async def test_a_consumer_that_reads_no_more_does_not_keep_the_session_of_a_stopped_request(ending: str) -> None:
    agent = await made(FunctionModel(lambda request: "hello"))
    stream = agent.stream("go", config=CONFIG)
    await anext(stream)
    if ending == "stop":
        assert agent.stop(CONFIG)
    else:
        await agent.aclose()
    await ticks()
    busy = agent.is_conflict("clumsy")
    await stream.aclose()  # type: ignore[attr-defined]
    assert not busy


async def test_the_session_of_a_stream_that_was_left_by_break_is_free_for_the_next_request() -> None:
    agent = await made(FunctionModel(lambda request: "hello"))
    async for event in agent.stream("go", config=CONFIG):
        if event.type == "text_delta":
            break
    assert (await agent.run("again", config=CONFIG)).content == "hello"


LOOP_CLOSED = """
import asyncio
from zett_agent import Agent, AgentRunConfig
from zett_agent.testing import FunctionModel
config = AgentRunConfig(session_id="s")
async def begin():
    agent = await Agent.create(FunctionModel(lambda request: "hello"), config=config)
    stream = agent.stream("go")
    await anext(stream)
    return agent, stream
loop = asyncio.new_event_loop()
agent, stream = loop.run_until_complete(begin())
loop.close()
agent.stop(config)
print(asyncio.run(agent.run("again", config=config)).content)
"""

OTHER_LOOP = """
import asyncio
from zett_agent import Agent
from zett_agent.testing import FunctionModel
async def begin():
    stream = (await Agent.create(FunctionModel(lambda request: "hello"))).stream("go")
    await anext(stream)
    return stream
async def go_on(stream):
    try:
        return [event.type.value async for event in stream]
    except RuntimeError as refused:
        return refused
loop = asyncio.new_event_loop()
stream = loop.run_until_complete(begin())
print("loop" in str(asyncio.run(go_on(stream))))
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
"""

EMIT_IN_THREAD = """
import asyncio
from zett_agent import Agent, ToolContext, tool
from zett_agent.testing import ScriptedModel, call, text
@tool
def work(context: ToolContext) -> str:
    "Work."
    asyncio.run(context.emit("progress", {"done": 1}))
    return "worked"
async def main():
    agent = await Agent.create(ScriptedModel([call("work")], [text("done")]), tools=[work])
    print((await agent.run("go")).content)
asyncio.run(main(), debug=True)
"""


def printed(program: str) -> str:
    """What a program prints that is given ten seconds: a hang that no cancel ends must not take the tests along."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip()


def test_a_request_whose_loop_is_closed_keeps_its_session_from_nobody() -> None:
    assert printed(LOOP_CLOSED) == "hello"


def test_a_stream_that_is_continued_on_another_loop_says_so_and_does_not_hang() -> None:
    assert printed(OTHER_LOOP) == "True"


def test_a_plain_tool_that_emits_from_a_loop_of_its_own_does_not_hang_the_request() -> None:
    assert printed(EMIT_IN_THREAD) == "done"


# The history is the runtime's: nobody poisons it with a value that is wrong, or edits it from outside.


async def test_rule_1_an_answer_that_its_caller_edits_changes_no_later_request() -> None:
    requests: list[list[Any]] = []

    def keep(request: ModelRequest) -> str:
        requests.append(copy.deepcopy(list(request.messages)))
        return "said"

    agent = await made(FunctionModel(keep))
    answer = await agent.run("one", config=CONFIG)
    answer.content, answer.tool_calls = "edited", [ToolCall("forged", "look")]
    for message in ("two", "three"):
        await agent.run(message, config=CONFIG)
    assert [message.content for message in requests[-1][1:]] == ["one", "said", "two", "said", "three"]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


ARGUMENTS: dict[str, Any] = {
    "deep": nested(10_000),
    "object": {"at": object()},
    "nan": {"at": float("nan")},
    "keys": {1: 2},
}


@pytest.mark.parametrize("name", ["look", "unknown"])
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
async def test_rule_1_arguments_that_are_no_json_fail_their_call_and_stay_out_of_the_history(
    arguments: dict[str, Any], name: str
) -> None:
    agent = await made(Says(answered(tool_calls=[ToolCall("c", name, arguments)])), tools=[look])
    _, failure = await played(agent)
    kept = [call.arguments for message in history(agent) for call in getattr(message, "tool_calls", ())]
    assert failure is None and json.loads(json.dumps(kept, allow_nan=False)) == kept


NO_EVENTS: dict[str, list[Any]] = {
    "none": [None],
    "str": ["hello"],
    "response": [ModelEvent.completed(WRONG)],
    "content-list": [answered(content=["x"])],
    "content-bytes": [answered(content=b"x")],
    "calls-int": [answered(tool_calls=[1])],
    "calls-str": [answered(tool_calls="abc")],
    "delta": [ModelEvent.text(WRONG), answered(content="fine")],
}


@pytest.mark.parametrize("events", NO_EVENTS.values(), ids=NO_EVENTS)
async def test_a_model_that_yields_what_is_no_model_event_fails_with_a_protocol_error(events: list[Any]) -> None:
    _, failure = await played(await made(Says(*events)))
    assert isinstance(failure, AgentProtocolError)


@pytest.mark.parametrize("content", [None, 5, b"x", {"a": 1}, ["a"], [None]], ids=repr)
async def test_a_user_message_with_a_wrong_content_is_refused_before_anything_is_changed(content: Any) -> None:
    agent = await made(FunctionModel(lambda request: "hello"))
    with pytest.raises(MISUSE, match="content"):
        await agent.run(UserMessage(content=content), config=CONFIG)
    assert agent.get_state("clumsy") is None


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("source", lambda: ImageContent(source=WRONG)),
        ("text", lambda: TextContent(text=WRONG)),
        ("media_type", lambda: ImageBytesSource(data=b"x", media_type=WRONG)),
        ("data", lambda: ImageBytesSource(data=WRONG, media_type="image/png")),
        ("message", lambda: ModelResponse(message=WRONG)),
        ("stop", lambda: ModelResponse(message=AssistantMessage(), stop=WRONG)),
    ],
)
def test_a_part_of_a_message_or_a_response_checks_what_it_is_made_of(field: str, build: Callable[[], object]) -> None:
    with pytest.raises(MISUSE, match=field):
        build()


CONTEXT: dict[str, Callable[[AgentRunContext], Any]] = {
    "append_message": lambda context: context.append_message(WRONG),
    "add_message": lambda context: context.add_message(WRONG),
    "replace_messages": lambda context: context.replace_messages([WRONG]),
    "emit": lambda context: context.emit(WRONG),
    "publish": lambda context: context.publish(WRONG),
    "register_tool": lambda context: context.register_tool(WRONG),
}


@pytest.mark.parametrize("method", CONTEXT)
async def test_a_context_refuses_what_is_no_message_event_or_tool_and_names_its_type(method: str) -> None:
    async def misuse(context: AgentRunContext) -> None:
        result = CONTEXT[method](context)
        if inspect.isawaitable(result):
            await result

    agent = await made(Says(), extensions=[hooked("before_run", misuse), InMemoryMessageAccumulator()])
    _, failure = await played(agent)
    assert isinstance(failure, (*MISUSE, AgentProtocolError)) and "not object" in str(failure)


@pytest.mark.parametrize("hook", ["before_tool", "after_model"])
async def test_rule_1_calls_that_a_hook_gives_other_ids_leave_a_history_that_is_paired(hook: str) -> None:
    async def change(context: AgentRunContext, given: Any, *more: Any) -> None:
        if isinstance(given, ModelResponse):
            given.message.tool_calls = [*given.message.tool_calls, ToolCall("new", "look")]
        else:
            given.id = "other"

    agent = await made(ScriptedModel([call("look")], [text("x")]), tools=[look], extensions=[hooked(hook, change)])
    await played(agent)
    check_transcript(history(agent))


async def test_rule_6_an_answer_that_no_model_can_be_told_is_refused_and_the_question_stays_open() -> None:
    agent = await made(
        ScriptedModel([call("ask_user", id="q", question="?")], [text("x")]), extensions=[AskUserExtension()]
    )
    taken: list[list[str]] = []

    def reply(event: AgentEvent) -> None:
        for value in (object(), "yes"):
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": value})
            taken.append(agent.emit_external_event(answer, config=CONFIG))

    await EventRecorder().when("custom", reply).record(agent.stream("go", config=CONFIG))
    assert taken == [[], ["AskUserExtension"]]


@pytest.mark.parametrize("copy_of", ["event", "wait"])
async def test_strict_options_are_those_of_the_model_whatever_a_consumer_adds_to_what_it_shows(copy_of: str) -> None:
    question = call("ask_user", id="q", question="?", options=["red"])
    agent = await made(ScriptedModel([question], [text("x")]), extensions=[AskUserExtension(strict_options=True)])
    taken: list[list[str]] = []

    def reply(event: AgentEvent) -> None:
        shown: Any = event.payload if copy_of == "event" else agent.pending_waits()[0].question
        with suppress(TypeError, AttributeError):  # a view that cannot be changed is as good
            shown["options"].append("other")
        for value in ("other", "red"):
            answer = ExternalEvent("ask_user_response", {"tool_call_id": "q", "answer": value})
            taken.append(agent.emit_external_event(answer, config=CONFIG))

    await EventRecorder().when("custom", reply).record(agent.stream("go", config=CONFIG))
    assert taken == [[], ["AskUserExtension"]]


async def test_a_call_that_waits_for_a_thread_when_it_is_stopped_is_said_not_to_have_run() -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    def blocks() -> None:
        """Block."""
        release.wait(15)

    @tool
    def late() -> None:
        """Never begin."""

    async def stop_in_the_queue() -> None:
        await ticks()
        agent.stop(CONFIG)

    agent = await made(ScriptedModel([call("blocks")] * 140, [call("late")]), tools=[blocks, late])
    stops: list[asyncio.Task[None]] = []
    async for event in agent.stream("go", config=CONFIG):
        if event.type == "tool_started" and event.tool_calls[0].name == "late":
            stops.append(asyncio.create_task(stop_in_the_queue()))
    release.set()
    await stops[0]
    assert history(agent)[-1].content.startswith("Not run")


# Bad arguments are named where they are given.

DOOR: dict[str, tuple[str, Callable[[Agent], Any]]] = {
    "run": ("config", lambda agent: agent.run("go", config=WRONG)),
    "stop": ("config", lambda agent: agent.stop(WRONG)),
    "pending_waits": ("config", lambda agent: agent.pending_waits(config=WRONG)),
    "emit-config": ("config", lambda agent: agent.emit_external_event(ExternalEvent("x", {}), config=WRONG)),
    "emit-event": ("event", lambda agent: agent.emit_external_event(WRONG)),
    "model": ("model", lambda agent: agent.run("go", model=WRONG)),
}


@pytest.mark.parametrize("use", DOOR)
async def test_the_door_names_the_argument_that_is_wrong(use: str) -> None:
    field, work = DOOR[use]
    agent = await made(Says())
    with pytest.raises(MISUSE, match=field):
        await work(agent)


@pytest.mark.parametrize("option", ["system_prompt", "tools", "extensions", "store"])
async def test_an_agent_names_the_option_that_is_wrong(option: str) -> None:
    with pytest.raises(MISUSE, match=option):
        await made(Says(), **{option: 5})


CONSTRUCTORS: dict[str, tuple[str, Callable[[], object]]] = {
    "approve": ("approve", lambda: PermissionExtension(approve=WRONG)),
    "policy": ("policy", lambda: PermissionExtension(WRONG)),
    "when": ("when", lambda: PermissionRule("x", "ask", "why", when=WRONG)),
    "evaluator": ("SubAgentDefinition", lambda: GoalExtension(WRONG)),
    "arming_seconds": ("arming_seconds", lambda: GoalExtension(arming_seconds=WRONG)),
    "child-model": ("model", lambda: SubAgentDefinition("n", "d", "p", WRONG)),
    "children": ("SubAgentDefinition", lambda: SubAgentExtension([WRONG])),
    "background": ("SubAgentDefinition", lambda: AsyncSubAgentExtension(WRONG)),
}


@pytest.mark.parametrize("use", CONSTRUCTORS)
def test_a_constructor_names_the_argument_that_is_wrong(use: str) -> None:
    field, build = CONSTRUCTORS[use]
    with pytest.raises(MISUSE, match=field):
        build()


def plain(*given: Any) -> None:
    return None


async def promised(*given: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("hook", "work"), [("before_run", plain), ("on_event", plain), ("accept", promised), ("request_started", promised)]
)
async def test_a_hook_that_is_async_and_should_not_be_or_the_reverse_is_named_when_the_agent_is_made(
    hook: str, work: Any
) -> None:
    with pytest.raises(MISUSE, match=hook):
        await made(Says(), extensions=[type("Clumsy", (AgentExtension,), {hook: work})()])


@pytest.mark.parametrize(("field", "value"), [("priority", None), ("priority", "5"), ("subscribes", None)])
async def test_an_extension_with_a_wrong_attribute_is_named_when_the_agent_is_made(field: str, value: Any) -> None:
    clumsy = type("Clumsy", (AgentExtension,), {field: value, "on_event": promised})()
    with pytest.raises(MISUSE, match=field):
        await made(Says(), extensions=[clumsy, AgentExtension()])


ERRORS = [
    exceptions.SessionBusyError("s", "holder"),
    exceptions.AgentResumeError("reason", "message"),
    exceptions.AgentStopError(StopInfo(StopReason.REFUSAL)),
    exceptions.ProviderRefusalError(StopInfo(StopReason.REFUSAL)),
    exceptions.ProviderHTTPError("message", status_code=500),
    exceptions.ProviderTimeoutError("message", phase="idle", seconds=1.0),
]


@pytest.mark.parametrize("failure", ERRORS, ids=lambda failure: type(failure).__name__)
def test_an_error_passes_between_processes_as_it_is(failure: exceptions.AgentError) -> None:
    arrived = pickle.loads(pickle.dumps(failure))
    assert (type(arrived), str(arrived), vars(arrived)) == (type(failure), str(failure), vars(failure))
