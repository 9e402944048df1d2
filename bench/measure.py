"""How work is timed: CPU time of this process, in turn with its yardstick, and the median of the ratios.

CPU time and not the clock, since a neighbour on the machine takes the clock's time and hardly any of ours; on an idle
machine the two agree. It would hide a workload that waits, so what waits is refused. The garbage collector runs as it
does for everybody: a runtime pays for the cycles that it makes.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

ROUNDS = 61

Work = Callable[[], Awaitable[None]]


class WorkWaitsError(Exception):
    """The work gave the processor away, so its CPU time is not what it costs."""


@dataclass(frozen=True)
class Comparison:
    """Medians over the rounds: the ratio, seconds of CPU time per work, and the quartiles of the ratio."""

    ratio: float
    seconds: float
    yardstick: float
    low: float
    high: float


def summarize(measured: list[float], yardstick: list[float]) -> Comparison:
    """What the rounds say; the ratio is taken within a round, so that a slow moment hits both of its sides."""
    ratios = [ours / its for ours, its in zip(measured, yardstick, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Comparison(ratio, statistics.median(measured), statistics.median(yardstick), low, high)


async def cpu_seconds(work: Work, times: int, *, may_wait: bool = False) -> float:
    """CPU time of one work, threads of the process included; WorkWaitsError when it sleeps and may not."""
    waits = _waits()
    start = time.process_time()
    for _ in range(times):
        await work()
    spent = time.process_time() - start
    if not may_wait and _waits() - waits > times / 10:
        raise WorkWaitsError(f"it waited {_waits() - waits} times in {times} works")
    return spent / times


async def compare(
    work: Work,
    yardstick: Work,
    *,
    times: int,
    yardstick_times: int | None = None,
    rounds: int = ROUNDS,
    prepare: Work | None = None,
    may_wait: bool = False,
) -> Comparison:
    """Measure the two in turn; the first round warms up. ``prepare`` runs before each round and is not measured."""
    measured, its = [], []
    for number in range(rounds + 1):
        if prepare is not None:
            await prepare()
        gc.collect()
        seconds = (
            await cpu_seconds(yardstick, times, may_wait=may_wait),
            await cpu_seconds(work, times, may_wait=may_wait),
        )
        if number:
            its.append(seconds[0])
            measured.append(seconds[1])
    return summarize(measured, its)


def _waits() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
