"""LOOP-02: whose context everything of a request sees, and who sees what is changed in it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ContentStartedEvent, ExtensionEvent
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call
from zett_agent.tools.base import ToolResult, tool
from zett_agent.waits import ExternalEvent

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")

#: What was seen where, by the session at the top: it is in the prompt of everything that a session starts.
Sightings = defaultdict[str, dict[str, str]]


class Watcher(AgentExtension):
    """Looks at the context in every hook, and changes it for what is behind a call."""

    subscribes = (ContentStartedEvent,)

    def __init__(self, seen: Sightings, level: str) -> None:
        self.name = f"watch {level}"
        self.level = level
        self.seen = seen

    def note(self, context: AgentRunContext, hook: str) -> None:
        top = next(message.text for message in context.state.messages if isinstance(message, UserMessage))
        self.seen[top][f"{self.level} {hook}"] = WHO.get()

    async def before_run(self, context: AgentRunContext) -> None:
        self.note(context, "before_run")

    async def before_turn(self, context: AgentRunContext) -> None:
        self.note(context, "before_turn")

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        self.note(context, "before_model")

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        self.note(context, "on_event")

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        self.note(context, f"before_tool {call.id}")

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> ToolResult:
        self.note(context, f"on_tool_call {call.id}")
        result: ToolResult = await call_next()
        self.note(context, f"behind {call.id}")
        return result

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self.note(context, "after_turn")

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        self.note(context, "on_success")


class Household:
    """An agent with tools of both kinds, a question, and a child before and one behind the scenes."""

    def __init__(self) -> None:
        self.seen: Sightings = defaultdict(dict)
        self.asking = AskUserExtension()
        inner = [call("waits", id="ca", top=""), call("blocks", id="cs", top="")]
        self.background = AsyncSubAgentExtension([self.kind("behind", inner)])
        self.front = SubAgentExtension([self.kind("before", [*inner, call("ask_user", id="cq", question="?")])])
        self.agent: Agent

    def kind(self, name: str, calls: list[Any]) -> SubAgentDefinition:
        extensions = [Watcher(self.seen, name), self.asking]
        return SubAgentDefinition(
            name, "d", "s", self.model(name, calls), tools=self.tools(name), extensions=extensions
        )

    def model(self, level: str, calls: list[Any]) -> FunctionModel:
        def say(request: ModelRequest) -> Any:
            top = next(message.text for message in request.messages if isinstance(message, UserMessage))
            self.seen[top][f"{level} model"] = WHO.get()
            return [self.directed(each, top) for each in calls] if request.messages[-1].role == "user" else "done"

        return FunctionModel(say)

    def directed(self, each: Any, top: str) -> Any:
        """The call, with the session at the top where it has to be told."""
        arguments = {name: top if name in ("top", "prompt") else value for name, value in each.arguments.items()}
        return call(each.name, id=each.id, **arguments)

    def tools(self, level: str) -> list[Any]:
        @tool
        async def waits(top: str) -> str:
            """Look, then change the context for nobody else."""
            self.seen[top][f"{level} async tool"] = WHO.get()
            WHO.set("an async tool")
            await asyncio.sleep(0)
            return ""

        @tool
        def blocks(top: str) -> str:
            """Look in a thread, then change the context for nobody else."""
            self.seen[top][f"{level} sync tool"] = WHO.get()
            WHO.set("a sync tool")
            return ""

        return [waits, blocks]

    async def open(self) -> None:
        calls = [
            call("waits", id="a", top=""),
            call("ask_user", id="q", question="?"),
            call("blocks", id="s", top=""),
            call("task_start", id="ts", description="d", prompt="", subagent_type="behind"),
            call("task", id="t", description="d", prompt="", subagent_type="before"),
            call("waits", id="a2", top=""),
        ]
        self.agent = await Agent.create(
            self.model("top", calls),
            system_prompt="",
            tools=self.tools("top"),
            extensions=[Watcher(self.seen, "top"), self.asking, self.front, self.background],
        )

    async def play(self, session_id: str) -> None:
        """One session in a context of its own; its questions are answered in that of another thread."""
        WHO.set(f"caller {session_id}")
        stream = self.agent.stream(session_id, config=AgentRunConfig(session_id))
        async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see Agent.stream
            async for event in events:
                if event.name == "ask_user":
                    threading.Thread(target=self.answer, args=[dict(event.payload or {})]).start()
        assert WHO.get() == f"caller {session_id}"
        for task in self.background.tasks(session_id):
            await self.background.wait(task)

    def answer(self, payload: dict[str, Any]) -> None:
        WHO.set("the one who answers")
        reply = ExternalEvent("ask_user_response", {"tool_call_id": payload["tool_call_id"], "answer": "yes"})
        assert self.agent.emit_external_event(reply, config=AgentRunConfig(payload["session_id"]))


#: Where each session looks: in three agents at the model, hooks and tools, and around each call.
PLACES = {
    *(
        f"{level} {place}"
        for level in ("top", "before", "behind")
        for place in (
            *("model", "async tool", "sync tool", "before_run", "before_turn", "before_model"),
            *("on_event", "after_turn", "on_success"),
        )
    ),
    *(f"top {hook} {each}" for hook in ("before_tool", "on_tool_call") for each in ("a", "q", "s", "ts", "t", "a2")),
    *(f"before {hook} {each}" for hook in ("before_tool", "on_tool_call") for each in ("ca", "cs", "cq")),
    *(f"behind {hook} {each}" for hook in ("before_tool", "on_tool_call") for each in ("ca", "cs")),
}


def test_loop_02_everything_of_a_request_sees_its_callers_context(each_loop: str) -> None:
    async def main() -> None:
        household = Household()
        await household.open()
        names = [f"s{number}" for number in range(12)]
        async with asyncio.TaskGroup() as sessions:
            for name in names:
                sessions.create_task(household.play(name))
        assert WHO.get() == "nobody"
        for name in names:
            seen = {place: who for place, who in household.seen[name].items() if " behind " not in place}
            assert seen == dict.fromkeys(PLACES, f"caller {name}")
        await household.agent.aclose()

    asyncio.run(main())


def test_loop_02_a_change_reaches_the_hooks_behind_its_own_call_and_no_sibling(each_loop: str) -> None:
    async def main() -> None:
        household = Household()
        await household.open()
        await household.play("s")
        behind = {place: who for place, who in household.seen["s"].items() if place.startswith("top behind")}
        assert behind == {
            "top behind a": "an async tool",
            "top behind a2": "an async tool",
            **{f"top behind {each}": "caller s" for each in ("q", "s", "ts", "t")},
        }
        await household.agent.aclose()

    asyncio.run(main())


def test_loop_02_what_a_hook_sets_for_its_request_stays_in_that_request(each_loop: str) -> None:
    """A hook around the whole request, such as a tracer's, sets a variable once and finds it until the end."""
    seen: dict[str, list[str]] = defaultdict(list)

    class Tracer(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            WHO.set(f"trace {context.session_id}")

        async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            seen[context.session_id].append(WHO.get())

        async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
            seen[context.session_id].append(WHO.get())

    @tool
    async def look() -> str:
        """Look, and change it."""
        found = WHO.get()
        WHO.set("a tool")
        return found

    async def main() -> None:
        model = FunctionModel(lambda request: [call("look")] if request.messages[-1].role == "user" else "done")
        agent = await Agent.create(model, system_prompt="", tools=[look], extensions=[Tracer()])
        names = [f"s{number}" for number in range(5)]
        await asyncio.gather(*(agent.run("hi", config=AgentRunConfig(name)) for name in names))
        await agent.run("hi", config=AgentRunConfig("here"))
        assert WHO.get() == "nobody"
        assert seen == {name: [f"trace {name}"] * 2 for name in [*names, "here"]}
        said = [message for request in model.requests for message in request.messages]
        results = {message.text for message in said if isinstance(message, ToolMessage)}
        assert results == {f"trace {name}" for name in seen}

    asyncio.run(main())


def test_loop_02_a_stream_read_in_other_contexts_keeps_that_of_its_first_step(each_loop: str) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return WHO.get()

    async def main() -> None:
        model = FunctionModel(lambda request: [call("look")] if request.messages[-1].role == "user" else "done")
        agent = await Agent.create(model, system_prompt="", tools=[look], extensions=[])
        stream = agent.stream("hi")
        results: list[str] = []
        for reader in range(100):
            WHO.set(f"reader {reader}")
            event: Any = await anext(stream, None)
            if event is None:
                break
            if event.type == "tool_completed":
                results.append(event.message.text)
        assert results == ["reader 0"]

    asyncio.run(main())
