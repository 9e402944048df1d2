"""The manual's own programs, read from its pages when the tests run, work on this package as they stand.

What a page takes for granted (imports, a model, the functions of an application) is supplied here. Where the pages are
not, these tests are left out; ``test_our_programs.py`` does the same things with programs of our own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from tests.seeds.pages import between, block, call, coroutine, load
from zett_agent import extensions as package
from zett_agent.agent import Agent, AgentRunConfig, AgentRunContext
from zett_agent.client import create_agent
from zett_agent.dispatcher import AgentEventDispatcher
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.extensions.external import ExternalEvent, ExternalEventExtension
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import AgentMessage, AssistantMessage, SystemMessage, ToolCall, ToolMessage
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse
from zett_agent.testing import ScriptedModel
from zett_agent.testing import call as tool_call
from zett_agent.tools.base import tool

ASK, EVENTS, BACKGROUND = "ask_user", "events_and_user_input", "async_subagent"

#: What the programs import, by the names that they use.
IMPORTS: dict[str, Any] = {
    thing.__name__: thing
    for thing in (
        *(AgentEvent, AgentEventType, AgentExtension, AgentRunConfig, AgentRunContext, AskUserExtension),
        *(AsyncSubAgentExtension, ExtensionEvent, ExternalEvent, ExternalEventExtension, MessageAppendedEvent),
        *(
            ModelRequest,
            SubAgentExtension,
            SystemMessage,
            ToolCall,
            ToolGuidelinesExtension,
            aclosing,
            create_agent,
            tool,
        ),
    )
}


# --- asking the user ------------------------------------------------------------------------------------------------


def _asking() -> ScriptedModel:
    arguments = {"question": "Which format?", "options": ["Markdown", "Plain text"]}
    return ScriptedModel([tool_call("ask_user", id="call-7", **arguments)], "Markdown it is.")


async def test_a_client_forwards_the_question_to_a_ui() -> None:
    shown: list[Any] = []

    def show_question(payload: Any) -> None:
        shown.append(payload)
        client = made[0]
        event = ExternalEvent("ask_user_response", {"tool_call_id": payload["tool_call_id"], "answer": "Markdown"})
        assert client.emit_external_event(event) == ["AskUserExtension"]

    made: list[Any] = []

    async def making(*arguments: Any, **options: Any) -> Any:
        made.append(await create_agent(*arguments, **options))
        return made[0]

    code = between(ASK, "ask_user = AskUserExtension()", "Outbound protocol")
    names = {**IMPORTS, "create_agent": making, "model": _asking(), "show_question": show_question}
    await coroutine(code, **names)()
    assert [payload["question"] for payload in shown] == ["Which format?"]


async def test_the_outbound_event_and_the_inbound_one_are_as_written() -> None:
    documented: AgentEvent = load(
        "event = " + call(ASK, "AgentEvent("), AgentEvent=AgentEvent, CUSTOM=AgentEventType.CUSTOM
    )["event"]
    answer = "accepted = " + call(ASK, "agent.emit_external_event(")
    model = _asking()
    agent = await Agent.create(model, config=AgentRunConfig("session-42"), extensions=[AskUserExtension()])
    accepted: list[list[str]] = []
    async for event in agent.stream("Help me choose a format"):
        if event.name == documented.name:
            assert (event.type, event.session_id) == (documented.type, documented.session_id)
            assert event.payload == documented.payload
            accepted += [load(answer, agent=agent, **IMPORTS)["accepted"] for _ in range(2)]
    assert accepted == [["AskUserExtension"], []]
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert json.loads(result.text)["payload"] == {"tool_call_id": "call-7", "answer": "Markdown"}


# --- hooks ----------------------------------------------------------------------------------------------------------


@tool(name="write_file")
async def write_file(path: str) -> str:
    """Write a file."""
    return path


@pytest.mark.parametrize(
    ("page", "names"),
    [(ASK, ("before_model", "on_compact", "on_state", "on_success")), (BACKGROUND, ("on_compact", "on_success"))],
)
async def test_the_examples_of_hooks(page: str, names: Sequence[str]) -> None:
    done: list[Any] = []

    async def save_answer(session_id: str, content: str) -> None:
        done.append(("saved", session_id, content))

    async def compact(self: AgentExtension, context: AgentRunContext) -> None:
        done.append(("compacted", context.session_id))

    hooks = {
        name: load(block(page, f"async def {name}(self, "), **IMPORTS, save_answer=save_answer)[name] for name in names
    }
    extension = type("Examples", (AgentExtension,), {**hooks, "compact": compact})()
    model = ScriptedModel("done")
    agent = await Agent.create(model, config=AgentRunConfig("s"), tools=[write_file], extensions=[extension])
    await agent.run("hi")
    async for _ in agent.compact():
        pass
    assert done == [("saved", "s", "done"), ("compacted", "s")]
    contents = [message.content for message in model.requests[0].messages]
    assert (contents[0] == "Use concise answers.") is ("on_state" in names)
    assert (contents[-1] == "Read existing files before editing.") is ("before_model" in names)


# --- events and user input ------------------------------------------------------------------------------------------


async def test_progress_is_shown_to_the_application() -> None:
    before_model = load("from __future__ import annotations\n" + block(EVENTS, "async def before_model("), **IMPORTS)

    def __init__(self: Any) -> None:
        self.active = Counter()

    notes = type("Notes", (AgentExtension,), {"__init__": __init__, "before_model": before_model["before_model"]})()
    seen: list[Any] = []

    class Screen(AgentEventDispatcher):
        async def on_custom_event(self, event: AgentEvent) -> None:
            seen.append((event.name, event.payload, event.session_id))

    model = ScriptedModel([tool_call("nothing")], "done")
    client = await create_agent(model, config=AgentRunConfig("s"), extensions=[notes], event_dispatcher=Screen())
    await client.run("hi")
    assert seen == [("note.model_step", {"step": 1}, "s"), ("note.model_step", {"step": 2}, "s")]


async def test_an_observer_of_usage() -> None:
    observer = load(block(EVENTS, "class UsageObserver("), **IMPORTS)["UsageObserver"]()
    agent = await Agent.create(ScriptedModel("done"), config=AgentRunConfig("s"), extensions=[observer])
    await agent.run("hi")
    ((session_id, event),) = observer.records
    assert (session_id, event.message.content) == ("s", "done")
    assert event.usage is not None


class ApprovalModel:
    """The model that the approval program takes for granted: it asks, then says what it was told."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            message = AssistantMessage(content=f"The export was {last.text}.")
        else:
            asks = ToolCall("approval-1", "request_approval", {"action": "Export my notes"})
            message = AssistantMessage(tool_calls=[asks])
        yield ModelEvent.completed(ModelResponse(message))


