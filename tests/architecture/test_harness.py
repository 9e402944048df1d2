"""The guards of tests/conftest.py, each shown to fail a test that breaks it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BAD_TESTS = """
import asyncio
import socket
import threading
import warnings
from hypothesis import given, strategies

async def sleeper():
    await asyncio.sleep(3600)

async def test_leaves_a_task():
    asyncio.create_task(sleeper(), name="the forgotten one")

@given(strategies.just(1))
async def test_leaves_a_task_under_hypothesis(one):
    asyncio.create_task(sleeper(), name="forgotten by an example")

async def slow_to_leave():
    try:
        await sleeper()
    finally:
        await asyncio.sleep(0.05)

async def test_cancels_without_waiting():
    task = asyncio.create_task(slow_to_leave())
    await asyncio.sleep(0)
    task.cancel()

async def stubborn():
    for _ in range(3):
        try:
            await sleeper()
        except asyncio.CancelledError:
            pass

async def test_leaves_a_task_that_swallows_its_cancellation():
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)

def test_connects_outside():
    with socket.socket() as client:
        client.connect(("192.0.2.1", 80))

def test_swallows_the_refusal_in_a_thread():
    def reach():
        with socket.socket() as client:
            try:
                client.connect(("192.0.2.1", 80))
            except RuntimeError:
                pass
    thread = threading.Thread(target=reach)
    thread.start()
    thread.join()

def test_looks_up_a_name():
    socket.getaddrinfo("example.org", 443)

def test_warns():
    warnings.warn("careful", stacklevel=1)
"""


@pytest.mark.timeout(60)
def test_a_test_that_breaks_a_guard_fails(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_bad.py").write_text(BAD_TESTS)
    for name in ("conftest.py", "loops.py"):
        (tmp_path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfEp", "--no-header", "tests"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    report = re.findall(r"^(FAILED|ERROR) tests/test_bad.py::(\w+)", done.stdout, re.MULTILINE)
    assert set(report) == {
        ("ERROR", "test_leaves_a_task"),
        ("ERROR", "test_leaves_a_task_under_hypothesis"),
        ("ERROR", "test_cancels_without_waiting"),
        ("ERROR", "test_leaves_a_task_that_swallows_its_cancellation"),
        ("FAILED", "test_connects_outside"),
        ("ERROR", "test_connects_outside"),
        ("ERROR", "test_swallows_the_refusal_in_a_thread"),
        ("FAILED", "test_looks_up_a_name"),
        ("ERROR", "test_looks_up_a_name"),
        ("FAILED", "test_warns"),
    }, done.stdout
    assert "the forgotten one: sleeper at " in done.stdout


def test_loopback_is_reachable_by_address_and_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with socket.create_connection((host, port), timeout=5):
                pass


def test_a_unix_socket_is_reachable(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)


async def test_a_refused_connection_of_asyncio_names_the_address(refused_connections: list[str]) -> None:
    with pytest.raises(RuntimeError, match=r"loopback only, not socket.connect to '192\.0\.2\.1'"):
        await asyncio.open_connection("192.0.2.1", 80)
    refused_connections.clear()


async def test_a_task_that_was_awaited_is_no_stray() -> None:
    await asyncio.create_task(asyncio.sleep(0))


def test_no_key_or_proxy_of_the_machine_is_seen() -> None:
    assert not [name for name in os.environ if name.startswith("OPENAI_") or name.lower().endswith("_proxy")]
