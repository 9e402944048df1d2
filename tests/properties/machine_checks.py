"""What must hold, at any moment and when everything that can go on has done so."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.properties.machine_ledger import SESSIONS, TOKEN, Ledger, Record
from tests.properties.machine_plans import ANSWERING, ASKING, FAILING
from tests.properties.machine_world import Consumer, World
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentResumeError, SessionBusyError
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, ToolMessage, UserMessage, content_text
from zett_agent.testing import check_event_order, check_transcript
from zett_agent.tools.threads import shared_pool

NOT_RUN = ("Not run:", "Stopped while it ran")


def check_always(world: World) -> None:
    """What holds between any two steps."""
    assert not world.complaints, world.complaints
    busy = {session_id for session_id in SESSIONS if world.agent.is_conflict(session_id)}
    assert busy == world.ledger.busy()
    assert world.agent.pending == bool(busy)
    for wait in world.waits():
        assert wait.session_id in world.ledger.active, f"a wait of nobody: {wait}"
    for key, times in world.ledger.executed.items():
        kind = world.ledger.calls[key].kind
        assert times == 1, f"{key} ran {times} times"
        assert kind not in ("denied", "hexed"), f"{key} ran though it was refused"
        if kind == "danger":
            assert world.ledger.accepted[key].decision in ("approve", "edit"), f"{key} ran unasked"


def check_settled(world: World) -> None:
    """What holds when nothing can go on by itself."""
    ledger = world.ledger
    waits = sorted((wait.session_id, wait.id) for wait in world.waits())
    held = sorted(key for key in ledger.gated if not ledger.active[key[0]].over)
    assert waits == held, f"open waits: {waits}; calls that are held: {held}"
    for record in ledger.active.values():
        assert record.over or not record.stopped, f"{record.session_id} was stopped and goes on"
    for consumer in world.consumers.values():
        assert consumer.gone or not (consumer.cancels or consumer.leaving), "it was left and goes on"
    for consumer in (*world.consumers.values(), *world.refused):
        _check_consumer(world, consumer)
    for record in ledger.records:
        if record.ended and not record.checked:
            record.checked = True
            _check_record(ledger, record)
    for session_id in SESSIONS:
        check_messages(ledger, session_id, world.memory.messages(session_id))
    _check_tasks(world)


def check_asked(world: World, session_id: str) -> None:
    """The model is called only when whoever reads has taken everything and asks for more.

    What a child shows may come between, for it waits for nobody: the reader has that then, and the model is called.
    """
    reader, active = world.reader(session_id), world.ledger.active
    if reader is None or not world.reads(reader):
        return
    stopping = reader.leaving or reader.cancels or active[session_id].stopped
    if stopping or any(world.ledger.root(one) == session_id for one in active if one != session_id):
        return
    seen = [event.type for event in reader.events]
    own = [kind for kind in seen if kind is not AgentEventType.CUSTOM]
    assert own and own[-1] is AgentEventType.MODEL_STARTED, f"{session_id} calls the model before that was read"
    assert reader.asking or seen[-1] is AgentEventType.CUSTOM, f"{session_id} calls the model though nobody asks"


def check_messages(ledger: Ledger, session_id: str, messages: Sequence[AnyMessage]) -> None:
    """Calls and results pair, and every text is where it belongs: in its session, and only if it was accepted."""
    check_transcript(messages)
    root = ledger.root(session_id)
    answers = {answer.text for answer in ledger.accepted.values()}
    for message in messages:
        for token in TOKEN.finditer(_all_text(message)):
            text, of, kind = token[0], token[1], token[2]
            assert of == root, f"{text} came to {root}: {message}"
            assert text not in ledger.refused, f"{text} was refused: {message}"
            assert kind != "answer" or text in answers, f"{text} was never given: {message}"
        if isinstance(message, ToolMessage):
            _check_result(ledger, session_id, message)


def _all_text(message: AnyMessage) -> str:
    if isinstance(message, AssistantMessage):
        return message.content + json.dumps([dict(call.arguments) for call in message.tool_calls])
    return content_text(message.content)


def _check_result(ledger: Ledger, session_id: str, result: ToolMessage) -> None:
    called = ledger.calls.get((session_id, result.tool_call_id))
    if called is None:
        return
    answer = ledger.accepted.get((session_id, result.tool_call_id))
    if called.kind in FAILING:
        assert not result.success, f"{called} cannot succeed: {result}"
    elif called.kind in ANSWERING and result.success:
        assert result.text == f"{called.kind} {called.tag}", f"{called} got {result}"
    elif called.kind in ASKING and result.success:
        assert answer is not None and answer.decision != "reject", f"{called} was not answered: {result}"
        assert (called.tag if answer.decision == "approve" else answer.text) in result.text, f"{answer}: {result}"
    elif called.kind in ASKING and answer is not None and answer.decision == "reject":
        assert answer.text in result.text or result.text.startswith(NOT_RUN), f"{answer}: {result}"


def _check_record(ledger: Ledger, record: Record) -> None:
    """Exactly one outcome, and every hook of an end called once for it, for whoever comes first and last."""
    phase, hooks = record.phase, record.hooks
    assert record.over, f"{record.session_id} ended {phase.value}"
    failed, cancelled, completed = (
        phase is end for end in (AgentPhase.FAILED, AgentPhase.CANCELLED, AgentPhase.COMPLETED)
    )
    answers = record.context.kind in ("user", "internal", "resume")
    for spy in ("first", "last"):
        told = {name: times for (who, name), times in hooks.items() if who == spy}
        counts = Counter(told)
        ends = (counts["->completed"], counts["->failed"], counts["->cancelled"])
        assert ends == (completed, failed, cancelled), f"{phase.value}: {told}"
        assert counts["request_finished"] == 1, told
        assert counts["on_error"] == failed, f"{phase.value}: {told}"
        assert counts["cancelled"] == cancelled, f"{phase.value}: {told}"
        assert counts["returned"] == bool(record.returned), told
        for hook in ("after_run", "on_success"):
            most = int(answers)
            assert counts[hook] == most if completed else counts[hook] <= most, f"{phase.value}: {told}"
    check_messages(ledger, record.session_id, record.messages)
    _check_inputs(record)
    if completed:
        _check_all_well(ledger, record)


def _check_inputs(record: Record) -> None:
    """What was accepted is in the history once, or was handed back once."""
    kept = Counter(_all_text(message) for message in record.messages if isinstance(message, AgentMessage | UserMessage))
    back = Counter(record.returned)
    for text in record.inputs:
        assert kept[text] + back[text] == 1, f"{text}: kept {kept[text]}, returned {back[text]}, {record.phase}"
    assert set(record.returned) <= set(record.inputs)


def _check_all_well(ledger: Ledger, record: Record) -> None:
    """In a request that completed, a call that can succeed did, unless it never ran."""
    for message in _of_request(record):
        called = ledger.calls.get((record.session_id, message.tool_call_id))
        if called is None or message.success or message.text.startswith("Not run:"):
            continue
        answer = ledger.accepted.get((record.session_id, message.tool_call_id))
        assert called.kind not in ANSWERING, f"{called} failed: {message}"
        assert called.kind not in ASKING or (answer is not None and answer.decision == "reject"), f"{called}: {message}"


def _of_request(record: Record) -> Iterable[ToolMessage]:
    added = record.context.transcript.since_restored()
    return (message for message in added if isinstance(message, ToolMessage))


def _check_consumer(world: World, consumer: Consumer) -> None:
    """Once, when it has left: what it saw is whole, and its last event is the outcome."""
    if consumer.checked or not consumer.gone:
        return
    consumer.checked = True
    found = [record for record in world.ledger.records if record.context.request_id == consumer.request_id]
    if isinstance(consumer.error, SessionBusyError):
        assert not found and not consumer.events
        return
    assert consumer not in world.refused or not consumer.ended, "a second request of a session was let in"
    assert all(event.session_id == consumer.session_id for event in consumer.events)
    assert not found or found[0].ended, f"{consumer.session_id} is not free"
    if not consumer.ended:
        return
    assert len(found) == 1, f"{len(found)} requests of one reader: {consumer.error!r}, {consumer.events}"
    record = found[0]
    check_event_order(consumer.events)
    last = consumer.events[-1]
    assert last.type.value == f"run_{record.phase.value}"
    assert consumer.error is last.error, (consumer.error, last.error)
    assert not isinstance(consumer.error, AgentResumeError) or record.context.kind == "resume"


def _check_tasks(world: World) -> None:
    """Every asyncio task belongs to something that still runs."""
    names = Counter(_owner(task) for task in asyncio.all_tasks(world.loop))
    running = [record for record in world.ledger.active.values() if not record.over]
    due: Counter[str] = Counter({"consumer": len(world.readers()), "request": len(running)})
    due["background"] = len(world.tasks())
    calls = names.pop("call", 0)
    # A woken request has an asyncio task of its own beside the one that runs it; nobody else reads it.
    woken = names.pop("wake", 0)
    assert not calls or running, f"{calls} calls of no request"
    assert woken <= len(running)
    assert names == +due, f"asyncio tasks: {names}, due: {due}"


def _owner(task: asyncio.Task[Any]) -> str:
    first, _, rest = task.get_name().partition(" ")
    return rest.partition(" ")[0] if first == "zett" else first


def check_nothing_is_left(world: World) -> None:
    """After the agent was closed: no asyncio task, no wait, no entry in a book, no thread at work."""
    assert not asyncio.all_tasks(world.loop)
    assert not world.agent.pending and not world.agent.pending_waits() and not world.ledger.active
    gates = (world.stage.asking, world.gate)
    kept: list[Any] = [
        *(book for extension in gates for book in (extension._books, extension._staged)),
        *(world.gate._grants, world.gate._parents, world.memory._holders),
        *(one for one in world.families if not one.nursery.empty),
        world.tasks(),
    ]
    assert not any(kept), kept
    world.let_threads_end()
    _check_threads()


def _check_threads() -> None:
    pool = shared_pool()
    for _ in range(10_000):  # a thread has told its result before it is back at the queue
        with pool._changed:
            if pool._idle == pool._threads and not pool._queue and not pool._abandoned:
                return
        time.sleep(0.001)
    raise AssertionError(f"threads at work: {pool._threads - pool._idle} of {pool._threads}")
