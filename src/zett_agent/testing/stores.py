"""The behaviour that every session store must have, as checks that run under any test framework.

With pytest::

    @pytest.mark.parametrize("check", STORE_CHECKS)
    async def test_my_store(check):
        await check(make_store)

``make_store`` returns a new, empty store each time; a check closes the store that it got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar

from zett_agent.exceptions import SessionBusyError, StorageError, StoredFormatError
from zett_agent.messages import UserMessage
from zett_agent.storage import records
from zett_agent.storage.base import SessionInfo, SessionState, SessionStore
from zett_agent.storage.codec import decode_event, decode_message
from zett_agent.storage.records import FORMAT_VERSION, NewRecord, Record, RecordKind
from zett_agent.waits import ExternalEvent, Wait, WaitState

MakeStore = Callable[[], Awaitable[SessionStore]]
StoreCheck = Callable[[MakeStore], Awaitable[None]]

_AT = datetime(2025, 1, 2, 3, 4, 5, 678901, UTC)
_TTL = 3600.0
_Error = TypeVar("_Error", bound=BaseException)
_checks: list[StoreCheck] = []


async def check_session_store(make_store: MakeStore) -> None:
    """Run every check, one after another; AssertionError says what does not hold."""
    for check in STORE_CHECKS:
        await check(make_store)


def _check(body: Callable[[SessionStore], Awaitable[None]]) -> StoreCheck:
    """Let a check make and close its store, and put it on the list."""

    @wraps(body)
    async def check(make_store: MakeStore) -> None:
        store = await make_store()
        try:
            await body(store)
        finally:
            await store.close()

    _checks.append(check)
    return check


def _equal(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


async def _refused(kind: type[_Error], work: Awaitable[object]) -> _Error:
    try:
        result = await work
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got the result {result!r}")


def _note(number: int = 0) -> NewRecord:
    return records.checked(RecordKind.EXTENSION, {"number": number}, at=_AT + timedelta(seconds=number))


def _opened(request_id: str = "r1", at: datetime = _AT) -> NewRecord:
    return records.request_opened(
        request_id, parent_session_id=None, input_kind="user", metadata=None, tags=None, at=at
    )


def _closed(request_id: str = "r1") -> NewRecord:
    return records.request_closed(request_id, "completed", at=_AT)


def _wait(wait_id: str = "call-1", session_id: str = "s") -> Wait:
    names, options = frozenset({"answer", "cancel"}), {"question": "Ready? ✓", "options": ["yes", "no"]}
    question, expires = {"call_id": wait_id}, _AT + timedelta(days=3)
    return Wait(
        *(wait_id, session_id, "r1", "ask", names, "call_id", _AT),
        *("ask_user", options, "question", question, expires),
    )


def _answer(value: object = "yes") -> ExternalEvent:
    return ExternalEvent("answer", {"call_id": "call-1", "value": value})


async def _written(store: SessionStore, *new: NewRecord, session_id: str = "s") -> None:
    """Append and give the session back."""
    lease = await store.claim(session_id, "writer", ttl=_TTL)
    await store.append(lease, new)
    await store.release(lease)


async def _kinds(store: SessionStore, session_id: str = "s") -> list[RecordKind]:
    return [record.kind for record in await store.load(session_id)]


async def _info(store: SessionStore, session_id: str = "s") -> SessionInfo:
    return next(info for info in await store.sessions() if info.session_id == session_id)


@_check
async def check_an_unknown_session_is_empty(store: SessionStore) -> None:
    """Reading it finds nothing, an answer is refused, and asking does not create it."""
    _equal(list(await store.load("nobody")), [])
    _equal(list(await store.waits("nobody")), [])
    _equal(await store.answer("nobody", "call-1", _answer()), False)
    _equal(list(await store.sessions()), [])


@_check
async def check_appended_records_get_consecutive_seqs(store: SessionStore) -> None:
    """They come back in order, whole, with what the store adds."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    _equal(await store.append(lease, [_note(1), _note(2)]), 2)
    _equal(await store.append(lease, []), 2)
    _equal(await store.append(lease, [_note(3)]), 3)
    expected = [
        Record("s", n, _AT + timedelta(seconds=n), RecordKind.EXTENSION, FORMAT_VERSION, {"number": n})
        for n in (1, 2, 3)
    ]
    _equal(list(await store.load("s")), expected)


