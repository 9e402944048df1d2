"""For each program of the manual one of our own that does the same through the same calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest

from zett_agent import (
    AgentClient,
    AgentEvent,
    AgentEventDispatcher,
    AgentEventType,
    AgentExtension,
    AgentMessage,
    AgentRunConfig,
    AgentRunContext,
    ExternalEvent,
    ModelRequest,
    ToolCall,
    create_agent,
    tool,
)
from zett_agent.extensions import (
    AskUserExtension,
    AsyncSubAgentExtension,
    ExternalEventExtension,
    SubAgentExtension,
    ToolGuidelinesExtension,
)
from zett_agent.extensions.async_subagent import SubAgentTask
from zett_agent.extensions.events import ExtensionEvent, InternalMessageEvent, MessageAppendedEvent
from zett_agent.extensions.subagent import SubAgentDefinition
from zett_agent.messages import AssistantMessage
from zett_agent.model import ModelResponse
from zett_agent.testing import ScriptedModel, call, text, usage

Screen = pytest.CaptureFixture[str]


def printed(screen: Screen) -> list[str]:
    """The lines that the program printed."""
    return screen.readouterr().out.splitlines()


# --- asking the user ------------------------------------------------------------------------------------------------


class Kiosk:
    """A program that shows questions and answers them by a table."""

    def __init__(self, client: AgentClient, answers: dict[str, Any]) -> None:
        self.client = client
        self.answers = answers

    async def visit(self, wish: str) -> None:
        async for event in self.client.stream(wish):
            if event.name == "ask_user" and event.payload is not None:
                self.ask(event.payload)
            elif event.type is AgentEventType.RUN_COMPLETED and event.message is not None:
                print(event.message.content)

    def ask(self, question: Any) -> None:
        print(question["question"], "/".join(question["options"]))
        chosen = {"tool_call_id": question["tool_call_id"], "answer": self.answers[question["question"]]}
        event = ExternalEvent(question["response_event"], chosen)
        route = AgentRunConfig(session_id=question["session_id"])
        print(
            self.client.emit_external_event(event, config=route), self.client.emit_external_event(event, config=route)
        )


async def test_a_kiosk_answers_what_it_is_asked(capsys: Screen) -> None:
    model = ScriptedModel(
        [
            call("ask_user", question="Size?", options=["small", "large"]),
            call("ask_user", question="Name?"),
        ],
        "A small tea for Ida.",
    )
    client = await create_agent(model, extensions=[AskUserExtension()])
    await Kiosk(client, {"Size?": "small", "Name?": "Ida"}).visit("tea, please")
    assert printed(capsys) == [
        "Size? small/large",
        "['AskUserExtension'] []",
        "Name? ",
        "['AskUserExtension'] []",
        "A small tea for Ida.",
    ]
    results = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert ['"answer":"small"' in str(results[0]), '"answer":"Ida"' in str(results[1])] == [True, True]


# --- showing progress, watching quietly -----------------------------------------------------------------------------


class Odometer(AgentExtension):
    """Shows how many model calls a request has made."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        self.calls[context.request_id] += 1
        payload = {"calls": self.calls[context.request_id], "messages": len(request.messages)}
        await context.emit(
            AgentEvent(AgentEventType.CUSTOM, session_id=context.session_id, name="odometer.calls", payload=payload)
        )

    def request_finished(self, context: AgentRunContext) -> None:
        del self.calls[context.request_id]


