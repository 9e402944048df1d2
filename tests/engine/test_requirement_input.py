"""What is sent to a request, at every moment there is: heard exactly once, or handed back, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.scenario import SESSION, Scene, add, scene
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, ToolMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.storage.memory import MemorySessionStore
from zett_agent.testing import FunctionModel, ScriptedModel, call, text
from zett_agent.waits import ExternalEvent

MORE = "and more"
#: The events of the scenario below, when nothing is sent to it.
QUIET = [
    "model_started",
    "content_started",
    "text_delta",
    "content_completed",
    "model_completed",
    "tool_started",
    "tool_completed",
    "model_started",
    "content_started",
    "text_delta",
    "content_completed",
    "model_completed",
    "run_completed",
]


def answer(request: ModelRequest) -> Any:
    """Text and a call first, then an answer; whatever else is said is answered by itself."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "final"
    return "heard" if getattr(last, "content", None) == MORE else [text("let-me"), call("add", left=1, right=1)]


class Sends:
    """Sends one message at an event, by number."""

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self.at = at
        self.events: list[AgentEvent] = []
        self.accepted = False

    async def play(self, *, leave: bool = False, **options: Any) -> Scene:
        stage = await scene(model=FunctionModel(answer), tools=[add], **options)
        stream: Any = stage.agent.stream("hi")
        async for event in stream:
            self.events.append(event)
            if len(self.events) == self.at:
                message = ExternalEvent(self.name, {"content": MORE})
                self.accepted = stage.agent.emit_external_event(message, config=SESSION) != []
                if leave:
                    await stream.aclose()
        return stage

    def of(self, kind: str) -> int:
        return len([event for event in self.events if event.type.value == kind])


def times_heard(messages: Sequence[AnyMessage]) -> int:
    return len([message for message in messages if getattr(message, "content", None) == MORE])


async def test_the_scenario_is_what_the_tests_below_take_it_for() -> None:
    sends = Sends("steering_message", 0)
    await sends.play()
    assert [event.type.value for event in sends.events] == QUIET


@pytest.mark.parametrize("at", range(1, len(QUIET) + 1))
@pytest.mark.parametrize("limit", [36, 2], ids=["far", "at the limit"])
@pytest.mark.parametrize("name", ["steering_message", "internal_message"])
async def test_bg_11_what_was_accepted_at_any_moment_is_heard_exactly_once(name: str, limit: int, at: int) -> None:
    sends = Sends(name, at)
    stage = await sends.play(max_iterations=limit)
    heard = times_heard(stage.agent.state.messages)
    assert sends.accepted is (at < len(QUIET)), "only after the end is it too late"
    assert heard == int(sends.accepted)
    assert stage.agent.state.undelivered == ()
    kind = name.removesuffix("_message") if name.startswith("steering") else name
    assert sends.of(f"{kind}_started") == sends.of(f"{kind}_completed") == heard
    assert sends.events[-1].type.value == "run_completed"
    if sends.accepted:
        last = sends.events[-1].message
        assert isinstance(last, AssistantMessage) and last.content in ("heard", "final")
    stage.check_messages()


@pytest.mark.parametrize("at", range(1, len(QUIET)))
@pytest.mark.parametrize("name", ["steering_message", "internal_message"])
async def test_bg_11_core_19_who_speaks_and_leaves_at_once_gets_it_back(name: str, at: int) -> None:
    sends = Sends(name, at)
    stage = await sends.play(leave=True)
    assert sends.accepted
    assert times_heard(stage.agent.state.messages) == 0
    assert times_heard(stage.agent.state.undelivered) == 1
    assert not stage.agent.pending


# What a caller gave stays the caller's


async def test_core_12_nothing_that_a_caller_gave_is_shared_with_the_history() -> None:
    woken, metadata = AgentMessage(content="wake", attributes={"k": [1]}), {"m": [1]}
    seen: list[Any] = []

    class Sees(AgentExtension):
        async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
            seen.append(context.metadata)

    with ScriptedModel("one", "two") as model:
        agent = await Agent.create(
            model, config=SESSION, system_prompt="", extensions=[InMemoryMessageAccumulator(), Sees()]
        )
        await agent.run_internal(woken, metadata=metadata)
        woken.content = "changed"
        woken.attributes["k"].append(2)
        metadata["m"].append(2)
        await agent.run("hi")
    first = agent.state.messages[0]
    assert isinstance(first, AgentMessage) and (first.content, first.attributes) == ("wake", {"k": [1]})
    assert seen[0] == {"m": [1]}


async def test_core_12_parts_and_attributes_of_a_user_message_are_copied_too() -> None:
    own = UserMessage(content="hi", attributes={"k": {"deep": [1]}})
    stage = await scene("one", "two")
    await stage.agent.run(own)
    own.attributes["k"]["deep"].append(2)
    await stage.agent.run("again")
    assert stage.model.requests[-1].messages[0] == UserMessage(content="hi", attributes={"k": {"deep": [1]}})


# The parent of a session


@pytest.mark.parametrize("bound", [None, "p"])
@pytest.mark.parametrize("given", [None, "p", " p "])
@pytest.mark.parametrize("stored", [True, False])
async def test_core_29_core_30_the_parent_of_a_session_may_be_named_when_it_is_bound_or_when_it_runs(
    bound: str | None, given: str | None, stored: bool
) -> None:
    store = MemorySessionStore()
    options: dict[str, Any] = {"store": store} if stored else {}
    with ScriptedModel("one", "two") as model:
        agent = await Agent.create(model, config=AgentRunConfig("s", parent_session_id=bound), **options)
        await agent.run("hi", config=AgentRunConfig("s", parent_session_id=given))
        assert agent.state.parent_session_id == (given.strip() if given else None)
        await agent.run("again")
        assert agent.state.parent_session_id == bound
    if stored:
        opened: list[Any] = [record.body for record in await store.load("s") if record.kind == "request_opened"]
        assert [body["parent_session_id"] for body in opened] == [given.strip() if given else None, bound]
