"""The coverage gate: what it lets pass and what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.coverage_floors import coverage_faults, main
from tests.architecture.trees import plant


def _report(root: Path, **covered: float) -> dict[str, Any]:
    files = {
        str(root / f"{name.replace('__', '/')}.py"): {
            "summary": {"percent_covered": percent},
            "missing_lines": [3],
            "missing_branches": [[1, 2], [2, 3], [3, 4], [5, -4]],
        }
        for name, percent in covered.items()
    }
    return {"meta": {"branch_coverage": True}, "totals": {"percent_covered": 99.0}, "files": files}


@pytest.mark.parametrize(
    ("name", "least"), [("agent", 100.0), ("_runtime/loop", 100.0), ("providers/openai", 95.0), ("cli/demo", 0.0)]
)
def test_each_layer_has_its_bound(tmp_path: Path, name: str, least: float) -> None:
    root = plant(tmp_path, {name: ""})
    key = name.replace("/", "__")
    assert coverage_faults(_report(root, **{key: least}), root) == []
    if least:
        (fault,) = coverage_faults(_report(root, **{key: least - 0.1}), root)
        assert fault.startswith(f"{name} (")
        assert fault.endswith("missing 3, 1->2, 5->exit")


def test_a_file_that_was_not_measured_is_a_fault(tmp_path: Path) -> None:
    root = plant(tmp_path, {"agent": ""})
    assert coverage_faults(_report(root), root) == ["agent: not measured"]


def test_a_report_without_branches_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"meta": {"branch_coverage": False}}))
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == "coverage: branches were not measured\n"


def test_a_report_that_misses_the_source_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(_report(tmp_path)))
    assert main([str(path)]) == 1
    assert "coverage: messages: not measured" in capsys.readouterr().out