class Meter(AgentExtension):
    """Adds up what each session has used; it shows nothing."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        if isinstance(event, MessageAppendedEvent) and event.usage is not None:
            assert event.timing.duration_ns >= 0
            self.tokens[context.session_id] += event.usage.total_tokens


class Dial(AgentEventDispatcher):
    """Prints what extensions show."""

    async def on_custom_event(self, event: AgentEvent) -> None:
        print(event.name, dict(event.payload or {}))


async def test_an_odometer_is_read_and_a_meter_runs_along(capsys: Screen) -> None:
    @tool
    async def weigh(thing: str) -> int:
        """Weigh a thing, in grams."""
        return 12

    model = ScriptedModel(
        [call("weigh", thing="letter"), usage(20, 5, cached=10)], [text("12 grams"), usage(30, 5, reasoning=3)]
    )
    meter = Meter()
    client = await create_agent(
        model,
        config=AgentRunConfig(session_id="post"),
        tools=[weigh],
        system_prompt="",
        extensions=[Odometer(), meter],
        event_dispatcher=Dial(),
    )
    answer = await client.run("How heavy is it?")
    assert printed(capsys) == [
        "odometer.calls {'calls': 1, 'messages': 1}",
        "odometer.calls {'calls': 2, 'messages': 3}",
    ]
    assert (answer.content, meter.tokens) == ("12 grams", {"post": 60})


# --- waiting for somebody outside -----------------------------------------------------------------------------------


class Signature(ExternalEventExtension):
    """Offers ``sign``, which returns the name of whoever signs."""

    def __init__(self) -> None:
        super().__init__(response_event_name="signature.given", correlation_field="paper")

    async def on_tool(self, context: AgentRunContext) -> None:
        @tool
        def sign(document: str) -> str:
            """Have a document signed.

            Args:
                document: Its title.

            Snippet:
                sign(document="lease")

            Guidelines:
                - Have every document signed before you send it.
            """
            name = self._take_external_event(context).payload.get("name")
            if not isinstance(name, str) or not name:
                raise ValueError("a signature needs a name")
            return f"{document}, signed by {name}"

        context.register_tool(sign)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        if call.name == "sign":
            async with self._wait_for_external_event(context, call.id):
                payload = {"paper": call.id, "document": call.arguments["document"]}
                await context.emit(
                    AgentEvent(AgentEventType.CUSTOM, context.session_id, name="signature.wanted", payload=payload)
                )


@pytest.mark.parametrize(
    ("name", "result"), [("Ida", "lease, signed by Ida"), ("", "ValueError: a signature needs a name")]
)
async def test_an_office_has_papers_signed(name: str, result: str, capsys: Screen) -> None:
    route = AgentRunConfig(session_id="office", request_id="monday")
    model = ScriptedModel([call("sign", document="lease")], "Sent.")
    client = await create_agent(model, config=route, extensions=[Signature(), ToolGuidelinesExtension()])
    async with aclosing(client.stream("Send the lease")) as events:  # type: ignore[type-var]  # an async generator
        async for event in events:
            if event.type == AgentEventType.CUSTOM and event.name == "signature.wanted":
                assert event.payload is not None
                print("please sign:", event.payload["document"])
                given = ExternalEvent("signature.given", {"paper": event.payload["paper"], "name": name})
                elsewhere = AgentRunConfig(session_id="elsewhere")
                print(client.agent.emit_external_event(given, config=elsewhere))
                print(client.agent.emit_external_event(given, config=route))
                print(client.agent.emit_external_event(given, config=route))
            elif event.type == AgentEventType.RUN_COMPLETED and event.message is not None:
                print(event.message.content)
    assert printed(capsys) == ["please sign: lease", "[]", "['Signature']", "[]", "Sent."]
    assert model.requests[1].messages[-1].content == result
    assert "before you send it" in str(model.requests[0].messages[1].content)


class Proofreader(AgentExtension):
    """Asks for one more step after the first answer."""

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        if response.message.content == "teh end":
            await context.publish(InternalMessageEvent(AgentMessage(content="Mind the spelling.")))


async def test_a_proofreader_asks_for_one_more_step() -> None:
    client = await create_agent(ScriptedModel("teh end", "the end"), extensions=[Proofreader()])
    assert (await client.run("Finish the story")).content == "the end"


# --- work in the background -----------------------------------------------------------------------------------------


class Postcards(AsyncSubAgentExtension):
    """Tells the parent of a finished task in one line."""

    def completion_notice(self, task: SubAgentTask) -> str | None:
        return f"Postcard: {task.description} is {task.status.value}."


async def test_a_traveller_sends_a_postcard() -> None:
    traveller = SubAgentDefinition("traveller", "Goes places.", "You travel.", ScriptedModel("It is sunny."))
    postcards = Postcards([traveller])
    start = call("task_start", description="the trip", prompt="Go to the sea.", subagent_type="traveller")
    model = ScriptedModel([start], "They are on their way.", "It is sunny there.")
    extensions = [SubAgentExtension([traveller]), postcards, ToolGuidelinesExtension()]
    async with await create_agent(model, config=AgentRunConfig(session_id="home"), extensions=extensions) as client:
        await client.run("Send somebody to the sea")
        (task,) = postcards.tasks("home")
        await asyncio.wait_for(postcards.wait(task), 5)
        answer = await client.run("Any news?")
    told = [message.content for message in model.requests[-1].messages if isinstance(message, AgentMessage)]
    assert told == ["Postcard: the trip is completed."]
    assert isinstance(answer, AssistantMessage) and answer.content == "It is sunny there."
    assert {"task", "task_start"} <= {definition.name for definition in model.requests[0].tools}
