"""What must hold after a request was stopped, wherever and however."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.attack.ledger import Account
from tests.attack.rich import CALLS, SESSION, Rich
from zett_agent.events import TERMINAL_EVENTS
from zett_agent.messages import AgentMessage
from zett_agent.testing import check_event_order, check_transcript
from zett_agent.tools.threads import shared_pool

SECONDS = 8.0


async def check(rich: Rich) -> None:
    """One outcome, a whole history, nothing of the request is left, and the session goes on."""
    _check_outcome(rich)
    _check_only_the_background_is_left(rich)
    if not _background(rich):
        await _check_nothing_runs()
    _check_nobody_waits_for_a_thread()
    await asyncio.wait_for(rich.agent.run("again"), SECONDS)
    await rich.agent.aclose()
    await _check_nothing_runs()
    rich.door.set()
    _check_no_thread_works()
    rich.agent.forget("s")
    _check_nothing_is_kept(rich)
    for account in rich.cast.ledger.accounts.values():
        account.check()
    _check_what_was_said(rich)
    rich.cast.ledger.accounts.clear()


def _check_outcome(rich: Rich) -> None:
    assert not rich.agent.pending
    check_transcript(rich.agent.state.messages)
    check_transcript(rich.memory.messages("s"))
    seen = [event for event in rich.events if event.type in TERMINAL_EVENTS]
    assert len(seen) == 1 if rich.ended and not rich.closed else len(seen) <= 1
    if seen:
        check_event_order(rich.events)
        assert seen[0].type.value == f"run_{rich.agent.state.phase.value}"


def _check_only_the_background_is_left(rich: Rich) -> None:
    """Whatever is not of a background task that still runs has ended: requests, questions and asyncio tasks."""
    accounts = rich.cast.ledger.accounts.values()
    parents = {account.context.session_id: account.context.config.parent_session_id for account in accounts}
    for account in accounts:
        if account.over:
            account.check()
        else:
            assert _below(account.context.session_id, parents) in _background(rich), account
    for wait in rich.agent.pending_waits():
        assert _below(wait.session_id, parents) in _background(rich), wait
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not names & set(_names(rich, accounts)), names


def _names(rich: Rich, accounts: Any) -> Iterator[str]:
    """The names of the asyncio tasks of requests that are over, and of the parent's calls."""
    yield from (f"zett call {call_id}" for call_id in CALLS)
    account: Account
    for account in accounts:
        if account.over:
            yield f"zett request {account.context.request_id}"


def _below(session_id: str, parents: dict[str, str | None]) -> str:
    """Which session directly below the parent this one belongs to."""
    while (parent := parents.get(session_id)) not in (None, SESSION.session_id):
        session_id = str(parent)
    return session_id


def _background(rich: Rich) -> set[str]:
    return {task.session_id for task in rich.cast.background.tasks("s") if not task.finished}


async def _check_nothing_runs() -> None:
    for _ in range(50):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left: {sorted(task.get_name() for task in asyncio.all_tasks())}")


def _check_nobody_waits_for_a_thread() -> None:
    """A thread within a plain function cannot be stopped; that it works for nobody is all that can be true."""
    pool = shared_pool()
    with pool._changed:
        assert pool._threads - pool._idle == pool._abandoned, "a thread works for a request that is over"
        assert not pool._queue, "a function waits for a thread, and nobody for it"


def _check_no_thread_works() -> None:
    """Once its function lets it go, a thread is free again; and the only threads of ours are those of the pool."""
    pool, deadline = shared_pool(), time.monotonic() + SECONDS
    while pool._threads - pool._idle or pool._abandoned:
        assert time.monotonic() < deadline, "a thread still works"
        time.sleep(0.0001)  # it is past its function, on its way to the pool
    ours = [thread.name for thread in threading.enumerate() if thread.name.startswith("zett")]
    assert set(ours) <= {"zett-agent-tool"} and len(ours) <= pool._threads, ours


def _check_nothing_is_kept(rich: Rich) -> None:
    cast = rich.cast
    kept: list[Any] = [
        *(book for extension in (cast.asking, rich.gate) for book in (extension._books, extension._staged)),
        *(rich.gate._grants, rich.gate._parents, rich.memory._holders),
        *(one for one in cast.families if not one.nursery.empty),
        *(book for one in (cast.background, cast.below) for book in (one._board._sessions, one._streams)),
    ]
    assert not any(kept), kept
    assert not rich.agent.pending_waits()


def _check_what_was_said(rich: Rich) -> None:
    """Every model was sent whole histories only, and no outcome of a task was told twice."""
    for model in (rich.model, *rich.cast.models):
        for request in model.requests:
            check_transcript(request.messages)
        model.requests.clear()
    told = Counter(
        task_id
        for message in rich.memory.messages("s")
        if isinstance(message, AgentMessage)
        for task_id in message.attributes.get("subagent_tasks", ())
    )
    assert all(times == 1 for times in told.values()), told
