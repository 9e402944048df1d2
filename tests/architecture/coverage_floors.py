"""Holds each layer to its share of covered lines and branches.

``python -m tests.architecture.coverage_floors REPORT.json`` reads what ``coverage json`` wrote and fails when a file is
below its bound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.architecture.layers import LAYERS, Kind, layer_of
from tests.architecture.source import ROOT, read

# Tops (command line, fakes) are measured and not held: what they print and ask is tested by running them.
REQUIRED: Mapping[Kind, float] = {
    Kind.FLOOR: 100.0,
    Kind.THIN: 100.0,
    Kind.SURFACE: 95.0,
    Kind.LEAF: 95.0,
    Kind.TOP: 0.0,
}


def coverage_faults(report: Mapping[str, Any], root: Path) -> list[str]:
    """Each file below ``root`` that covers less than its layer must, or that the report does not know."""
    measured = {Path(path).resolve(): entry for path, entry in report["files"].items()}
    faults = []
    for file in read(root):
        layer = layer_of(file.name)
        required = 100.0 if layer is None else REQUIRED[LAYERS[layer].kind]
        entry = measured.get(file.path.resolve())
        if entry is None:
            faults.append(f"{file.name}: not measured")
        elif (covered := entry["summary"]["percent_covered"]) < required:
            faults.append(f"{file.name} ({layer}): {covered:.1f}% of {required:g}%; missing {_missing(entry)}")
    return faults


def _missing(entry: Mapping[str, Any]) -> str:
    lines = entry["missing_lines"]
    # A branch from or to a line that is missing says nothing more.
    branches = [pair for pair in entry.get("missing_branches", ()) if not {*pair} & {*lines}]
    return ", ".join([str(line) for line in lines] + [f"{a}->{'exit' if b < 0 else b}" for a, b in branches])


def main(arguments: list[str]) -> int:
    """Print the faults, or the total when there is none."""
    report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    if not report["meta"]["branch_coverage"]:
        print("coverage: branches were not measured")
        return 1
    faults = coverage_faults(report, ROOT)
    for fault in faults:
        print(f"coverage: {fault}")
    total = report["totals"]["percent_covered"]
    print(f"coverage: {total:.1f}% of lines and branches; {'below' if faults else 'within'} the bounds of the layers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
