"""GeneratorExit, KeyboardInterrupt and SystemExit from code of the application: one request ends with it, and whole."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attack.ledger import Ledger
from tests.attack.test_raising import HOOKS, calling, raising
from tests.engine.scenario import SESSION, add, scene
from zett_agent.agent import Agent
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask, SubAgentTaskStatus
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import ToolMessage
from zett_agent.model import ModelEvent, ModelRequest
from zett_agent.sync import SyncModelAdapter
from zett_agent.testing import EventRecorder, ScriptedModel, call, check_transcript, error, text
from zett_agent.tools.base import tool


@pytest.mark.parametrize("hook", HOOKS)
async def test_rule_7_a_hook_that_raises_generator_exit_fails_its_request(hook: str) -> None:
    ledger = Ledger()
    stage = await calling(raising(hook, GeneratorExit()), ledger)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentProtocolError) and isinstance(outcome.error.__cause__, GeneratorExit)
    assert outcome.lines[-1] == "run_failed AgentProtocolError" and not stage.agent.pending
    for account in ledger.accounts.values():
        account.check()


@pytest.mark.parametrize("hook", ["on_tool_call", "authorize_tool"])
async def test_rule_7_a_hook_around_a_tool_that_raises_generator_exit_is_the_calls_failure(hook: str) -> None:
    stage = await calling(raising(hook, GeneratorExit()))
    assert (await stage.play()).story[2:] == ["tool a failed: GeneratorExit", "assistant done"]


async def test_rule_7_on_error_that_raises_generator_exit_is_a_note() -> None:
    first = RuntimeError("first")
    stage = await scene(error(first), extensions=[raising("on_error", GeneratorExit())])
    outcome = await stage.play()
    assert outcome.error is first and outcome.lines[-1] == "run_failed RuntimeError"
    assert first.__notes__ == ["on_error failed while the request was closing: GeneratorExit"]


@pytest.mark.parametrize("limit", [None, 5.0])
async def test_rule_7_a_tool_that_raises_generator_exit_has_failed(limit: float | None) -> None:
    @tool(timeout=limit)
    async def gone() -> None:
        """Raise it."""
        await asyncio.sleep(0)
        raise GeneratorExit

    @tool(timeout=limit)
    def gone_in_a_thread() -> None:
        """Raise it."""
        raise GeneratorExit("there")

    calls = [call("gone", id="a"), call("gone_in_a_thread", id="b")]
    stage = await scene(calls, "done", tools=[gone, gone_in_a_thread])
    results = [message.text for message in (await stage.play()).messages if isinstance(message, ToolMessage)]
    assert results == ["GeneratorExit", "GeneratorExit: there"]


@pytest.mark.parametrize("hook", ["before_model", "after_tool", "on_tool_call"])
async def test_rule_7_a_generator_exit_that_comes_from_an_asyncio_task_fails_the_request_once(hook: str) -> None:
    """Awaiting such a task, Python closes every coroutine in between, and none of them may await anything then."""

    async def gone() -> None:
        raise GeneratorExit

    async def fail(*arguments: Any) -> None:
        await asyncio.ensure_future(gone())

    ledger = Ledger()
    extension = raising(hook, GeneratorExit())
    setattr(extension, hook, fail)
    stage = await calling(extension, ledger)
    outcome = await stage.play()
    assert isinstance(outcome.error, AgentProtocolError) and isinstance(outcome.error.__cause__, GeneratorExit)
    assert outcome.lines[-1] == "run_failed AgentProtocolError" and not stage.agent.pending
    for account in ledger.accounts.values():
        account.check()


@pytest.mark.parametrize("where", ["before_model", "tool", "on_error"])
def test_a_request_whose_loop_is_gone_is_destroyed_in_silence(where: str) -> None:
    """A real GeneratorExit: nothing may be awaited then, which Python would complain of."""

    async def stay(*arguments: Any) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        hooks = [] if where == "tool" else [raising(where, ValueError())]
        for extension in hooks:
            setattr(extension, where, stay)
        step = error(ValueError("x")) if where == "on_error" else call("stays")
        agent = await Agent.create(ScriptedModel([step]), extensions=hooks, tools=[tool(stay_in_a_tool, name="stays")])
        agents.append(agent)
        task = asyncio.ensure_future(agent.run("hi"))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        for _ in range(20):
            await asyncio.sleep(0)

    async def stay_in_a_tool() -> None:
        """Stay."""
        await stay()

    agents: list[Agent] = []
    unraisable: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    loop = asyncio.new_event_loop()
    try:
        loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending", as it should
        loop.run_until_complete(main())
        loop.close()
        assert agents[0]._sessions.runs and not agents[0].pending  # it is there, and can never end
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine of a cleanup that is never awaited
            agents.clear()
            gc.collect()
    finally:
        sys.unraisablehook = before
    assert not [one for one in unraisable if "ignored GeneratorExit" in str(one.exc_value)], unraisable


class Outer:
    """Where a KeyboardInterrupt comes from, below the request that must end with it."""

    def __init__(self, place: str) -> None:
        self.place = place

    def tools(self) -> list[Any]:
        @tool(timeout=5.0 if self.place == "timeout" else None)
        async def interrupted() -> None:
            """Is interrupted."""
            await asyncio.sleep(0)
            raise KeyboardInterrupt

        @tool(name="interrupted")
        def in_a_thread() -> None:
            """Is interrupted."""
            raise KeyboardInterrupt

        return [in_a_thread if self.place == "thread" else interrupted, add]

    def agent(self, ledger: Ledger) -> Any:
        calls = [call("interrupted"), call("add", left=1, right=1)]
        if self.place != "subagent":
            return Agent.create(ScriptedModel(calls, "done"), config=SESSION, tools=self.tools(), extensions=[ledger])
        child = SubAgentDefinition("child", "c", "c", ScriptedModel(calls), tools=self.tools(), extensions=[ledger])
        delegated = call("task", description="d", prompt="p", subagent_type="child")
        model = ScriptedModel(delegated, "done")
        return Agent.create(model, config=SESSION, extensions=[SubAgentExtension([child]), ledger])


@pytest.mark.parametrize("place", ["tool", "timeout", "thread", "subagent"])
def test_rule_8_ctrl_c_within_a_tool_reaches_whoever_awaits_the_request_and_leaves_the_loop_alone(place: str) -> None:
    async def main() -> None:
        ledger = Ledger()
        agent = await Outer(place).agent(ledger)
        beside = asyncio.ensure_future(asyncio.Event().wait())
        recorder = EventRecorder()
        with pytest.raises(KeyboardInterrupt):
            await recorder.record(agent.stream("hi"))
        assert recorder.events[-1].type is AgentEventType.RUN_FAILED
        assert agent.state.phase is AgentPhase.FAILED and not agent.pending
        check_transcript(agent.state.messages)
        for account in ledger.accounts.values():
            account.check()
        assert asyncio.all_tasks() == {asyncio.current_task(), beside} and not beside.done()
        beside.cancel()
        answer = await agent.run("again")
        assert answer.content == "done"

    asyncio.run(main())


PROGRAM = """
import asyncio, os, signal
from zett_agent import Agent, tool
from zett_agent.testing import ScriptedModel, call, check_transcript

