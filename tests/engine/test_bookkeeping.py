"""What keeps a request honest beside its steps: subscriptions, the lease, one outcome in the log, the list of waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from zett_agent._runtime import journal
from zett_agent.agent import Agent, AgentRunConfig
from zett_agent.client import create_agent
from zett_agent.context import AgentRunContext
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType, ExtensionEvent
from zett_agent.exceptions import AgentCancelledError, StorageError
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension, ModelRequestNext
from zett_agent.extensions.permission import PermissionExtension
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import ToolCall, UserMessage
from zett_agent.model import ModelEvent, ModelRequest
from zett_agent.storage.base import Lease
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.storage.records import NewRecord, RecordKind
from zett_agent.testing import ScriptedModel, call, text
from zett_agent.tools.base import tool

SESSION = AgentRunConfig(session_id="s")


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Observer(AgentExtension):
    """Keeps the types of what it is told."""

    def __init__(self) -> None:
        self.seen: list[type[ExtensionEvent]] = []

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        self.seen.append(type(event))


class ObservingAskUser(AskUserExtension):
    """A subclass that listens, of a class that subscribes to one notification only."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[type[ExtensionEvent]] = []

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        self.seen.append(type(event))
        await super().on_event(context, event)


async def test_a_subclass_that_overrides_on_event_sees_what_every_extension_sees() -> None:
    observer, asking = Observer(), ObservingAskUser()
    agent = await Agent.create(ScriptedModel([text("hi")]), extensions=[observer, asking])
    await agent.run("hello")
    assert observer.seen
    assert asking.seen == observer.seen


async def test_a_subclass_may_override_on_model_request_of_an_extension_that_did_not_need_it() -> None:
    class Counting(ToolGuidelinesExtension):
        requests = 0

        async def on_model_request(
            self, context: AgentRunContext, request: ModelRequest, call_next: ModelRequestNext
        ) -> AsyncIterator[ModelEvent]:
            self.requests += 1
            async for event in super().on_model_request(context, request, call_next):
                yield event

    guidelines = Counting()
    agent = await Agent.create(ScriptedModel([text("hi")]), extensions=[guidelines])
    await agent.run("hello")
    assert guidelines.requests == 1


async def test_hitl_09_a_list_of_waits_shows_the_arguments_that_will_run() -> None:
    class Raise(AgentExtension):
        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.arguments["amount"] = 1_000

    agent = await Agent.create(
        ScriptedModel([call("pay", amount=1)]), tools=[pay], extensions=[Raise(), PermissionExtension()]
    )
    async with aclosing(agent.stream("pay", config=SESSION)) as events:  # type: ignore[type-var]  # an async generator
        async for event in events:
            if event.name == "permission_request":
                (wait,) = agent.pending_waits(config=SESSION)
                assert wait.arguments == {"amount": 1_000}
                assert wait.question is not None
                assert wait.question["arguments"] == {"amount": 1_000}
                break
    said = agent.get_state("s")
    assert said is not None
    assert said.messages[2].tool_calls[0].arguments == {"amount": 1}  # type: ignore[union-attr]  # what the model said


class SlowStore(MemorySessionStore):
    """Stops where it writes that a request is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closing, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, lease: Lease, records: Sequence[NewRecord]) -> int:
        if records[0].kind is RecordKind.REQUEST_CLOSED:
            self.closing.set()
            await self.go_on.wait()
        return await super().append(lease, records)


async def test_a_stop_that_comes_while_the_outcome_is_written_is_too_late() -> None:
    store = SlowStore()
    agent = await Agent.create(ScriptedModel([text("done")]), store=store, config=SESSION)
    running = asyncio.create_task(agent.run("hello"))
    await store.closing.wait()
    agent.stop(SESSION)
    await asyncio.sleep(0)
    store.go_on.set()
    assert (await running).content == "done"
    outcomes = [record.body["outcome"] for record in await store.load("s") if record.kind is RecordKind.REQUEST_CLOSED]
    assert outcomes == ["completed"]


async def test_a_cancel_from_outside_while_the_outcome_is_written_writes_no_second_one() -> None:
    store = SlowStore()
    agent = await Agent.create(ScriptedModel([text("done")]), store=store, config=SESSION)
    running = asyncio.create_task(agent.run("hello"))
    await store.closing.wait()
    producer = agent._sessions.runs[0].producer
    assert producer is not None
    producer.cancel()
    with pytest.raises(AgentCancelledError):
        await running
    outcomes = [record for record in await store.load("s") if record.kind is RecordKind.REQUEST_CLOSED]
    assert outcomes == []  # nobody knows whether the first was written, so nothing contradicts it


async def test_a_lease_that_is_lost_while_the_outcome_is_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = asyncio.Event()

    class Losing(SlowStore):
        async def renew(self, lease: Lease) -> Lease:
            await self.closing.wait()
            lost.set()
            raise StorageError("the lease is lost")

    monkeypatch.setattr(journal, "LEASE_SECONDS", 0.003)
    store = Losing()
    agent = await Agent.create(ScriptedModel([text("done")]), store=store, config=SESSION)
    running = asyncio.create_task(agent.run("hello"))
    await lost.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    store.go_on.set()
    assert (await running).content == "done"


async def test_a_request_that_loses_its_lease_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(MemorySessionStore):
        async def renew(self, lease: Lease) -> Lease:
            raise StorageError("the lease is lost")

    monkeypatch.setattr(journal, "LEASE_SECONDS", 0.003)

    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    agent = await Agent.create(ScriptedModel([call("wait_for_ever")]), tools=[wait_for_ever], store=Forgetful())
    with pytest.raises(StorageError, match="the lease is lost"):
        await agent.run("hello")
    assert not agent.pending


@pytest.mark.parametrize("on_wait", ["hold", "forever"])
async def test_on_wait_takes_hold_and_refuses_what_it_does_not_know(on_wait: Any) -> None:
    agent = await Agent.create(ScriptedModel([text("done")]))
    if on_wait == "hold":
        assert (await agent.run("hello", on_wait=on_wait)).content == "done"
    else:
        with pytest.raises(ValueError, match="on_wait"):
            await agent.run("hello", on_wait=on_wait)


async def test_a_history_can_be_joined_with_messages_like_a_tuple() -> None:
    agent = await Agent.create(ScriptedModel([text("done")]))
    await agent.run("hello")
    history, extra = agent.state.messages, UserMessage(content="more")
    assert history + (extra,) == (*history, extra)  # noqa: RUF005 - the operator is what is tested
    assert [extra] + history == (extra, *history)  # noqa: RUF005


def test_the_door_has_a_blocking_view() -> None:
    with Agent(ScriptedModel([text("done")])).sync() as agent:
        agent.initialize()
        assert agent.run("hello").content == "done"
        assert agent.stop() is False


def test_the_client_and_the_dispatcher_have_a_blocking_view() -> None:
    seen: list[str] = []

    class Callbacks(AgentEventDispatcher):
        async def on_run_completed_event(self, event: AgentEvent) -> None:
            seen.append(event.type.value)

    dispatcher = Callbacks()
    client = asyncio.run(create_agent(ScriptedModel([text("done")]), event_dispatcher=dispatcher))
    with client.sync() as blocking:
        assert blocking.run("hello").content == "done"
    with dispatcher.sync() as callbacks:
        callbacks.dispatch(AgentEvent(AgentEventType.RUN_COMPLETED, "s"))
    assert seen == ["run_completed", "run_completed"]