@_check
async def check_loading_after_a_seq_gives_what_follows(store: SessionStore) -> None:
    """It gives nothing at or beyond the end."""
    await _written(store, *(_note(number) for number in range(1, 101)))
    _equal([record.seq for record in await store.load("s", after=97)], [98, 99, 100])
    _equal(list(await store.load("s", after=100)), [])
    _equal(list(await store.load("s", after=200)), [])


@_check
async def check_sessions_are_apart(store: SessionStore) -> None:
    """Each has its own seqs, waits and lease."""
    await _written(store, _opened(), records.wait_opened(_wait(session_id="one")), session_id="one")
    await _written(store, _opened(), records.wait_opened(_wait(session_id="two")), session_id="two")
    _equal(await store.answer("one", "call-1", _answer()), True)
    _equal(list(await store.waits("one")), [])
    _equal(list(await store.waits("two")), [_wait(session_id="two")])
    _equal([record.seq for record in await store.load("two")], [1, 2])


@_check
async def check_ids_and_bodies_of_any_shape_come_back(store: SessionStore) -> None:
    """Long ids, any script, integers beyond 64 bits, keys that look like an escape (core-32, core-59)."""
    session_id = "セッション/'\";--%_" + "x" * 300
    body: dict[str, Any] = {
        "big": 2**200,
        "small": -(2**63) - 1,
        "float": 0.1,
        "text": "line\nbreak \u2028 nul \0 emoji 🙂",
        "nested": [[], {}, [None, True, {"": ""}]],
        "bytes": {"data": "AAAA", "media_type": "image/png"},
    }
    await _written(store, records.checked(RecordKind.TASK, body, at=_AT), session_id=session_id)
    (record,) = await store.load(session_id)
    _equal((record.session_id, record.body, record.at), (session_id, body, _AT))


@_check
async def check_times_are_kept_to_the_microsecond_and_read_as_utc(store: SessionStore) -> None:
    """Also when they were given in another zone (core-59)."""
    await _written(store, _opened(at=_AT.astimezone()))
    (record,) = await store.load("s")
    _equal((record.at, record.at.utcoffset()), (_AT, timedelta(0)))


@_check
async def check_a_log_cannot_be_changed_from_outside(store: SessionStore) -> None:
    """Neither through what was appended nor through what was loaded."""
    new = records.message(UserMessage(content="hi", attributes={"tags": ["a"]}), request_id="r1", at=_AT)
    await _written(store, new)
    new.body.clear()
    (record,) = await store.load("s")
    decode_message(record.body["message"]).attributes["tags"].append("b")
    record.body.clear()
    (again,) = await store.load("s")
    _equal(decode_message(again.body["message"]).attributes, {"tags": ["a"]})


