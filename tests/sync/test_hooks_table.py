"""HOOKS-01, UI-01: the table of hooks and terminal events holds behind the door without async, too."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.engine.hooks_table import TABLE, Cast
from tests.sync.support import in_thread, interrupt_when, wait_for
from zett_agent.exceptions import AgentError
from zett_agent.sync import SyncAgent, SyncRuntime, create_agent_sync


@pytest.mark.parametrize("end", [end for end, row in TABLE.items() if not row.close_at and not row.deadline])
def test_hooks_01_ui_01_ui_02_sync_run_calls_the_hooks_of_the_table(end: str, runtime: SyncRuntime) -> None:
    cast, agent = staged(end, runtime)
    begin(cast, agent)
    with agent, suppress(KeyboardInterrupt, ConnectionError, AgentError):
        agent.run("hi")
    wait_for(cast.life.over)
    cast.check(cast.watch.events)


@pytest.mark.parametrize("end", [end for end, row in TABLE.items() if not row.deadline])
def test_hooks_01_ui_01_ui_02_a_sync_stream_calls_the_hooks_of_the_table(end: str, runtime: SyncRuntime) -> None:
    cast, agent = staged(end, runtime)
    begin(cast, agent)
    seen = []
    with agent, suppress(KeyboardInterrupt, ConnectionError, AgentError), agent.stream("hi") as events:
        for event in events:
            seen.append(event)
            if event.type.value == cast.row.close_at:
                break
    wait_for(cast.life.over)
    cast.check(seen)


def staged(end: str, runtime: SyncRuntime) -> tuple[Cast, SyncAgent]:
    cast = Cast(TABLE[end])
    agent = create_agent_sync(
        cast.model,
        runtime=runtime,
        event_dispatcher=cast.watch,
        tools=cast.tools,
        extensions=cast.extensions,
        max_iterations=2,
    )
    return cast, agent


def begin(cast: Cast, agent: SyncAgent) -> None:
    """Let another thread do what the row says once the request hangs; a cancel is Ctrl-C in this one."""
    if cast.row.act == "cancel":
        interrupt_when(cast.gate.reached)
    elif cast.row.act:

        def act() -> None:
            wait_for(cast.gate.reached)
            if cast.row.act == "stop":
                assert agent.stop()
            else:
                cast.answer(agent.client.agent)

        in_thread(act)
