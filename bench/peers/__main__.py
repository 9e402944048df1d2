"""``python -m bench.peers``: install each peer into its own environment, measure it, print one table, write the page.

A peer that cannot be installed or does not work shows that in its row and stops nobody else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import page
from bench.peers.common import QUIET

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".bench"
PEERS = ("pydantic-ai", "openai-agents", "langgraph", "strands")
#: What the columns are called; the last compares a runtime with itself.
COLUMNS = {
    "turn": "turn of 10 deltas",
    "tool": "model step and tool",
    "batch": "call of 50",
    "delta": "delta of 10,000",
    "long": "turn at 2,000, x at 20",
}


def install(name: str) -> str | None:
    """Make the environment of a peer follow its requirements; the reason when it cannot."""
    folder, requirements = ENVIRONMENTS / name, ROOT / "bench" / "peers" / f"requirements-{name}.txt"
    own = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    wanted = hashlib.sha256(f"{requirements.read_text(encoding='utf-8')}{own}".encode()).hexdigest()
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    print(f"installing {name}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    for command in _commands(folder, requirements):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return last_line(done.stderr)
    stamp.write_text(wanted)
    return None


def _commands(folder: Path, requirements: Path) -> list[list[str]]:
    wanted = ["-r", str(requirements), "-e", str(ROOT)]
    if uv := shutil.which("uv"):
        python = ["--python", str(folder / "bin" / "python")]
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", *python, *wanted],
        ]
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [[sys.executable, "-m", "venv", str(folder)], [*pip, *wanted]]


def measure(name: str, python: Path) -> Mapping[str, Any]:
    """What the peer's own interpreter finds; ``reason`` when it fails."""
    command = [str(python), "-m", "bench.peers.measure", name.replace("-", "_")]
    done = subprocess.run(
        command, cwd=ROOT, env={**_environment(), **QUIET}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"reason": last_line(done.stderr)}
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _environment() -> dict[str, str]:
    """Without keys: no peer is to find one."""
    return {name: value for name, value in os.environ.items() if not name.upper().endswith(("_KEY", "_TOKEN"))}


def last_line(text: str) -> str:
    """What went wrong, in short."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def cell(found: Mapping[str, Any], work: str) -> str:
    """A ratio, or a dash for what could not be measured."""
    entry = found.get(work, {})
    return f"{page.figure(entry['ratio'])} x" if "ratio" in entry else "-"


def report(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, what was taken of each runtime, and the reasons of the dashes."""
    bare = ("the bare loop", *("1 x" for work in COLUMNS if work != "long"), "-")
    rows: list[Sequence[str]] = [bare]
    rows += [(name, *(cell(entry, work) for work in COLUMNS)) for name, entry in found.items()]
    notes = [f"- {name}: {_note(entry)}" for name, entry in found.items()]
    return "\n".join([page.table(["", *COLUMNS.values()], rows), "", *notes])


def _note(entry: Mapping[str, Any]) -> str:
    if "reason" in entry:
        return "could not be measured here."
    versions = ", ".join(f"{package} {version}" for package, version in entry["versions"].items())
    return f"{versions}. {entry['note']}."


def main() -> None:
    """Measure all, one after the other."""
    found: dict[str, Mapping[str, Any]] = {"zett_agent": measure("zett", Path(sys.executable))}
    for name in PEERS:
        reason = install(name)
        found[name] = {"reason": reason} if reason else measure(name, ENVIRONMENTS / name / "bin" / "python")
    text = report(found)
    print(text)
    for name, entry in found.items():
        reasons = {work: entry[work]["reason"] for work in COLUMNS if "reason" in entry.get(work, {})}
        if "reason" in entry or reasons:
            print(f"{name}: {entry.get('reason', reasons)}", file=sys.stderr)
    page.write("peers", f"Measured with {page.machine()}.\n\n{text}")


if __name__ == "__main__":
    main()