@_check
async def check_an_append_is_all_or_nothing(store: SessionStore) -> None:
    """A record that is not JSON, without a zone, or that answers no open wait takes the whole batch with it."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    not_json = NewRecord(RecordKind.EXTENSION, {"x": float("nan")}, _AT)
    naive = NewRecord(RecordKind.EXTENSION, {}, _AT.replace(tzinfo=None))
    no_wait = NewRecord(RecordKind.WAIT_OPENED, {}, _AT)
    for bad in (not_json, naive, no_wait):
        await _refused(StoredFormatError, store.append(lease, [_opened(), records.wait_opened(_wait()), bad]))
    stray = records.wait_answered("call-2", _answer(), at=_AT)
    await _refused(StorageError, store.append(lease, [records.wait_opened(_wait()), stray]))
    _equal((list(await store.load("s")), list(await store.waits("s"))), ([], []))
    _equal(await store.append(lease, [_note()]), 1)


@_check
async def check_a_held_session_is_busy(store: SessionStore) -> None:
    """The error names the holder, and its session; an unheld session is free."""
    await store.claim("s", "first", ttl=_TTL)
    error = await _refused(SessionBusyError, store.claim("s", "second", ttl=_TTL))
    _equal((error.session_id, error.holder), ("s", "first"))
    _equal((await store.claim("other", "second", ttl=_TTL)).holder, "second")


@_check
async def check_one_of_many_concurrent_claims_wins(store: SessionStore) -> None:
    """PERSIST-12: all others are told that the session is busy."""
    claims = (store.claim("s", f"r{number}", ttl=_TTL) for number in range(20))
    results = await asyncio.gather(*claims, return_exceptions=True)
    _equal(sum(isinstance(result, SessionBusyError) for result in results), 19)


@_check
async def check_a_ttl_must_be_a_positive_number(store: SessionStore) -> None:
    """Zero, negative and endless leases are refused, and nothing is held."""
    for ttl in (0.0, -1.0, float("inf"), float("nan")):
        await _refused(ValueError, store.claim("s", "r1", ttl=ttl))
    await store.claim("s", "r2", ttl=_TTL)


@_check
async def check_a_holder_may_claim_again(store: SessionStore) -> None:
    """Its older lease is then lost."""
    old = await store.claim("s", "r1", ttl=_TTL)
    new = await store.claim("s", "r1", ttl=_TTL)
    _equal(new.fence > old.fence, True)
    await _refused(StorageError, store.append(old, [_note()]))
    _equal(await store.append(new, [_note()]), 1)


@_check
async def check_a_released_session_is_free(store: SessionStore) -> None:
    """The released lease appends and renews no more, and releasing it again harms nobody."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    await store.release(lease)
    await _refused(StorageError, store.append(lease, [_note()]))
    await _refused(StorageError, store.renew(lease))
    other = await store.claim("s", "r2", ttl=_TTL)
    await store.release(lease)
    _equal(await store.append(other, [_note()]), 1)
    await _refused(StorageError, store.append(lease, [_note()]))


@_check
async def check_a_lease_that_ran_out_can_be_taken_over(store: SessionStore) -> None:
    """The old holder is fenced out: it cannot append, renew, or free the session."""
    old = await store.claim("s", "old", ttl=0.02)
    await asyncio.sleep(0.05)
    new = await store.claim("s", "new", ttl=_TTL)
    await _refused(StorageError, store.append(old, [_note()]))
    await _refused(StorageError, store.renew(old))
    await store.release(old)
    await _refused(SessionBusyError, store.claim("s", "third", ttl=_TTL))
    _equal(await store.append(new, [_note()]), 1)


@_check
async def check_a_late_holder_goes_on_while_nobody_took_over(store: SessionStore) -> None:
    """A lease that ran out is not lost until someone else claims."""
    lease = await store.claim("s", "r1", ttl=0.02)
    await asyncio.sleep(0.05)
    _equal(await store.append(lease, [_note()]), 1)
    renewed = await store.renew(lease)
    _equal((renewed.fence, renewed.expires_at > lease.expires_at), (lease.fence, True))
    _equal(await store.append(lease, [_note()]), 2)


@_check
async def check_concurrent_appends_lose_nothing(store: SessionStore) -> None:
    """Each batch stays together (PERSIST-12)."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    lasts = await asyncio.gather(*(store.append(lease, [_note(n), _note(n)]) for n in range(20)))
    _equal(sorted(lasts), list(range(2, 41, 2)))
    numbers = [record.body["number"] for record in await store.load("s")]
    _equal(numbers[::2], numbers[1::2])
    _equal(len(set(map(str, numbers))), 20)


@_check
async def check_a_wait_is_open_until_it_is_answered_or_closed(store: SessionStore) -> None:
    """Open waits come oldest first and whole; the lease has no part in it."""
    first, second, third = _wait("call-1"), _wait("call-2"), _wait("call-3")
    await _written(store, *map(records.wait_opened, (first, second, third)))
    _equal(list(await store.waits("s")), [first, second, third])
    _equal(await store.answer("s", "call-2", _answer()), True)
    _equal(list(await store.waits("s")), [first, third])
    await _written(store, records.wait_closed("call-1", WaitState.EXPIRED, at=_AT))
    _equal(list(await store.waits("s")), [third])
    _equal(await store.answer("s", "call-1", _answer()), False)
    _equal(await store.answer("s", "call-4", _answer()), False)
    _equal((await _kinds(store))[3:], [RecordKind.WAIT_ANSWERED, RecordKind.WAIT_CLOSED])


@_check
async def check_the_first_of_many_concurrent_answers_wins(store: SessionStore) -> None:
    """HITL-20: exactly one is accepted, also while a request holds the session, and the log has that one."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    last = await store.append(lease, [_opened(), records.wait_opened(_wait())])
    accepted = await asyncio.gather(*(store.answer("s", "call-1", _answer(n)) for n in range(10)))
    _equal(sorted(accepted), [False] * 9 + [True])
    (record,) = await store.load("s", after=last)
    _equal((record.kind, record.body["wait_id"]), (RecordKind.WAIT_ANSWERED, "call-1"))
    _equal(decode_event(record.body["event"]), _answer(accepted.index(True)))
    _equal(await store.append(lease, [_closed()]), last + 2)


