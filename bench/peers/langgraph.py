"""LangGraph's agent (``langchain.agents.create_agent``, which took the place of ``create_react_agent``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool

from bench.peers.common import Request, Runtime, Script, Seen

PACKAGES = ("langgraph", "langchain", "langchain-core")
NOTE = '`create_agent(...).astream(stream_mode="messages")`, no checkpointer; history by the list of messages'


@tool
async def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


class ScriptedModel(BaseChatModel):
    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the benchmark streams")

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        # Messages belong to the graph once they are yielded, so they cannot be made beforehand.
        if self.script.calls and not isinstance(messages[-1], ToolMessage):
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=_calls(self.script)))
            return
        for piece in self.script.pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


class Peer(Runtime):
    async def fresh(self, script: Script) -> Request:
        return _request(script, [])

    async def after(self, messages: int, script: Script) -> Request:
        history: list[Any] = []
        for number in range(messages // 2):
            history.append(HumanMessage("hello", id=f"u{number}"))
            history.append(AIMessage("".join(script.pieces), id=f"a{number}"))
        return _request(script, history)

    def see(self, event: Any, seen: Seen) -> None:
        message, _ = event
        if isinstance(message, AIMessageChunk) and message.content:
            seen.pieces.append(message.content)
        elif isinstance(message, ToolMessage):
            seen.results += 1


def _request(script: Script, history: list[Any]) -> Request:
    graph = create_agent(ScriptedModel(script=script), [add], system_prompt="You are a helpful assistant.")

    async def request(see: Callable[[Any], None] | None) -> None:
        state = {"messages": [*history, HumanMessage("hello")]}
        async for event in graph.astream(state, stream_mode="messages"):
            if see is not None:
                see(event)

    return request


def _calls(script: Script) -> list[Any]:
    return [
        {"name": "add", "args": json.dumps({"left": number, "right": 1}), "id": f"c{number}", "index": number}
        for number in range(script.calls)
    ]
