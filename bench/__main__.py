"""``python -m bench``: measure, print the table with budgets, exit with 1 when a budget is missed."""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench import workloads as w

ROUNDS = 15


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


async def _seconds(work: Callable[[], Awaitable[None]], times: int) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(times):
            await work()
        return (time.perf_counter() - start) / times
    finally:
        gc.enable()


async def _against(
    name: str, ours: w.Work, bare: w.Work, *, times: int, budget: float, unit: str = "x bare", share: int = 1
) -> Row:
    """Median over rounds of the ratio of the two, measured in turn; the first round warms up and is not counted."""
    ratios, mine, its = [], [], []
    for round_number in range(ROUNDS + 1):
        bare_seconds = await _seconds(bare, times)
        our_seconds = await _seconds(ours, times)
        if round_number:
            ratios.append(our_seconds / bare_seconds)
            mine.append(our_seconds)
            its.append(bare_seconds)
    micro = 1e6 / share
    detail = f"{statistics.median(mine) * micro:.2f} us against {statistics.median(its) * micro:.2f} us"
    return Row(name, statistics.median(ratios), unit, budget, detail)


async def measure() -> list[Row]:
    """Every row of the budget table."""
    ten = w.ReplayModel(w.text_events(10))
    one_tool = w.ReplayModel(w.call_events(1), w.text_events(1))
    fifty = w.ReplayModel(w.call_events(50), w.text_events(1))
    many = w.ReplayModel(w.text_events(10_000))
    rows = [
        await _against("one turn, 10 deltas, fresh session", await w.runtime(ten), w.bare(ten), times=200, budget=15),
        await _against(
            "one model step and one tool", await w.runtime(one_tool), w.bare(one_tool), times=100, budget=10
        ),
        await _against(
            "one call of a 50-call batch", await w.runtime(fifty), w.bare(fifty), times=10, budget=3, share=50
        ),
        await _against(
            "one streamed delta of 10,000", await w.runtime(many), w.bare(many), times=2, budget=4, share=10_000
        ),
        await _against(
            "one more turn at 2,000 messages",
            await w.turn_after(2_000),
            await w.turn_after(20),
            times=20,
            budget=1.2,
            unit="x at 20",
        ),
    ]
    waiting = await w.waiting_session_bytes(500) / 1024
    rows.append(Row("a session that waits in memory", waiting, "KiB", 12, "500 sessions, beyond the task that reads"))
    return rows + _import_rows()


def _import_rows() -> list[Row]:
    """The package alone, which loads nothing of itself, and what loads when the first name is used."""
    pydantic, models = "import pydantic", "import asyncio, pydantic; from pydantic import BaseModel, create_model"
    package = _import_seconds(pydantic, "import zett_agent")
    names = _import_seconds(models, "from zett_agent import Agent, create_agent, tool")
    return [
        Row("import zett_agent beyond pydantic", package * 1e3, "ms", 30, "median of 9 processes"),
        Row("from zett_agent import Agent, likewise", names * 1e3, "ms", None, "beyond asyncio and pydantic's models"),
    ]


def _import_seconds(before: str, measured: str) -> float:
    code = f"{before}; import time; t = time.perf_counter(); {measured}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    done = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(9)]
    return statistics.median(float(process.stdout) for process in done)


def main() -> int:
    """Print the table."""
    rows = asyncio.run(measure())
    width = max(len(row.work) for row in rows)
    print(f"{'work':<{width}}  {'measured':>14}  {'budget':>14}")
    for row in rows:
        verdict = "  OVER BUDGET" if row.missed else ""
        measured, budget = f"{row.value:.2f} {row.unit}", "-" if row.budget is None else f"{row.budget:g} {row.unit}"
        print(f"{row.work:<{width}}  {measured:>14}  {budget:>14}  {row.detail}{verdict}")
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
