"""The waitbook: open, answer, expire, abandon; the first answer wins."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from zett_agent._runtime.waitbook import Waitbook
from zett_agent.exceptions import ToolTimeoutError
from zett_agent.waits import ExternalEvent, Wait, WaitState

NOW = datetime(2025, 1, 1, tzinfo=UTC)
YES = ExternalEvent("answer", {"tool_call_id": "q1", "answer": "yes"})
NO = ExternalEvent("answer", {"tool_call_id": "q1", "answer": "no"})


def wait(wait_id: str = "q1") -> Wait:
    return Wait(wait_id, "s", "r", "Ext", frozenset({"answer"}), "tool_call_id", NOW)


async def test_hitl_20_the_first_answer_wins() -> None:
    book = Waitbook()
    ticket = book.open(wait())
    assert book.pending() == (wait(),) and book.find("q1") == wait()
    assert book.answer("q1", YES)
    assert not book.answer("q1", NO)
    assert await ticket.result() is YES
    assert (ticket.state, ticket.answer) == (WaitState.ANSWERED, YES)
    assert book.pending() == () and book.find("q1") is None


async def test_answers_may_come_in_any_order() -> None:
    book = Waitbook()
    tickets = {name: book.open(wait(name)) for name in ("a", "b", "c")}
    assert [entry.id for entry in book.pending()] == ["a", "b", "c"]
    for name in ("c", "a", "b"):
        assert book.answer(name, ExternalEvent("answer", {"name": name}))
    for name, ticket in tickets.items():
        assert (await ticket.result()).payload == {"name": name}


async def test_an_id_can_wait_once_at_a_time() -> None:
    book = Waitbook()
    book.open(wait())
    with pytest.raises(RuntimeError, match="'q1' of session 's' waits already"):
        book.open(wait())
    book.remove("q1")
    book.open(wait())


async def test_an_answer_to_nobody_is_refused() -> None:
    book = Waitbook()
    assert not book.answer("q1", YES)
    ticket = book.open(wait())
    book.remove("q1")
    assert not book.answer("q1", YES)
    assert ticket.state is WaitState.ABANDONED
    book.remove("q1")


async def test_removing_an_answered_wait_keeps_its_state() -> None:
    book = Waitbook()
    ticket = book.open(wait())
    book.answer("q1", YES)
    book.remove("q1")
    assert ticket.state is WaitState.ANSWERED


async def test_hitl_10_a_wait_that_expires_gives_its_default() -> None:
    book = Waitbook()
    ticket = book.open(wait(), timeout=0, default=NO)
    assert await ticket.result() is NO
    assert (ticket.state, ticket.answer) == (WaitState.EXPIRED, NO)
    assert not book.answer("q1", YES)
    assert not book.expire("q1")


async def test_a_wait_that_expires_without_a_default_is_a_timeout() -> None:
    ticket = Waitbook().open(wait(), timeout=0)
    with pytest.raises(ToolTimeoutError, match="nobody answered in time"):
        await ticket.result()


async def test_an_answer_in_time_stops_the_clock() -> None:
    book = Waitbook()
    ticket = book.open(wait(), timeout=3600, default=NO)
    book.answer("q1", YES)
    assert await ticket.result() is YES
    assert ticket._timer is not None and ticket._timer.cancelled()


async def test_abandoning_cancels_the_waiter_or_gives_it_the_error() -> None:
    book = Waitbook()
    plain, failed = book.open(wait("a")), book.open(wait("b"))
    book.abandon("a")
    error = RuntimeError("over")
    book.abandon("b", error)
    with pytest.raises(asyncio.CancelledError):
        await plain.result()
    with pytest.raises(RuntimeError, match="over"):
        await failed.result()
    assert plain.state is failed.state is WaitState.ABANDONED
    book.abandon("a")
    book.abandon("unknown")


async def test_abandoning_all_leaves_none() -> None:
    book = Waitbook()
    for name in "abc":
        book.open(wait(name))
    book.abandon_all(RuntimeError("over"))
    assert book.pending() == ()


async def test_a_waiter_that_is_gone_already_does_not_matter() -> None:
    book = Waitbook()
    ticket = book.open(wait())
    task = asyncio.ensure_future(ticket.result())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert book.answer("q1", YES)


async def test_an_answer_from_another_thread_wakes_the_waiter() -> None:
    book, taken = Waitbook(), list[bool]()
    ticket = book.open(wait())
    threads = [threading.Thread(target=lambda: taken.append(book.answer("q1", YES))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert await ticket.result() is YES
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]


def test_an_answer_for_a_loop_that_is_gone_is_refused() -> None:
    book = Waitbook()

    async def leave() -> None:
        book.open(wait())

    asyncio.run(leave())
    assert not book.answer("q1", YES)


async def test_hitl_09_the_question_is_kept_with_its_wait() -> None:
    book = Waitbook()
    ticket = book.open(wait())
    assert book.note_question("ask", {"tool_call_id": "another"}) is None
    assert book.note_question("ask", {"tool_call_id": "q1", "session_id": "of a child"}) is None
    assert book.note_question("ask", {"tool_call_id": "q1", "question": "why?"}) is ticket
    assert book.note_question("ask again", {"tool_call_id": "q1"}) is None
    noted = book.find("q1")
    assert noted is not None and noted.event_name == "ask"
    assert noted.question == {"tool_call_id": "q1", "question": "why?"}


async def test_a_noted_question_shares_nothing_with_the_event_unless_that_is_in_itself() -> None:
    book = Waitbook()
    options = ["red"]
    cycle: list[Any] = []
    cycle.append(cycle)
    for wait_id, given in (("q1", options), ("q2", cycle)):
        book.open(wait(wait_id))
        book.note_question("ask", {"tool_call_id": wait_id, "options": given})
    options.append("other")
    first, second = book.pending()
    assert first.question == {"tool_call_id": "q1", "options": ["red"]}
    assert second.question is not None and second.question["options"] is cycle