@tool
async def interrupted() -> None:
    "A person presses Ctrl-C while this runs."
    {inside}
    await asyncio.Event().wait()

async def main():
    agent = await Agent.create(ScriptedModel(call("interrupted"), "done"), tools=[interrupted])
    try:
        await agent.run("hi")
    except BaseException as error:
        check_transcript(agent.state.messages)
        print(type(error).__name__, agent.state.phase.value, agent.pending, flush=True)
        if isinstance(error, KeyboardInterrupt):
            print((await agent.run("again")).content, flush=True)
        raise

{run}
"""


@pytest.mark.parametrize(
    ("inside", "run", "said"),
    [
        # Python's own handler raises in the code that runs, here the tool.
        ("os.kill(os.getpid(), signal.SIGINT)", "asyncio.new_event_loop().run_until_complete(main())", "failed"),
        # asyncio.run turns the first into a cancel of the main task.
        ("os.kill(os.getpid(), signal.SIGINT)", "asyncio.run(main())", "cancelled"),
        ("raise KeyboardInterrupt", "asyncio.run(main())", "failed"),
    ],
)
def test_rule_8_a_process_that_gets_ctrl_c_within_a_tool_ends_by_it_and_its_history_is_whole(
    inside: str, run: str, said: str
) -> None:
    program = textwrap.dedent(PROGRAM).format(inside=inside, run=run)
    command = [sys.executable, "-c", "import signal; signal.signal(2, signal.default_int_handler)\n" + program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    seen = {"failed": ["KeyboardInterrupt failed False", "done"], "cancelled": ["CancelledError cancelled False"]}
    assert ended.stdout.splitlines() == seen[said], ended.stderr
    assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert ended.returncode == -signal.SIGINT


@pytest.mark.parametrize("failure", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
async def test_rule_7_a_blocking_model_that_raises_what_ends_a_loop_fails_its_request(failure: BaseException) -> None:
    class Quits:
        def stream(self, request: ModelRequest) -> Iterator[ModelEvent]:
            raise failure

    agent = await Agent.create(SyncModelAdapter(Quits()), config=SESSION)
    expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else AgentProtocolError
    with pytest.raises(expected):
        await agent.run("hi")
    assert agent.state.phase is AgentPhase.FAILED and not agent.pending


async def test_rule_7_an_observer_of_background_tasks_that_exits_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Quits(AsyncSubAgentExtension):
        async def task_finished(self, task: SubAgentTask) -> None:
            sys.exit(3)

    child = SubAgentDefinition("child", "c", "c", ScriptedModel("report"))
    extension = Quits([child])
    model = ScriptedModel([text("x"), call("task_start", description="d", prompt="p", subagent_type="child")], "done")
    agent = await Agent.create(model, config=SESSION, extensions=[extension])
    await agent.run("hi")
    task = await extension.wait(extension.tasks("s")[0])
    assert task.status is SubAgentTaskStatus.COMPLETED and "task_finished failed" in caplog.text


async def test_rule_8_a_request_whose_asyncio_task_is_cancelled_before_its_first_step_says_so() -> None:
    class Cancels(Ledger):
        def request_started(self, context: Any) -> None:
            super().request_started(context)
            asyncio.get_running_loop().call_soon(cancel_the_request)

    def cancel_the_request() -> None:
        for task in asyncio.all_tasks():
            if task.get_name().startswith("zett request"):
                task.cancel()

    ledger = Cancels()
    agent = await Agent.create(ScriptedModel(), config=SESSION, extensions=[ledger])
    recorder = await EventRecorder().record(agent.stream("hi"))
    assert recorder.types == ["run_cancelled"] and not agent.pending
    for account in ledger.accounts.values():
        account.check()
