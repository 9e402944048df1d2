"""HOOKS-01, UI-01: the same hooks in the same order, and one terminal event, whichever door and whatever end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.hooks_table import ANSWER, END, OPENING, RUNNING, TABLE, TWO_TURNS, Cast, Row, check_terminal
from tests.engine.scenario import SESSION
from tests.engine.virtual_time import in_virtual_time
from tests.extensions.subagents import kind, until, work
from zett_agent.agent import Agent
from zett_agent.client import AgentClient
from zett_agent.events import AgentEvent
from zett_agent.exceptions import AgentDeadlineError
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.testing import EventRecorder, HookRecorder, ScriptedModel, call

STREAMS = ["agent.stream", "client.stream"]
DOORS = [*STREAMS, "agent.run", "client.run"]


def played(row: Row) -> list[str]:
    return STREAMS if row.close_at else DOORS


async def act(row: Row, cast: Cast, agent: Agent, request: asyncio.Task[Any]) -> None:
    """Do what the row says once the request hangs, and let it end."""
    if row.act:
        await until(lambda: cast.gate.reached.is_set() or agent.pending_waits() or request.done())
    if row.act == "cancel":
        request.cancel()
    elif row.act == "stop":
        assert agent.stop()
    elif row.act == "answer":
        cast.answer(agent)
    with suppress(asyncio.CancelledError, Exception):
        await request


@pytest.mark.parametrize(
    ("end", "door"), [(end, door) for end, row in TABLE.items() for door in played(row) if not row.deadline]
)
async def test_hooks_01_ui_01_ui_02_every_door_and_every_end_calls_the_hooks_of_the_table(end: str, door: str) -> None:
    row = TABLE[end]
    cast, recorder = Cast(row), EventRecorder()
    agent = await Agent.create(
        cast.model, config=SESSION, tools=cast.tools, extensions=cast.extensions, max_iterations=2
    )
    opened: Any = agent if door.startswith("agent") else AgentClient(agent, event_dispatcher=cast.watch)
    if door.endswith("run"):
        request = asyncio.ensure_future(opened.run("hi"))
    else:
        request = asyncio.ensure_future(recorder.record(opened.stream("hi"), until=row.close_at or None))
    await act(row, cast, agent, request)
    assert not agent.pending
    cast.check(shown(door, cast, recorder))
    assert row.phase == "cancelled" or cast.model.script.remaining == 0


def shown(door: str, cast: Cast, recorder: EventRecorder) -> list[AgentEvent] | None:
    """What the door lets a consumer see; ``run`` of an agent shows nothing."""
    if door.endswith("stream"):
        return recorder.events
    return cast.watch.events if door == "client.run" else None


@pytest.mark.parametrize(("end", "door"), [(end, door) for end, row in TABLE.items() for door in DOORS if row.deadline])
def test_hooks_01_ui_01_ui_02_ends_05_a_deadline_calls_the_hooks_of_the_table(end: str, door: str) -> None:
    row = TABLE[end]
    cast, recorder = Cast(row), EventRecorder()

    async def main() -> None:
        options: dict[str, Any] = {"deadline": row.deadline, "deadline_counts_waits": True}
        agent = await Agent.create(cast.model, config=SESSION, tools=cast.tools, extensions=cast.extensions, **options)
        opened: Any = agent if door.startswith("agent") else AgentClient(agent, event_dispatcher=cast.watch)
        with suppress(AgentDeadlineError):
            await (opened.run("hi") if door.endswith("run") else recorder.record(opened.stream("hi")))
        assert not agent.pending

    in_virtual_time(main)
    cast.check(shown(door, cast, recorder))


PARENT = {
    "completed": (TWO_TURNS, "run_completed"),
    "stop": (f"{OPENING} before_turn {ANSWER} {RUNNING}", "run_cancelled"),
    "cancel": (f"{OPENING} before_turn {ANSWER} {RUNNING}", ""),
}


@pytest.mark.parametrize("end", [end for end, row in TABLE.items() if not row.close_at and not row.deadline])
async def test_hooks_01_ui_01_ui_02_a_child_calls_the_hooks_of_the_table_too(end: str) -> None:
    row = TABLE[end]
    cast, recorder, hooks = Cast(row), EventRecorder(), HookRecorder(notifications=False)
    child = kind(cast.model, tools=cast.tools, extensions=cast.extensions, max_iterations=2)
    model = ScriptedModel([call("task", **work())], "ok")
    agent = await Agent.create(model, config=SESSION, extensions=[hooks, SubAgentExtension([child])])
    request = asyncio.ensure_future(recorder.record(agent.stream("go")))
    await act(row, cast, agent, request)
    cast.check(None)
    expected, terminal = PARENT.get(row.act, PARENT["completed"])
    assert hooks.hooks == expected.split()
    check_terminal(recorder.events, terminal)


@pytest.mark.parametrize(
    "end", [end for end, row in TABLE.items() if not (row.close_at or row.deadline or row.act == "stop")]
)
async def test_hooks_01_a_child_in_the_background_calls_the_hooks_of_the_table_too(end: str) -> None:
    row = TABLE[end]
    cast = Cast(row)
    child = kind(cast.model, tools=cast.tools, extensions=cast.extensions, max_iterations=2)
    background = AsyncSubAgentExtension([child])
    model = ScriptedModel([call("task_start", **work())], "ok")
    agent = await Agent.create(model, config=SESSION, extensions=[InMemoryMessageAccumulator(), background])
    await agent.run("go")
    (task,) = background.tasks("s")
    if row.act:
        await until(lambda: cast.gate.reached.is_set() or agent.pending_waits())
    if row.act == "answer":
        cast.answer(agent)
    elif row.act == "cancel":
        await background.close()
    await until(lambda: cast.life.over.is_set() and task.finished)
    cast.check(None)
    assert task.status.value == row.phase
    await agent.aclose()


def test_the_table_ends_in_every_way_there_is() -> None:
    assert {row.terminal for row in TABLE.values()} == {"run_completed", "run_failed", "run_cancelled", ""}
    assert END in TABLE["ok"].hooks
