"""What a user writes and type checkers must accept, with the types they must see. Never run: `make check` checks it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_type

from zett_agent import (
    Agent,
    AgentClient,
    AgentEvent,
    AgentExtension,
    AgentMessage,
    AgentModel,
    AgentRunConfig,
    AgentRunContext,
    AgentTool,
    AssistantMessage,
    ExternalEvent,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    SyncAgent,
    TextContent,
    ToolCall,
    ToolContext,
    ToolExecutionMode,
    UserMessage,
    create_agent,
    tool,
)
from zett_agent.model import RetryOptions


class EchoModel:
    """A model needs no base class."""

    retry = RetryOptions()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ModelEvent.text("hello")
        yield ModelEvent.completed(ModelResponse(AssistantMessage(content="hello")))


@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right


@tool(name="look_up", execution_mode=ToolExecutionMode.SERIAL, timeout=2.5)
async def look(word: str, context: ToolContext) -> list[str]:
    """Look a word up."""
    await context.emit("looked", {"word": word})
    return [word]


class Audit(AgentExtension):
    """Hooks are overridden with the base's signatures."""

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        assert_type(context.session_id, str)
        assert_type(call.name, str)

    async def after_turn(self, context: AgentRunContext, result: AssistantMessage) -> None:
        await context.append_message(AgentMessage(content=result.content))

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        return event.name == "audit"


async def use() -> None:
    """Each way in, and what comes out of it."""
    model: AgentModel = EchoModel()
    tools: list[AgentTool] = [add, look]
    agent = Agent(model, tools=tools, extensions=[Audit()], max_iterations=3)
    await agent.initialize(config=AgentRunConfig(session_id="s"))
    assert_type(await agent.run("hello"), AssistantMessage)
    assert_type(await agent.run(UserMessage(content=[TextContent("hello")]), tags={"a": 1}), AssistantMessage)
    async for event in agent.stream("hello", config=AgentRunConfig(session_id="t")):
        assert_type(event, AgentEvent)
    assert_type(agent.emit_external_event(ExternalEvent("answer", {"id": "c1"})), list[str])


async def use_client() -> None:
    """The client mirrors the agent."""
    client = await create_agent(EchoModel(), tools=[add])
    assert_type(client, AgentClient)
    assert_type(client.agent, Agent)
    assert_type(await client.run("hello"), AssistantMessage)
    async for event in client.stream("hello"):
        assert_type(event, AgentEvent)


def use_sync() -> None:
    """Without a loop."""
    with SyncAgent(EchoModel()) as agent:
        assert_type(agent.run("hello"), AssistantMessage)


async def call_tools(context: ToolContext) -> None:
    """A decorated function keeps its own signature."""
    assert_type(add(1), int)
    assert_type(add(left=1, right=2), int)
    assert_type(await look("word", context), list[str])