async def test_the_approval_program(capsys: pytest.CaptureFixture[str]) -> None:
    code = block(EVENTS, "class ApprovalExtension(") + block(EVENTS, "async def main(")
    await load(code, **IMPORTS, ApprovalModel=ApprovalModel)["main"]()
    assert capsys.readouterr().out.splitlines() == [
        "Question: Export my notes?",
        "Response accepted; duplicate rejected",
        "The export was approved.",
    ]


@pytest.mark.parametrize(
    ("approved", "result"), [(False, "rejected"), ("sure", "ValueError: approved must be a boolean")]
)
async def test_the_tool_of_the_approval_program_checks_the_answer(approved: Any, result: str) -> None:
    approval = load(block(EVENTS, "class ApprovalExtension("), **IMPORTS)["ApprovalExtension"]()
    agent = await Agent.create(ApprovalModel(), config=AgentRunConfig("s"), extensions=[approval])  # type: ignore[arg-type]
    async for event in agent.stream("Export my notes"):
        if event.name == "approval.requested" and event.payload is not None:
            payload = {"tool_call_id": event.payload["tool_call_id"], "approved": approved}
            reply = ExternalEvent("approval.response", payload)
            wrong = (AgentRunConfig("other"), AgentRunConfig("s", "another request"))
            assert all(agent.emit_external_event(reply, config=config) == [] for config in wrong)
            assert agent.emit_external_event(reply, config=AgentRunConfig("s")) == ["ApprovalExtension"]
    assert agent.state.messages[-1].content == f"The export was {result}."


# --- background subagents -------------------------------------------------------------------------------------------


async def test_background_delegation_stands_beside_the_foreground_tool() -> None:
    code = between(BACKGROUND, "extensions = [SubAgentExtension()", "Change what")
    given = load(code, **IMPORTS)["extensions"]
    model = ScriptedModel("done")
    agent = await Agent.create(model, config=AgentRunConfig("s"), extensions=given)
    await agent.run("hi")
    assert [definition.name for definition in model.requests[0].tools] == [
        *("task", "task_start", "task_list", "task_status", "task_output", "task_cancel"),
    ]
    await agent.aclose()


async def test_a_notice_of_ones_own() -> None:
    terse = load(block(BACKGROUND, "class TerseNotices("), **IMPORTS)["TerseNotices"]
    helper = SubAgentDefinition("helper", "Helps.", "You help.", ScriptedModel("the report"))
    notices = terse([helper])
    work = {"description": "work", "prompt": "work", "subagent_type": "helper"}
    model = ScriptedModel([tool_call("task_start", **work)], "started", "done")
    agent = await Agent.create(model, config=AgentRunConfig("s"), extensions=[notices])
    await agent.run("start")
    (task,) = notices.tasks("s")
    await asyncio.wait_for(notices.wait(task), 5)
    await agent.run("and?")
    told = [message.content for message in model.requests[-1].messages if isinstance(message, AgentMessage)]
    assert told == ["task-1 is completed."]
    await agent.aclose()


def test_the_names_of_the_pages_are_exported() -> None:
    for name in ("AskUserExtension", "AsyncSubAgentExtension", "SubAgentExtension", "ToolGuidelinesExtension"):
        assert getattr(package, name) is IMPORTS[name]
