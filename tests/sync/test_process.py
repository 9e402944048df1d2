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
