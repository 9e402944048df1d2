"""What every test stands on: no network but loopback, no asyncio task left behind, no key or proxy of the machine."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import settings

from tests.loops import LOOPS, every_new_loop, missing, unfit

REAL_SECONDS = 90
REAL = Path(__file__).parent / "real"

# A job in the background begins with signals ignored, and so would the processes that tests start and interrupt.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# A machine's keys and proxies must not change what a test does.
for _name in list(os.environ):
    if _name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_", "GOOGLE_", "GEMINI_")) or _name.lower().endswith("_proxy"):
        del os.environ[_name]

# A failing example prints the blob that repeats it; CI tries the same examples each time.
settings.register_profile("zett", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("zett")


class NetworkRefused(RuntimeError):
    """A test reached for the network; no OSError, so that no retry of the code under test takes it for a bad line."""


_refused: list[str] = []


def _is_loopback(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host is None or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: it sees every socket of the process, also those of C code, and needs nothing patched."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        # An address that is no (host, port, ...) tuple is a path of a unix socket.
        if isinstance(address, tuple) and address and not _is_loopback(address[0]):
            _refuse(f"{event} to {address[0]!r}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not _is_loopback(arguments[0]):
        _refuse(f"a name lookup of {arguments[0]!r}")


def _refuse(what: str) -> None:
    _refused.append(what)
    raise NetworkRefused(f"tests reach loopback only, not {what}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def refused_connections() -> Iterator[list[str]]:
    """What the guard refused during the test; anything left in it fails the test, even if its error was swallowed."""
    _refused.clear()
    yield _refused
    assert not _refused, f"tests reach loopback only; refused: {', '.join(_refused)}"


@pytest_asyncio.fixture
async def _stray_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    stray = asyncio.all_tasks() - before - {asyncio.current_task()}
    described = sorted(_describe(task) for task in stray)
    for _ in range(10):  # one that swallows its cancellation would hang the loop when it closes
        if not stray:
            break
        for task in stray:
            task.cancel()
        _, stray = await asyncio.wait(stray, timeout=0.1)
    assert not described, "asyncio tasks left after the test:\n" + "\n".join(described)


@pytest.fixture(autouse=True)
def no_stray_tasks(request: pytest.FixtureRequest) -> None:
    """An async test must end with no asyncio task but its own; looked at after its other fixtures are torn down."""
    if request.node.get_closest_marker("asyncio") is not None:
        request.getfixturevalue("_stray_tasks")


def _describe(task: asyncio.Task[object]) -> str:
    frames = task.get_stack(limit=1)
    where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
    return f"  {task.get_name()}: {getattr(task.get_coro(), '__qualname__', task.get_coro())}{where}"


@pytest.fixture(params=LOOPS)
def each_loop(request: pytest.FixtureRequest) -> Iterator[str]:
    """The loops, one after another: ``asyncio.run()`` and all that makes a loop gets it; a missing one says why."""
    name: str = request.param
    if reason := missing(name):
        pytest.skip(reason)
    with every_new_loop(name):
        yield name


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--loop=uvloop``: all tests on another event loop, loops that the code under test makes included."""
    parser.addoption("--loop", choices=LOOPS, default="asyncio", help="the event loop of every test (asyncio)")


def pytest_configure(config: pytest.Config) -> None:
    name = str(config.getoption("--loop", "asyncio"))
    if reason := missing(name):
        raise pytest.UsageError(reason)
    everywhere = ExitStack()
    everywhere.enter_context(every_new_loop(name))
    config.add_cleanup(everywhere.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of real peers may take longer; starting the peer, in a fixture, has a bound of its own."""
    loop = str(config.getoption("--loop", "asyncio"))
    for item in items:
        if reason := unfit(loop, item):
            item.add_marker(pytest.mark.skip(reason=reason))
        if REAL in item.path.parents:
            item.add_marker("real")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(REAL_SECONDS, func_only=True))
