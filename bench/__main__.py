"""``python -m bench``: measure, print the table with budgets, write page and plot, exit with 1 on a missed budget."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from bench import page, plot
from bench import workloads as w
from bench.measure import Comparison, Work, compare
from zett_agent.storage.memory import MemorySessionStore

IMPORTS = 15


@dataclass(frozen=True)
class Row:
    """One line of the table: measured value, its unit, the budget if there is one."""

    work: str
    value: float
    unit: str
    budget: float | None
    detail: str

    @property
    def missed(self) -> bool:
        """True when the value is over the budget."""
        return self.budget is not None and self.value > self.budget

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As the table shows it."""
        budget = "-" if self.budget is None else f"{self.budget:g} {self.unit}"
        return (
            self.work,
            f"{page.figure(self.value)} {self.unit}",
            f"{budget}{' OVER' if self.missed else ''}",
            self.detail,
        )


def _row(work: str, found: Comparison, budget: float | None, *, share: int = 1, unit: str = "x bare") -> Row:
    ours, its = (page.figure(seconds * 1e6 / share) for seconds in (found.seconds, found.yardstick))
    detail = f"{ours} µs to {its} µs, quartiles {page.figure(found.low)} to {page.figure(found.high)}"
    return Row(work, found.ratio, unit, budget, detail)


async def _against_bare(work: str, scenario: w.Scenario, budget: float) -> Row:
    ours: Work = await w.runtime(scenario.model)
    found = await compare(ours, w.bare(scenario.model), times=scenario.times)
    return _row(work, found, budget, share=scenario.share)


async def _logged(scenario: w.Scenario) -> Row:
    ours = await w.runtime(scenario.model, MemorySessionStore())
    found = await compare(ours, w.bare(scenario.model), times=scenario.times // 4)
    return _row("the same, each step logged in a memory store", found, None)


async def _long_sessions() -> Row:
    long, short = w.LongSessions(2_000), w.LongSessions(20)

    async def prepare() -> None:
        await long.prepare()
        await short.prepare()

    found = await compare(long.turn, short.turn, times=w.LongSessions.sessions, prepare=prepare)
    return _row("one more turn at 2,000 messages", found, 1.2, unit="x at 20")


async def measure() -> list[Row]:
    """Every row of the budget table."""
    known = w.scenarios()
    rows = [
        await _against_bare("one turn, 10 deltas, fresh session", known["turn"], 15),
        await _against_bare("one model step and one tool", known["tool"], 10),
        await _logged(known["tool"]),
        await _against_bare("one call of a 50-call batch", known["batch"], 3),
        await _against_bare("one streamed delta of 10,000", known["delta"], 4),
        await _long_sessions(),
    ]
    waiting = await w.waiting_session_bytes(500) / 1024
    detail = "500 sessions, beyond the asyncio task that reads"
    return [*rows, Row("a session that waits in memory", waiting, "KiB", 12, detail), *_import_rows()]


def _import_rows() -> list[Row]:
    """The package alone, which loads nothing of itself, and what loads when the first name is used."""
    pydantic, models = "import pydantic", "import asyncio, pydantic; from pydantic import BaseModel, create_model"
    package = _import_seconds(pydantic, "import zett_agent")
    names = _import_seconds(models, "from zett_agent import Agent, create_agent, tool")
    beyond = f"beyond asyncio and pydantic's models, {IMPORTS} processes"
    return [
        Row("import zett_agent", package * 1e3, "ms", 30, f"beyond pydantic, {IMPORTS} processes"),
        Row("from zett_agent import Agent, ...", names * 1e3, "ms", None, beyond),
    ]


def _import_seconds(before: str, measured: str) -> float:
    code = f"{before}; from time import process_time as t; s = t(); {measured}; print(t() - s)"
    command = [sys.executable, "-c", code]
    # Without bytecode it would be the compiler that is measured; the first process may have to write it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(IMPORTS + 1)
    ]
    return statistics.median(float(process.stdout) for process in done[1:])


def main() -> int:
    """Print the table and write it down."""
    rows = asyncio.run(measure())
    text = page.table(["work", "measured", "budget", "medians"], [row.cells for row in rows])
    print(text)
    page.write("budgets", f"Measured with {page.machine()}.\n\n{text}")
    if not plot.draw([(row.work, row.value / row.budget) for row in rows if row.budget], page.DOCS / "performance.svg"):
        print("no plot: it needs matplotlib, which `make bench` installs")
    missed = [row.work for row in rows if row.missed]
    print(f"over budget: {', '.join(missed)}" if missed else "every budget is kept")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
