"""Files, functions, classes and parameter lists stay small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.sizes import size_faults
from tests.architecture.source import ROOT
from tests.architecture.trees import plant

SIX = "a, b, c, *, d, e, f"


def test_the_source_keeps_its_sizes() -> None:
    faults = size_faults(ROOT)
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("x = 1\n" * 401, "m"),
        ("def f():\n" + "    x = 1\n" * 50, "m:f"),
        ("class C:\n    async def f(self):\n" + "        x = 1\n" * 50, "m:C.f"),
        ("def f():\n    def g():\n" + "        x = 1\n" * 50, "m:f"),
        ("class C:\n" + "    x = 1\n" * 250, "m:C"),
        (f"def f({SIX}, g): ...", "m:f"),
        (f"def f({SIX}, **g): ...", "m:f"),
        ("def f(a, b, c, *d, e, f, g): ...", "m:f"),
        (f"class C:\n    def f(self, {SIX}, g): ...", "m:C.f"),
    ],
)
def test_what_passes_a_limit_is_a_fault_unless_it_is_listed(tmp_path: Path, text: str, key: str) -> None:
    # Small functions keep the median out of it.
    root = plant(tmp_path, {"m": text, "small": "def f(): ...\n" * 9})
    assert any(fault.startswith(f"{key}: ") for fault in size_faults(root, {}))
    assert not any(fault.startswith(f"{key}: ") for fault in size_faults(root, {key: "a reason"}))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("x = 1\n" * 601, "m"),
        ("def f():\n" + "    x = 1\n" * 80, "m:f"),
        ("def f(a, b, c, d, e, f, g): ...", "m:f"),
    ],
)
def test_a_hard_limit_holds_for_a_listed_exception_too(tmp_path: Path, text: str, key: str) -> None:
    root = plant(tmp_path, {"m": text, "small": "def f(): ...\n" * 9})
    assert any(fault.startswith(f"{key}: ") for fault in size_faults(root, {key: "a reason"}))


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * 400,
        "def f():\n" + "    x = 1\n" * 49,
        "class C:\n" + "    x = 1\n" * 249,
        f"def f({SIX}): ...",
        f"class C:\n    def f(self, {SIX}): ...\n    @classmethod\n    def g(cls, {SIX}): ...",
    ],
)
def test_what_keeps_every_limit_is_no_fault(tmp_path: Path, text: str) -> None:
    assert size_faults(plant(tmp_path, {"m": text, "small": "def f(): ...\n" * 9}), {}) == []


def test_an_exception_that_is_no_longer_needed_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"m": "def f(): ...\n"})
    assert size_faults(root, {"m:f": "was long once"}) == ["m:f: listed as an exception, and within every limit"]


def test_a_large_median_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"m": ("def f():\n" + "    x = 1\n" * 8) * 3})
    assert size_faults(root, {}) == ["the median function has 9 lines; at most 8"]
