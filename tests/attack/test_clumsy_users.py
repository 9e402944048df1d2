"""What a program that only has the README may do wrong, and what it must see: a clear error, or no harm at all."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import CONFIG, MISUSE, Says, history, hooked, look, made, played, ticks
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ToolCall
from zett_agent.model import ModelRequest, ModelResponse
from zett_agent.testing import FunctionModel, ScriptedModel, call, check_transcript, error, text
from zett_agent.tools.base import tool

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
from zett_agent import Agent, AgentProtocolError
from zett_agent.testing import FunctionModel
async def begin():
    stream = (await Agent.create(FunctionModel(lambda request: "hello"))).stream("go")
    await anext(stream)
    return stream
async def go_on(stream):
    try:
        return [event.type.value async for event in stream]
    except AgentProtocolError as refused:
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


# Bad arguments are named where they are given.


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
