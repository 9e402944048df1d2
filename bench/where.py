"""``python -m bench.where``: where the time of each workload goes, by sampling.

A timer interrupts the work every millisecond. Each interrupt counts for the innermost frame that belongs to a part
below; what the standard library does for a caller is the caller's. Python takes an interrupt when a function is entered
or has returned and when a loop jumps back, so time moves to a neighbour by a few bytecodes; what asyncio's C code does
between two coroutines counts for the one that is resumed. The garbage collector is off while sampling, since its time
would fall on whoever was allocating; its share is timed apart, by its own callbacks. Of N samples a part that has the
share p is known to within two times sqrt(p * (1 - p) / N).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType
from typing import Any

from bench import page
from bench import workloads as w
from bench.measure import ROUNDS, Work, compare
from zett_agent.storage.memory import MemorySessionStore

PERIOD = 0.001
TOP = 15
#: Batches after which the agent is made anew. What its memory keeps of ended sessions is work for the collector, so
#: there is as much of it as when the budgets are measured.
RENEW = ROUNDS + 1

GARBAGE = "garbage collection"

#: The parts of the tables. A module belongs to the part with the longest name that it starts with.
PARTS: dict[str, str] = {
    "model and reader (the bare loop has them too)": "bench",
    "asyncio: event loop, asyncio tasks": "asyncio selectors",
    "pydantic": "pydantic pydantic_core",
    "door: stream, sessions, set-up of a request": (
        "zett_agent.agent zett_agent.config zett_agent._runtime.assembly zett_agent._runtime.sessions "
        "zett_agent._runtime.equipment"
    ),
    "opening, loop, closing, outcome": (
        "zett_agent._runtime.opening zett_agent._runtime.loop zett_agent._runtime.closing zett_agent._runtime.execute "
        "zett_agent._runtime.supervisor zett_agent._runtime.faults zett_agent._runtime.resumption"
    ),
    "run: show, append, publish": "zett_agent._runtime.run",
    "context": "zett_agent.context",
    "channel and events": "zett_agent._runtime.channel zett_agent.events",
    "phase": "zett_agent._runtime.phase",
    "hooks and notifications": "zett_agent._runtime.hooks zett_agent.extensions.base zett_agent.extensions.events",
    "transcript and messages": "zett_agent._runtime.transcript zett_agent.messages",
    "model step": "zett_agent._runtime.model_step zett_agent.model zett_agent.stop",
    "model stream: each delta": "zett_agent._runtime.output",
    "tool step and call pipeline": "zett_agent._runtime.tool_step zett_agent._runtime.call zett_agent._runtime.repeats",
    "tools: arguments, results": "zett_agent.tools zett_agent.json_types",
    "inbox, waits, clock": (
        "zett_agent._runtime.inbox zett_agent._runtime.waitbook zett_agent._runtime.clock zett_agent.waits"
    ),
    "ids": "zett_agent.ids",
    "memory extension": "zett_agent.extensions.memory",
    "other extensions": "zett_agent.extensions",
    "journal, records, store": "zett_agent._runtime.journal zett_agent.storage",
    "other modules of the package": "zett_agent",
}
OUTSIDE = "outside of these"
_PREFIXES = sorted(
    ((prefix, part) for part, names in PARTS.items() for prefix in names.split()), key=lambda pair: -len(pair[0])
)


def part_of(module: str) -> str | None:
    """The part that a module belongs to; None when its time is its caller's."""
    return next((part for prefix, part in _PREFIXES if module == prefix or module.startswith(f"{prefix}.")), None)


@dataclass
class Profile:
    """Samples by part and by function, and how often Python functions are entered, for a number of works."""

    parts: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)

    def sample(self, _signal: int, frame: FrameType | None) -> None:
        """Count where the program is; the handler of the timer."""
        part, owner = attribute(frame)
        self.parts[part] += 1
        self.functions[_name(owner) if owner is not None else part] += 1

    def enter(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a Python function that is entered, or a coroutine or generator that is resumed; for sys.setprofile."""
        if event == "call":
            self.entries[attribute(frame)[0]] += 1


_known: dict[str, str | None] = {}
_own_names: dict[CodeType, str] = {}


def attribute(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """The part of the innermost frame that has one, and that frame."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in _known:
            _known[module] = part_of(module)
        part = _known[module]
        if part is not None:
            return part, frame
        frame = frame.f_back
    return OUTSIDE, None


def _name(frame: FrameType) -> str:
    """Module, function and first line; what dataclasses generate has only its class to tell it by."""
    code = frame.f_code
    module = frame.f_globals.get("__name__", "")
    if code.co_filename == "<string>":
        return f"{module}:{type(frame.f_locals.get('self')).__name__}.{code.co_name} (generated)"
    if code not in _own_names:
        _own_names[code] = f"{module}:{code.co_qualname}"
    return _own_names[code]


async def nothing() -> None:
    """There is nothing to prepare."""


@dataclass(frozen=True)
class Study:
    """One workload to look into; ``share`` is among how many calls or deltas the figures are divided."""

    title: str
    make: Callable[[], Awaitable[Work]]
    yardstick: Work
    times: int
    share: int = 1
    against: str = "the bare loop"
    prepare: Work = nothing


async def profile(study: Study, seconds: float) -> Profile:
    """Sample the work for so long; then count what one batch enters."""
    found = Profile()
    before = signal.signal(signal.SIGALRM, found.sample)
    gc.disable()
    try:
        spent, done, work = 0.0, 0, await study.make()
        while spent < seconds:
            if done >= RENEW:
                done, work = 0, await study.make()
            spent += await _sample(study, work)
            done += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    await _count(study, found)
    return found


async def _sample(study: Study, work: Work) -> float:
    """One batch under the timer; returns how long it took."""
    await study.prepare()
    gc.collect()
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, PERIOD, PERIOD)
    for _ in range(study.times):
        await work()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return time.perf_counter() - start


