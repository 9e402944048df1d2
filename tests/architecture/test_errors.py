"""One tree of errors, in one file, drawn as it is."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.errors import error_faults
from tests.architecture.source import ROOT
from tests.architecture.trees import plant

TREE = '''"""The tree.

AgentError
├── FirstError        one
│   └── InnerError    two
└── LastError
"""
class AgentError(Exception): ...
class FirstError(AgentError): ...
class InnerError(FirstError, ValueError): ...
class LastError(AgentError): ...
'''


def test_the_source_has_one_tree_of_errors() -> None:
    faults = error_faults(ROOT)
    assert not faults, "\n" + "\n".join(faults)


def test_a_tree_drawn_as_it_is_has_no_fault(tmp_path: Path) -> None:
    assert error_faults(plant(tmp_path, {"exceptions": TREE}), {}) == []


def test_an_error_outside_the_tree_is_a_fault_unless_it_is_allowed(tmp_path: Path) -> None:
    root = plant(tmp_path, {"exceptions": TREE, "a": "class StopNow(BaseException): ...\nclass Plain: ..."})
    assert error_faults(root, {}) == ["a:1: StopNow does not derive from AgentError"]
    assert error_faults(root, {"StopNow": "control flow"}) == []


def test_a_builtin_exception_is_known_however_it_is_named(tmp_path: Path) -> None:
    text = "class A(asyncio.CancelledError): ...\nclass B(builtins.OSError): ...\nclass C(B): ..."
    faults = error_faults(plant(tmp_path, {"exceptions": TREE, "a": text}), {})
    assert [fault.split()[1] for fault in faults] == ["A", "B", "C"]


def test_an_error_of_the_tree_in_another_file_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"exceptions": TREE, "a": "class FarError(LastError): ..."})
    assert error_faults(root, {}) == ["a:1: FarError belongs into exceptions.py"]


def test_a_leave_that_is_no_longer_needed_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"exceptions": TREE})
    assert error_faults(root, {"Gone": "was there"}) == ["Gone: listed as allowed, and needs no leave"]


def test_a_drawing_that_differs_from_the_classes_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"exceptions": TREE.replace("│   └── InnerError    two", "├── InnerError")})
    assert error_faults(root, {}) == ["InnerError: drawn below AgentError, and derives from FirstError"]
    root = plant(tmp_path, {"exceptions": TREE.replace("└── LastError", "└── LostError")})
    assert error_faults(root, {}) == [
        "LastError: missing in the tree drawn on top of exceptions.py",
        "LostError: drawn on top of exceptions.py, and not there",
    ]
