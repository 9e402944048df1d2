"""The files beside this one prove something only while an ignored mistake that is none is itself an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_mistake_that_is_no_longer_found_is_an_error(checker: str, tmp_path: Path) -> None:
    lines = ["# pyright: reportUnnecessaryTypeIgnoreComment=true", 'x: int = "a"  # type: ignore[assignment]', ""]
    path = tmp_path / "mistakes.py"
    path.write_text("\n".join(lines))
    assert _check(checker, path) == 0
    path.write_text("\n".join(lines).replace('"a"', "1"))
    assert _check(checker, path) == 1


def _check(checker: str, path: Path) -> int:
    options = {
        "mypy": ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(path.parent / "cache")],
        "pyright": [],
    }
    return subprocess.run(
        [sys.executable, "-m", checker, *options[checker], path.name], cwd=path.parent, capture_output=True, check=False
    ).returncode
