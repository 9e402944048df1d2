"""HOOKS-01, UI-01: the same hooks in the same order, and one terminal event, whichever door and whatever end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.engine.scenario import add, boom, scene
from zett_agent.events import TERMINAL_EVENTS
from zett_agent.testing import EventRecorder, HookRecorder, call, check_event_order, error, stall, stop, text

HANG = "a model that hangs here"
OPENING = "on_tool on_state on_message before_run"
STEP = "before_model on_model_request on_model_request_end"
ANSWER = f"{STEP} after_model"
TOOL = "before_tool on_tool_call authorize_tool on_tool_call_end after_tool"
END = "after_turn after_run on_success"

TABLE: dict[str, tuple[list[Any], str, str]] = {
    "ok": (["x"], f"{OPENING} before_turn {ANSWER} {END}", "run_completed"),
    "tool": (
        [[call("add", left=1, right=1)], "x"],
        f"{OPENING} before_turn {ANSWER} {TOOL} after_turn before_turn {ANSWER} {END}",
        "run_completed",
    ),
    "tool error": (
        [[call("boom")], "x"],
        f"{OPENING} before_turn {ANSWER} {TOOL} after_turn before_turn {ANSWER} {END}",
        "run_completed",
    ),
    "pause": (
        [[text("p"), stop("pause_turn")], "x"],
        f"{OPENING} before_turn {ANSWER} {ANSWER} {END}",
        "run_completed",
    ),
    "refusal": ([[text("no"), stop("refusal")]], f"{OPENING} before_turn {ANSWER} {END}", "run_completed"),
    "model error": (
        [[text("x"), error(ConnectionError())]],
        f"{OPENING} before_turn {STEP} on_error",
        "run_failed",
    ),
    "limit": (
        [[call("boom")]] * 2,
        f"{OPENING} {f'before_turn {ANSWER} {TOOL} after_turn ' * 2}before_turn on_error",
        "run_failed",
    ),
    "cancel": ([[text("x"), HANG]], f"{OPENING} before_turn {STEP}", ""),
    "early close": ([[text("x"), HANG]], f"{OPENING} before_turn {STEP}", ""),
    "stop": ([[text("x"), HANG]], f"{OPENING} before_turn {STEP}", "run_cancelled"),
}


@pytest.mark.parametrize("door", ["run", "stream"])
@pytest.mark.parametrize("end", TABLE)
async def test_hooks_01_ui_01_every_door_and_every_end_calls_the_hooks_of_the_table(door: str, end: str) -> None:
    steps, expected, terminal = TABLE[end]
    held, hooks = stall(), HookRecorder(notifications=False)
    script = [step if isinstance(step, str) else [held if piece is HANG else piece for piece in step] for step in steps]
    stage = await scene(*script, tools=[add, boom], extensions=[hooks], max_iterations=2)
    recorder = EventRecorder()
    request = asyncio.ensure_future(_go(door, end, stage.agent, recorder))
    if any(HANG in step for step in steps):
        await held.reached.wait()
        if end == "cancel" or (door == "run" and end == "early close"):
            request.cancel()
        elif end == "stop":
            stage.agent.stop()
    with suppress(asyncio.CancelledError, Exception):
        await request
    assert hooks.hooks == expected.split()
    if door == "stream":
        seen = [event.type.value for event in recorder.events if event.type in TERMINAL_EVENTS]
        assert seen == ([terminal] if terminal else [])
        if terminal:
            check_event_order(recorder.events)


async def _go(door: str, end: str, agent: Any, recorder: EventRecorder) -> None:
    if door == "run":
        await agent.run("hi")
    else:
        await recorder.record(agent.stream("hi"), until="text_delta" if end == "early close" else None)
