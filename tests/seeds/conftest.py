"""Leaves the manual's own programs out where the manual is not, and says so."""

from __future__ import annotations

import pytest

from tests.seeds.pages import missing

ORIGINALS = "test_original_programs.py"

_left_out = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what needs the pages, when they are missing."""
    if missing() is None:
        return
    without = [item for item in items if item.path.name == ORIGINALS]
    items[:] = [item for item in items if item not in without]
    config.stash[_left_out] = len(without)
    config.hook.pytest_deselected(items=without)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, and why."""
    count = config.stash.get(_left_out, 0)
    if count:
        terminalreporter.write_line(f"{count} programs of the manual were not run: {missing()}")
