"""A session with a store: what is logged, before which effect, and what the next request makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.scenario import Scene, add, lines, named, scene, spin
from zett_agent._runtime.transcript import OUTCOME_UNKNOWN
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import SessionBusyError, StorageError
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.storage.base import Lease
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.storage.records import NewRecord, Record, RecordKind
from zett_agent.testing import EventRecorder, ManualClock, ScriptedModel, call, error, stall, text, usage


async def stored(
    *steps: Any, store: MemorySessionStore | None = None, **options: Any
) -> tuple[Scene, MemorySessionStore]:
    """A scene whose sessions are logged, and the store."""
    store = store or MemorySessionStore(clock=ManualClock())
    return await scene(*steps, store=store, memory=False, **options), store


async def log(store: MemorySessionStore) -> list[str]:
    """The log of the session, one line a record."""
    return [_line(record) for record in await store.load("s")]


def _line(record: Record) -> str:
    body: Any = record.body
    match record.kind:
        case RecordKind.REQUEST_OPENED:
            return f"opened {body['input_kind']}"
        case RecordKind.REQUEST_CLOSED:
            return " ".join(filter(None, ["closed", body["outcome"], (body["error"] or {}).get("type")]))
        case RecordKind.CALL_STARTED:
            return f"started {body['call']['name']}({body['call']['id']})"
        case RecordKind.MESSAGE:
            data: dict[str, Any] = body["message"]["data"]
            return " ".join(["message", str(data.get("tool_call_id", "")), str(data["content"])]).replace("  ", " ")
        case _:
            return record.kind.value


async def test_a_request_with_a_tool_is_logged_step_by_step() -> None:
    stage, store = await stored([text("t"), call("add", id="a", left=1, right=2)], "3", tools=[add], system_prompt="S")
    await stage.play()
    assert await log(store) == lines("""
        opened user
        message hi
        message t
        started add(a)
        message a 3
        message 3
        closed completed
    """)


async def test_rule_2_persist_03_each_step_is_logged_before_its_effect() -> None:
    seen: list[list[str]] = []

    async def effect() -> str:
        seen.append(await log(store))
        return "x"

    async def asked(request: object) -> None:
        seen.append(await log(store))

    store = MemorySessionStore()
    model = ScriptedModel([call("effect", id="e")], "done", on_request=asked)
    stage = await scene(model=model, store=store, memory=False, tools=[named("effect", effect)])
    await stage.play()
    assert [entries[-1] for entries in seen] == ["message hi", "started effect(e)", "message e x"]


async def test_the_next_request_sees_the_logged_history() -> None:
    stage, store = await stored([call("add", id="a", left=1, right=2)], "3", tools=[add])
    await stage.play("one")
    again, _ = await stored("two", store=store)
    assert (await again.play("two")).story == lines("""
        user one
        assistant -> add(a)
        tool a ok: 3
        assistant 3
        user two
        assistant two
    """)


async def test_the_log_keeps_the_order_of_completion_and_the_history_that_of_the_calls() -> None:
    fast_is_done = asyncio.Event()

    async def slow() -> str:
        await fast_is_done.wait()
        return "slow"

    async def fast() -> str:
        fast_is_done.set()
        return "fast"

    tools = [named("slow", slow), named("fast", fast)]
    stage, store = await stored([call("slow", id="1"), call("fast", id="2")], "done", tools=tools)
    await stage.play()
    results = [line for line in await log(store) if line.endswith(("slow", "fast"))]
    assert results == ["message 2 fast", "message 1 slow"]
    again, _ = await stored("ok", store=store)
    assert (await again.play()).story[2:4] == ["tool 1 ok: slow", "tool 2 ok: fast"]


async def test_a_failure_is_logged_with_its_type() -> None:
    stage, store = await stored([text("partial"), error(ConnectionError("lost"))], "done")
    await stage.play()
    assert await log(store) == ["opened user", "message hi", "message partial", "closed failed ConnectionError"]
    assert (await stage.resume()).story[-1] == "assistant done"


async def test_a_cancel_is_logged() -> None:
    stage, store = await stored([stall()])
    recorder = EventRecorder()
    await recorder.record(stage.agent.stream("hi"), until="model_started")
    assert await log(store) == ["opened user", "message hi", "closed cancelled"]
    assert (await store.sessions())[0].holder is None


async def test_persist_07_a_failed_message_is_stored_once_and_sent_once() -> None:
    stage, store = await stored([error(ConnectionError())], [error(ConnectionError())], "done")
    for _ in range(2):
        await stage.play("hello")
    assert (await stage.play("hello")).story == ["user hello", "assistant done"]
    again, _ = await stored("more", store=store)
    assert (await again.play("next")).story == ["user hello", "assistant done", "user next", "assistant more"]


async def test_a_crash_within_a_tool_leaves_its_outcome_unknown() -> None:
    class Fragile(MemorySessionStore):
        dead = False

        async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
            if self.dead:
                raise StorageError("the process is gone")
            return await super().append(lease, records)

    store = Fragile()

    async def effect() -> str:
        store.dead = True
        return "done it"

    stage, _ = await stored([call("effect", id="e")], store=store, tools=[named("effect", effect)])
    await stage.play()
    store.dead = False
    assert (await log(store))[-1] == "started effect(e)"
    again, _ = await stored("ok", store=store)
    outcome = await again.resume()
    assert outcome.story[2].startswith("tool e failed: The outcome of this call is unknown")
    assert (await log(store))[4:] == ["opened resume", f"message e {OUTCOME_UNKNOWN}", "message ok", "closed completed"]


async def test_core_41_one_writer_per_session_across_agents() -> None:
    store = MemorySessionStore()
    stage, _ = await stored([text("x"), stall()], store=store)
    holder = asyncio.create_task(stage.agent.run("hi"))
    await spin()
    other, _ = await stored("never", store=store)
    outcome = await other.play()
    assert isinstance(outcome.error, SessionBusyError)
    assert outcome.error.holder == stage.agent._sessions.runs[0].context.request_id
    assert outcome.lines == ["run_failed SessionBusyError"]
    stage.agent.stop()
    with pytest.raises(Exception, match="stopped"):
        await holder
    assert (await other.play()).error is None


async def test_core_7_the_resume_point_reads_the_log_and_writes_nothing() -> None:
    stage, store = await stored([text("half"), error(ConnectionError())])
    await stage.play()
    before = await log(store)
    for _ in range(3):
        point = await stage.agent.resume_point()
        assert point is not None and point.kind == "retry_response"
    assert await log(store) == before


async def test_core_7_a_pass_of_compaction_adds_no_message() -> None:
    stage, store = await stored("done", system_prompt="S")
    await stage.play()
    async for _ in stage.agent.compact():
        pass
    assert (await log(store))[-2:] == ["opened compact", "closed completed"]


async def test_what_is_not_to_be_kept_is_not_logged() -> None:
    class Adds(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            context.add_message(UserMessage(content="for once", persist=False))
            context.add_message(UserMessage(content="hidden", include_in_messages=False))

    stage, store = await stored("done", "again", extensions=[Adds()])
    assert (await stage.play()).story == ["user hi", "user for once", "user hidden", "assistant done"]
    assert await log(store) == ["opened user", "message hi", "message hidden", "message done", "closed completed"]
    assert (await stage.play("two")).story[:3] == ["user hi", "assistant done", "user two"]


async def test_usage_and_timing_are_logged_with_the_answer() -> None:
    stage, store = await stored([text("x"), usage(10, 5, cached=4, reasoning=2)])
    await stage.play()
    body: Any = next(record for record in await store.load("s") if record.body.get("usage")).body
    assert body["usage"]["input_tokens"] == 10 and body["usage"]["cache_read_tokens"] == 4
    assert body["timing"]["content_duration_ns"] >= 0


async def test_metadata_and_tags_are_logged_with_the_request() -> None:
    stage, store = await stored("done")
    config = AgentRunConfig("s", parent_session_id="p")
    await stage.agent.run("hi", config=config, metadata={"user": 1}, tags={"team": "a"})
    body = (await store.load("s"))[0].body
    assert (body["parent_session_id"], body["metadata"], body["tags"]) == ("p", {"user": 1}, {"team": "a"})


async def test_the_lease_is_renewed_while_the_request_runs(leap: Any) -> None:
    clock = ManualClock()
    store = MemorySessionStore(clock=clock)
    stage, _ = await stored([text("x"), held := stall()], store=store)
    request = asyncio.create_task(stage.agent.run("hi"))
    await spin()
    for _ in range(6):
        clock.advance(11)
        leap(11)
        await spin()
    assert (await store.sessions())[0].holder is not None
    held.release()
    assert (await request).content == "x"
    assert (await store.sessions())[0].holder is None


async def test_a_store_that_fails_to_release_is_only_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    class Sticky(MemorySessionStore):
        async def release(self, lease: Lease) -> None:
            raise StorageError("no")

    stage, _ = await stored("done", store=Sticky())
    assert (await stage.play()).error is None
    assert "lease was not given back: no" in caplog.text


async def test_a_store_that_fails_within_the_request_fails_it_and_keeps_the_error() -> None:
    class Full(MemorySessionStore):
        async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
            if any(record.kind is RecordKind.CALL_STARTED for record in records):
                raise StorageError("disk full")
            return await super().append(lease, records)

    ran: list[str] = []

    async def effect() -> None:
        ran.append("effect")

    stage, _ = await stored([call("effect", id="e")], "done", store=Full(), tools=[named("effect", effect)])
    outcome = await stage.play()
    assert ran == []
    assert isinstance(outcome.error, StorageError)


async def test_an_agent_with_a_store_needs_no_memory_extension() -> None:
    agent = await Agent.create(ScriptedModel("one", "two"), store=MemorySessionStore(), system_prompt="")
    assert [extension.name for extension in agent.extensions] == [
        "ToolGuidelinesExtension",
        "InternalMessageExtension",
        "SteeringExtension",
    ]
    await agent.run("hi")
    await agent.run("again")
    assert isinstance(agent.state.messages[1], AssistantMessage)
    assert len(agent.state.messages) == 4


async def test_the_resumption_of_a_request_that_was_lost_goes_on_from_the_log() -> None:
    store = MemorySessionStore()
    lease = await store.claim("s", "lost", ttl=30)
    first, _ = await stored("x", store=MemorySessionStore())
    await first.play("do it")
    records = [NewRecord(record.kind, record.body, record.at) for record in await first_log(first)]
    await store.append(lease, records[:2])
    await store.release(lease)
    stage, _ = await stored("done", store=store)
    assert (await stage.resume()).story == ["user do it", "assistant done"]


async def first_log(stage: Scene) -> Sequence[Record]:
    """The records of a scene's own store."""
    store = stage.agent._store
    assert isinstance(store, MemorySessionStore)
    return await store.load("s")
