"""Shows at the end what code of the documentation was not run, and why."""

from __future__ import annotations

import pytest

from tests.docs.blocks import blocks, pages, summary


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts and the reasons."""
    for line in summary([block for page in pages() for block in blocks(page)]):
        terminalreporter.write_line(line)
