"""strands-agents with a scripted ``Model`` that yields Bedrock's stream events made beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model

from bench.peers.common import Request, Runtime, Script, Seen

PACKAGES = ("strands-agents",)
NOTE = "`agent.stream_async(...)`, one agent whose message list is set before each request, nothing trimmed"


@tool
async def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self._answer = _answer(script)
        self._calls = _calls(script) if script.calls else None

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the benchmark streams")
        yield

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        answered = any("toolResult" in block for block in messages[-1]["content"])
        for event in self._answer if answered or self._calls is None else self._calls:
            yield event


class Peer(Runtime):
    async def fresh(self, script: Script) -> Request:
        return _request(script, [])

    async def after(self, messages: int, script: Script) -> Request:
        history: list[Any] = []
        for _ in range(messages // 2):
            history.append({"role": "user", "content": [{"text": "hello"}]})
            history.append({"role": "assistant", "content": [{"text": "".join(script.pieces)}]})
        return _request(script, history)

    def see(self, event: Any, seen: Seen) -> None:
        if "data" in event:
            seen.pieces.append(event["data"])
        elif "message" in event and event["message"]["role"] == "user":
            seen.results += sum("toolResult" in block for block in event["message"]["content"])


def _request(script: Script, history: list[Any]) -> Request:
    # An agent holds one conversation. To make one per session would cost it more than this does.
    agent = Agent(
        model=ScriptedModel(script),
        tools=[add],
        system_prompt="You are a helpful assistant.",
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )

    async def request(see: Callable[[Any], None] | None) -> None:
        agent.messages[:] = history
        async for event in agent.stream_async("hello"):
            if see is not None:
                see(event)

    return request


def _answer(script: Script) -> list[Any]:
    deltas = [{"contentBlockDelta": {"delta": {"text": piece}}} for piece in script.pieces]
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"start": {}}},
        *deltas,
        {"contentBlockStop": {}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]


def _calls(script: Script) -> list[Any]:
    blocks: list[Any] = []
    for number in range(script.calls):
        asked = {"toolUse": {"name": "add", "toolUseId": f"c{number}"}}
        arguments = json.dumps({"left": number, "right": 1})
        blocks += [
            {"contentBlockStart": {"start": asked}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}},
            {"contentBlockStop": {}},
        ]
    return [{"messageStart": {"role": "assistant"}}, *blocks, {"messageStop": {"stopReason": "tool_use"}}]
