"""The benchmark's own parts: what it computes and writes, and that both sides of a ratio do the same work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bench import page, where
from bench import workloads as w
from bench.__main__ import Row
from bench.bare import BareLoop
from bench.measure import WorkWaitsError, compare, cpu_seconds, summarize
from bench.peers import __main__ as peers
from bench.peers.common import Script, check
from bench.peers.measure import SCRIPTS
from bench.peers.zett import Peer
from zett_agent.messages import ToolMessage

SOURCE = Path(__file__).parents[2] / "src"


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    found = summarize([2.0, 30.0, 4.0, 6.0, 9.0], [1.0, 10.0, 1.0, 2.0, 1.0])
    assert (found.low, found.ratio, found.high) == (3.0, 3.0, 4.0)
    assert (found.seconds, found.yardstick) == (6.0, 1.0)


async def test_a_comparison_runs_both_sides_equally_often_and_prepares_each_round() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    async def bare() -> None:
        done.append("bare")

    async def prepare() -> None:
        done.append("prepare")

    await compare(work, bare, times=2, rounds=2, prepare=prepare)
    assert done == ["prepare", "bare", "bare", "work", "work"] * 3  # the first round warms up


async def test_work_that_sleeps_is_refused_since_cpu_time_would_hide_it() -> None:
    async def work() -> None:
        await asyncio.sleep(0.002)

    with pytest.raises(WorkWaitsError):
        await cpu_seconds(work, 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.004, "0.00"),
        (2.345, "2.35"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (9610.4, "9610"),
    ],
)
def test_a_figure_has_three_digits_and_no_exponent(value: float, shown: str) -> None:
    assert page.figure(value) == shown


def test_a_table_is_markdown_with_aligned_columns() -> None:
    assert page.table(["work", "x"], [["turn", "12.5"], ["a long name", "3"]]).splitlines() == [
        "| work        |    x |",
        "| ----------- | ---: |",
        "| turn        | 12.5 |",
        "| a long name |    3 |",
    ]


def test_only_what_is_between_the_markers_is_replaced() -> None:
    text = "top\n<!-- begin a -->\nold \\1\n<!-- end a -->\nmiddle\n<!-- begin b -->\nkept\n<!-- end b -->\n"
    once = page.put(text, "a", "new \\1 {x}\n")
    assert once == text.replace("old \\1", "\nnew \\1 {x}\n")
    assert page.put(once, "a", "new \\1 {x}") == once


@pytest.mark.parametrize(
    "text", ["", "<!-- begin a -->", "<!-- end a -->\n<!-- begin a -->\n", "<!-- begin a -->\n<!-- end a -->\n" * 2]
)
def test_a_page_without_its_one_pair_of_markers_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="begin a"):
        page.put(text, "a", "new")


def test_the_page_has_the_markers_that_the_commands_write_between() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name in ("budgets", "where", "peers"):
        page.put(text, name, "")


def test_a_value_over_its_budget_is_missed_and_shown_so() -> None:
    over, within = Row("turn", 15.01, "x bare", 15, ""), Row("turn", 15, "x bare", 15, "")
    assert (over.missed, within.missed, Row("turn", 99, "x bare", None, "").missed) == (True, False, False)
    assert (over.cells[2], within.cells[2]) == ("15 x bare OVER", "15 x bare")


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("zett_agent._runtime.channel", "channel and events"),
        ("zett_agent.events", "channel and events"),
        ("zett_agent.extensions.events", "hooks and notifications"),
        ("zett_agent.extensions.memory", "memory extension"),
        ("zett_agent.extensions.todo", "other extensions"),
        ("zett_agent.eventsource", "other modules of the package"),
        ("asyncio.base_events", "asyncio: event loop, asyncio tasks"),
        ("bench.workloads", "model and reader (the bare loop has them too)"),
        ("dataclasses", None),
    ],
)
def test_a_module_belongs_to_the_part_with_the_longest_name(module: str, part: str | None) -> None:
    assert where.part_of(module) == part


def test_every_part_names_modules_that_exist() -> None:
    names = [name for listed in where.PARTS.values() for name in listed.split() if name.startswith("zett_agent")]
    paths = [SOURCE / name.replace(".", "/") for name in names]
    assert [path for path in paths if not path.is_dir() and not path.with_suffix(".py").is_file()] == []


def _inside(module: str, then: object) -> FrameType:
    scope = {"__name__": module, "then": then, "sys": sys}
    exec("def call():\n    return then() if then else sys._getframe()\n", scope)
    frame = scope["call"]()  # type: ignore[operator]
    assert isinstance(frame, FrameType)
    return frame


def test_the_time_of_the_standard_library_is_its_callers() -> None:
    frame = _inside("zett_agent.ids", lambda: _inside("dataclasses", lambda: _inside("copy", None)))
    part, owner = where.attribute(frame)
    assert part == "ids"
    assert owner is not None
    assert owner.f_globals["__name__"] == "zett_agent.ids"
    assert where.attribute(None) == (where.OUTSIDE, None)


async def test_a_profile_of_a_batch_counts_what_the_runtime_enters() -> None:
    model = w.ReplayModel(w.text_events(3))
    study = where.Study("tiny", lambda: w.runtime(model), w.bare(model), 2)
    found = await where.profile(study, 0.01)
    assert found.parts.total() == found.functions.total()
    assert found.entries["channel and events"] > 0
    assert found.entries["journal, records, store"] == 0


@pytest.mark.parametrize(("pieces", "calls"), [(3, 0), (1, 1), (2, 4)])
async def test_the_bare_loop_and_the_runtime_do_the_same_work(pieces: int, calls: int) -> None:
    script = Script(tuple(w.pieces(pieces)), calls)
    await check(Peer(), await Peer().fresh(script), script)
    answer = w.text_events(pieces)
    model = w.ReplayModel(w.call_events(calls), answer) if calls else w.ReplayModel(answer)

    async def add(left: int, right: int) -> int:
        return left + right

    shown = [event async for event in BareLoop(model, {"add": add}, [w.add.definition]).stream("s", "hello")]
    assert tuple(value for kind, value in shown if kind == "text") == script.pieces
    results = [value for kind, value in shown if kind == "tool_done"]
    assert all(isinstance(result, ToolMessage) and result.success for result in results)
    assert len(results) == calls


def test_the_peers_scripts_are_the_bare_loops_scenarios() -> None:
    assert SCRIPTS.keys() == w.scenarios().keys()
    assert {*SCRIPTS, "long"} == peers.COLUMNS.keys()
    assert SCRIPTS["batch"].calls == w.scenarios()["batch"].share
    assert len(SCRIPTS["delta"].pieces) == w.scenarios()["delta"].share


async def test_a_check_that_sees_less_than_the_script_fails() -> None:
    request = await Peer().fresh(Script(tuple(w.pieces(2))))
    with pytest.raises(AssertionError, match="2 of 3 pieces"):
        await check(Peer(), request, Script(tuple(w.pieces(3))))


async def test_a_session_that_grew_by_a_tenth_is_made_anew() -> None:
    def lengths() -> Iterator[int]:
        assert sessions.agent is not None
        for number in range(sessions.sessions):
            state = sessions.agent.get_state(f"long-{number}")
            assert state is not None
            yield sum(message.role != "system" for message in state.messages)

    sessions = w.LongSessions(20)
    await sessions.prepare()
    assert set(lengths()) == {20}
    for _ in range(sessions.sessions):
        await sessions.turn()
    assert set(lengths()) == {22}
    await sessions.prepare()
    assert set(lengths()) == {20}


def test_a_peer_that_could_not_be_measured_has_dashes_and_stops_nobody() -> None:
    found: dict[str, dict[str, Any]] = {
        "good": {"versions": {"good": "1.0"}, "note": "its way", "turn": {"ratio": 12.345}, "tool": {"reason": "no"}},
        "bad": {"reason": "No matching distribution at https://index.example"},
    }
    text = peers.report(found)
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]]
        for line in text.splitlines()
        if len(cells := line.split("|")) > 2
    }
    assert rows["good"] == ["12.3 x", "-", "-", "-", "-"]
    assert rows["bad"] == ["-"] * 5
    assert "index.example" not in text  # the page is for everybody, the reason for this console
    assert "- good: good 1.0. its way." in text


def test_the_last_line_of_an_error_is_its_reason() -> None:
    assert peers.last_line("Traceback\n\nValueError: no\n\n") == "ValueError: no"
    assert peers.last_line("") == "no reason given"


def test_a_session_that_waits_in_memory_is_within_its_budget() -> None:
    """Bytes, not time: the same on every machine. In a process of its own, since a tracer keeps frames alive."""
    code = "import asyncio; from bench.workloads import waiting_session_bytes as w; print(asyncio.run(w(200)) / 1024)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent)
    assert 5 < float(done.stdout) <= 12, "KiB; see design 001 and docs/performance.md"
