"""The public surface changes only on purpose: a change shows as a diff of the golden file."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.architecture.public_api import GOLDEN, UPDATE, render, surface
from tests.architecture.source import ROOT
from tests.architecture.trees import plant

BEFORE = """
from dataclasses import dataclass
from enum import StrEnum
LIMIT = 8
_HIDDEN = 1
class Colour(StrEnum):
    RED = "red"
@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
    @property
    def length(self) -> float: ...
class Door:
    def __init__(self, width: int, *, locked: bool = False) -> None:
        self.width = width
        self._key = 1
    async def open(self, key: str) -> None: ...
    def _creak(self) -> None: ...
def knock(times: int = 1) -> None: ...
def _helper() -> None: ...
"""


def test_the_public_surface_is_the_golden_one() -> None:
    if not GOLDEN.exists():
        pytest.fail(f"{GOLDEN} is missing; write it with `{UPDATE}` and commit it")
    golden = GOLDEN.read_text(encoding="utf-8")
    now = render(surface(ROOT))
    diff = difflib.unified_diff(golden.splitlines(), now.splitlines(), "golden", "source", lineterm="", n=4)
    changed = "\n".join(diff)
    assert not changed, f"the public surface changed; if that is meant, `{UPDATE}`\n{changed}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 8", "LIMIT = 9"),
        ('RED = "red"', 'RED = "rot"'),
        ('RED = "red"', 'RED = "red"\n    BLUE = "blue"'),
        ("y: int = 0", "y: int = 1"),
        ("y: int = 0", "z: int = 0"),
        ("frozen=True", "frozen=True, slots=True"),
        ("    @property\n", ""),
        ("*, locked", "locked"),
        ("self.width", "self.breadth"),
        ("async def open", "def open"),
        ("key: str", "key: bytes"),
        ("times: int = 1", "times: int = 2"),
        ("def knock", "def rap"),
        ("class Door:", "class Door(Point):"),
        ("LIMIT = 8", "LIMIT = 8\n__all__ = ['Door']"),
    ],
)
def test_a_change_of_the_surface_shows(tmp_path: Path, old: str, new: str) -> None:
    assert old in BEFORE
    before = surface(plant(tmp_path / "before", {"doors": BEFORE}))
    assert surface(plant(tmp_path / "after", {"doors": BEFORE.replace(old, new)})) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_HIDDEN = 1", "_HIDDEN = 2"),
        ("self._key = 1", "self._key = 2"),
        ("_creak", "_groan"),
        ("_helper", "_aid"),
        ("-> float: ...", "-> float:\n        return 1.0"),
    ],
)
def test_a_change_of_what_is_private_does_not_show(tmp_path: Path, old: str, new: str) -> None:
    assert old in BEFORE
    before = surface(plant(tmp_path / "before", {"doors": BEFORE}))
    assert surface(plant(tmp_path / "after", {"doors": BEFORE.replace(old, new)})) == before


def test_a_private_module_is_not_listed_and_a_name_from_it_is_described_where_it_is_public(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "_runtime/loop": "def go(times: int=1): ...",
            "agent": "from zett_agent._runtime.loop import go\n__all__ = ['go', 'stop']\n",
            "door": "from zett_agent.agent import go as walk\n__all__ = ['walk']\n",
        },
    )
    assert surface(root) == {
        "zett_agent.agent": {"go": "(times: int=1)", "stop": "missing"},
        "zett_agent.door": {"walk": "from zett_agent.agent"},
    }


def test_every_name_of_the_source_that_is_promised_exists() -> None:
    missing = [
        f"{module}.{name}"
        for module, names in surface(ROOT).items()
        if isinstance(names, dict)
        for name, value in names.items()
        if value == "missing"
    ]
    assert missing == []
