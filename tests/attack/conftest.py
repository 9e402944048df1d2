"""What the proofs of this folder count is told at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

_POINTS: pytest.StashKey[Counter[str]] = pytest.StashKey()


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """``tried(kind, points)`` adds to what is printed behind the tests."""

    def add(kind: str, points: int) -> None:
        request.config.stash.setdefault(_POINTS, Counter())[kind] += points

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    points = config.stash.get(_POINTS, None)
    if points:
        terminalreporter.section("rule 8: one rich request, stopped everywhere")
        terminalreporter.write_line(f"{points.total()} points tried, at each of them one kind of stop:")
        for kind, number in points.items():
            terminalreporter.write_line(f"{number:6} {kind}")