async def collector_share(study: Study, seconds: float) -> float:
    """The part of the CPU time that the garbage collector takes, by its own callbacks."""
    spent = [0.0, 0.0]

    def called(phase: str, _info: dict[str, int]) -> None:
        spent[1] += time.process_time() * (-1 if phase == "start" else 1)

    done, work = RENEW, study.yardstick
    while spent[0] < seconds:
        if done >= RENEW:
            done, work = 0, await study.make()
        await study.prepare()
        gc.callbacks.append(called)
        start = time.process_time()
        for _ in range(study.times):
            await work()
        spent[0] += time.process_time() - start
        gc.callbacks.remove(called)
        done += 1
    return spent[1] / spent[0]


async def _count(study: Study, found: Profile) -> None:
    work = await study.make()
    await study.prepare()
    sys.setprofile(found.enter)
    try:
        for _ in range(study.times):
            await work()
    finally:
        sys.setprofile(None)


async def studies() -> list[Study]:
    """The workloads of the budget table."""
    known = w.scenarios()
    long, short = w.LongSessions(2_000), w.LongSessions(20)

    async def prepare() -> None:
        await long.prepare()
        await short.prepare()

    titles = {
        "turn": "One turn, 10 deltas, fresh session",
        "tool": "One model step and one tool, one request",
        "batch": "One call of a 50-call batch",
        "delta": "One streamed delta of 10,000",
    }
    tool = known["tool"]

    async def make_long() -> Work:
        return long.turn

    return [
        *(
            Study(titles[name], partial(w.runtime, one.model), w.bare(one.model), one.times, one.share)
            for name, one in known.items()
        ),
        Study(
            "One model step and one tool, logged in a memory store",
            lambda: w.runtime(tool.model, MemorySessionStore()),
            w.bare(tool.model),
            tool.times,
        ),
        Study(
            "One more turn at 2,000 messages",
            make_long,
            short.turn,
            long.sessions,
            against="the same at 20",
            prepare=prepare,
        ),
    ]


async def report(study: Study, seconds: float) -> tuple[str, str]:
    """The table of one workload for the page, and its top functions for the console."""
    work = await study.make()
    timed = await compare(work, study.yardstick, times=study.times, rounds=15, prepare=study.prepare)
    found = await profile(study, seconds)
    garbage = await collector_share(study, seconds / 4)
    micro = timed.seconds * 1e6 / study.share
    shares = {part: (1 - garbage) * count / found.parts.total() for part, count in found.parts.items()}
    shares[GARBAGE] = garbage
    rows = [
        (part, f"{share:.1%}", page.figure(micro * share), page.figure(found.entries[part] / study.times / study.share))
        for part, share in sorted(shares.items(), key=lambda item: -item[1])
    ]
    entries = page.figure(found.entries.total() / study.times / study.share)
    text = page.table(
        ["part", "of the time", "µs", "entries"], [*rows, ("together", "100%", page.figure(micro), entries)]
    )
    yardstick = page.figure(timed.yardstick * 1e6 / study.share)
    head = f"### {study.title}\n\n{found.parts.total():,} samples; {study.against} takes {yardstick} µs.\n\n{text}"
    return head, _top(found, micro * (1 - garbage))


def _top(found: Profile, micro: float) -> str:
    samples = found.functions.total()
    rows = [
        (name, f"{count / samples:.1%}", page.figure(micro * count / samples))
        for name, count in found.functions.most_common(TOP)
    ]
    return page.table(["function, the collector left out", "of the time", "µs"], rows)


async def main(seconds: float, only: str, write: bool) -> None:
    """Look into every workload whose title contains ``only``."""
    tables = []
    for study in await studies():
        if only.lower() in study.title.lower():
            text, top = await report(study, seconds)
            print(f"{text}\n\n{top}\n", flush=True)
            tables.append(text)
    if write:
        page.write("where", f"Measured with {page.machine()}.\n\n" + "\n\n".join(tables))


def _arguments() -> Mapping[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m bench.where", description="Where the time of each workload goes.")
    parser.add_argument("--seconds", type=float, default=8, help="how long each workload is sampled")
    parser.add_argument("--only", default="", help="only workloads whose title contains this; leaves the page alone")
    parsed = vars(parser.parse_args())
    return {**parsed, "write": not parsed["only"]}


if __name__ == "__main__":
    asyncio.run(main(**_arguments()))