@_check
async def check_an_answer_that_is_not_json_is_refused(store: SessionStore) -> None:
    """The error names the key, and the wait stays open."""
    await _written(store, records.wait_opened(_wait()))
    error = await _refused(StoredFormatError, store.answer("s", "call-1", _answer({"when": _AT})))
    _equal("['value']['when']" in str(error), True)
    _equal(await store.answer("s", "call-1", _answer()), True)


@_check
async def check_a_writer_may_record_the_answer_itself(store: SessionStore) -> None:
    """Once; after that, and after any other answer, it is refused."""
    answered = records.wait_answered("call-1", _answer(), at=_AT)
    await _written(store, records.wait_opened(_wait()), answered)
    _equal(await store.answer("s", "call-1", _answer()), False)
    await _refused(StorageError, _written(store, answered))
    _equal(await _kinds(store), [RecordKind.WAIT_OPENED, RecordKind.WAIT_ANSWERED])


@_check
async def check_a_wait_can_be_opened_anew(store: SessionStore) -> None:
    """It counts as the youngest, and takes one more answer."""
    await _written(store, records.wait_opened(_wait()), records.wait_opened(_wait("call-2")))
    _equal(await store.answer("s", "call-1", _answer()), True)
    await _written(store, records.wait_opened(_wait()))
    _equal([wait.id for wait in await store.waits("s")], ["call-2", "call-1"])
    _equal(await store.answer("s", "call-1", _answer()), True)


@_check
async def check_the_state_of_a_session_follows_its_log(store: SessionStore) -> None:
    """PERSIST-09: a request without a live owner is interrupted, one that waits is waiting."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    _equal(list(await store.sessions()), [])
    await store.append(lease, [_opened()])
    _equal(await _info(store), SessionInfo("s", 1, SessionState.RUNNING, _AT, "r1"))
    await store.append(lease, [records.wait_opened(_wait())])
    _equal((await _info(store)).state, SessionState.WAITING)
    await store.release(lease)
    _equal(await _info(store), SessionInfo("s", 2, SessionState.WAITING, _AT, None))
    await store.answer("s", "call-1", _answer())
    _equal((await _info(store)).state, SessionState.INTERRUPTED)
    await _written(store, _closed("another"))
    _equal((await _info(store)).state, SessionState.INTERRUPTED)
    await _written(store, _closed())
    _equal((await _info(store)).state, SessionState.IDLE)


@_check
async def check_sessions_are_listed_latest_first(store: SessionStore) -> None:
    """By the time of their last record."""
    await _written(store, _note(2), session_id="two")
    await _written(store, _note(3), session_id="three")
    await _written(store, _note(1), session_id="one")
    _equal([info.session_id for info in await store.sessions()], ["three", "two", "one"])


@_check
async def check_a_closed_store_refuses_everything(store: SessionStore) -> None:
    """Closing twice is fine."""
    lease = await store.claim("s", "r1", ttl=_TTL)
    await store.close()
    await store.close()
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.claim("s", "r1", ttl=_TTL),
        lambda: store.renew(lease),
        lambda: store.release(lease),
        lambda: store.append(lease, [_note()]),
        lambda: store.load("s"),
        lambda: store.waits("s"),
        lambda: store.answer("s", "call-1", _answer()),
        lambda: store.sessions(),
    )
    for call in calls:
        await _refused(StorageError, call())


STORE_CHECKS: tuple[StoreCheck, ...] = tuple(_checks)
"""Every check, one per behaviour."""
