"""The helper that installs and serves the real model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from zett_agent.testing import local_model as helper
from zett_agent.testing.local_model import LocalModel, LocalModelError, install, local_model


def is_listening(url: str) -> bool:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def ends(url: str, seconds: float = 10) -> bool:
    """Whether nothing listens there any more, soon."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_listening(url):
            return True
        time.sleep(0.05)
    return False


def test_two_servers_run_side_by_side_and_each_ends_with_its_block(model_server: LocalModel) -> None:
    with local_model() as other:
        assert other.url != model_server.url and is_listening(other.url)
    assert ends(other.url) and is_listening(model_server.url)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")
def test_a_server_that_still_loads_ends_with_the_process_that_started_it(model_server: LocalModel) -> None:
    parent = subprocess.Popen([sys.executable, "-m", "zett_agent.testing.local_model"], stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + 10
    while not (found := children.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(10)
    while any(is_alive(pid) for pid in found):
        assert time.monotonic() < deadline + 10
        time.sleep(0.05)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_the_process_that_started_it(model_server: LocalModel, sign: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "zett_agent.testing.local_model"], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        word, _, url = parent.stdout.readline().strip().partition(" ")
        assert word == "READY" and is_listening(url)
        os.kill(parent.pid, sign)
        parent.wait(10)
    assert ends(url)
    if sign is signal.SIGINT:
        assert parent.returncode == 0


def test_a_port_that_is_taken_is_an_error_that_says_what_happened(model_server: LocalModel) -> None:
    taken = urlsplit(model_server.url).port
    assert taken is not None
    with pytest.raises(LocalModelError, match="did not start"), local_model(port=taken):
        pass


def test_an_installation_that_fails_leaves_nothing_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    home = helper._home()
    assert tmp_path in home.parents
    half_made = home.with_name(f"{home.name}.part-left")
    half_made.mkdir(parents=True)
    with pytest.raises(LocalModelError, match="could not be installed"):
        install()
    assert [path.name for path in home.parent.iterdir()] == ["local-model.lock"]


def test_only_one_process_installs_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with helper._alone(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with helper._alone(tmp_path / "lock"):
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
