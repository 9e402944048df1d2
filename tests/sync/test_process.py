"""What only a process of its own can show: its end, a fork, a real Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from subprocess import PIPE

import pytest

HEAD = """
import asyncio, os, sys, threading
from zett_agent import create_agent_sync
from zett_agent.sync import SyncRuntime
from zett_agent.testing import FunctionModel

async def stay():
    print("inside", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)

def thread(function):
    threading.Thread(target=function, daemon=True).start()
"""


def start(body: str) -> subprocess.Popen[str]:
    # -W: a process that forks while it has threads is warned, from Python 3.12 on
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", HEAD + textwrap.dedent(body)]
    return subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True)


def run(body: str) -> tuple[list[str], str, int]:
    with start(body) as process:
        out, err = process.communicate(timeout=15)
        return out.splitlines(), err, process.returncode


def test_a_process_ends_though_its_agent_was_never_closed() -> None:
    out, err, code = run("""
        agent = create_agent_sync(FunctionModel(lambda _: "hi"))
        print(agent.run("hi").content)
        list(agent.stream("hi"))
        next(unfinished := agent.stream("hi"))
    """)
    assert (out, err, code) == (["hi"], "", 0)


def test_the_end_of_a_process_cleans_up_what_runs_and_does_not_wait_for_what_does_not_stop() -> None:
    out, _, code = run("""
        runtime = SyncRuntime()
        stuck = threading.Event()

        async def stubborn():
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    stuck.set()

        async def both():
            other = asyncio.create_task(stubborn())
            await stay()

        thread(lambda: runtime.call(both))
        runtime.call(asyncio.sleep, 0.1)
    """)
    assert out == ["inside", "cleaned up"]
    assert code == 0


def test_the_end_of_a_process_does_not_wait_for_a_blocked_loop() -> None:
    out, err, code = run("""
        import time
        runtime, inside = SyncRuntime(), threading.Event()
        thread(lambda: runtime.call(lambda: (inside.set(), time.sleep(60))))
        inside.wait()
        print("end")
    """)
    assert (out[0], code) == ("end", 0)
    assert "its thread was left behind" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_a_thread_of_its_own_and_the_parent_keeps_its_own() -> None:
    out, err, code = run("""
        agent = create_agent_sync(FunctionModel(lambda _: "hi"))
        runtime = agent.runtime
        begun = agent.stream("hi")
        next(begun)
        child = os.fork()
        if child == 0:
            try:
                next(begun)
            except RuntimeError as error:
                print("child:", error, flush=True)
            print("child:", agent.runtime.call(lambda: threading.current_thread().name), flush=True)
            runtime.close()
            print("child:", runtime.closed, flush=True)
            sys.exit(7)
        print("parent:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("parent:", [event.type.value for event in begun][-1], runtime.closed)
        agent.close()
    """)
    assert out == [
        "child: this was begun in the parent process, before the fork; begin it anew in this one",
        "child: zett-agent-sync",
        "child: True",
        "parent: 7",
        "parent: run_completed False",
    ]
    assert (err, code) == ("", 0)


@pytest.mark.parametrize("use", ["runtime.call(stay)", "list(runtime.stream(items))"])
def test_a_real_ctrl_c_cancels_the_work_and_ends_the_program(use: str) -> None:
    program = f"""
        runtime = SyncRuntime()
        async def items():
            await stay()
            yield
        try:
            {use}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise
    """
    with start(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
    assert out.splitlines() == ["cleaned up", "interrupted"]
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("shared", [False, True])
def test_rule_8_a_child_that_is_forked_in_mid_request_closes_its_agent_at_once_and_the_parent_goes_on(
    shared: bool,
) -> None:
    """The child has an alarm: what waits for something of the parent's would end there."""
    out, err, code = run(f"""
        import signal
        from zett_agent import tool
        from zett_agent.config import AgentRunConfig
        from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
        from zett_agent.extensions.subagent import SubAgentDefinition
        from zett_agent.testing import ScriptedModel, call, stall

        inside, leave = threading.Event(), threading.Event()

        @tool
        def held() -> str:
            "Wait."
            inside.set()
            leave.wait()
            return "left"

        def answer(request):
            if request.messages[-1].role == "tool" or request.messages[-1].text == "child":
                return "done"
            delegated = call("task_start", description="d", prompt="p", subagent_type="child")
            return [call("held"), delegated]

        child = SubAgentDefinition("child", "c", "c", ScriptedModel([stall()]))
        background = AsyncSubAgentExtension([child])
        runtime = SyncRuntime() if {shared} else None
        config = AgentRunConfig(session_id="s")
        agent = create_agent_sync(
            FunctionModel(answer), tools=[held], extensions=[background], runtime=runtime, config=config
        )
        answers = []
        requests = [threading.Thread(target=lambda: answers.append(agent.run("parent").content), daemon=True)]
        requests[0].start()
        inside.wait()
        while not background.tasks("s"):
            pass
        agent._closing[os.getpid()].acquire()  # as if another thread of the parent were about to close it
        forked = os.fork()
        if forked == 0:
            signal.alarm(8)
            # The request of the session stayed behind in the parent, so here the session is free.
            print("child:", agent.run("child").content, flush=True)
            print("child:", agent.run("child", config=AgentRunConfig(session_id="c")).content, flush=True)
            agent.close()
            print("child: closed", flush=True)
            os._exit(7)
        agent._closing[os.getpid()].release()
        print("parent:", os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)
        leave.set()
        requests[0].join()
        print("parent:", answers, [task.status.value for task in background.tasks("s")])
        agent.close()
        print("parent:", [task.status.value for task in background.tasks("s")])
    """)
    assert out == [
        "child: done",
        "child: done",
        "child: closed",
        "parent: 7",
        "parent: ['done'] ['running']",
        "parent: ['cancelled']",
    ], err
    assert (err, code) == ("", 0)
