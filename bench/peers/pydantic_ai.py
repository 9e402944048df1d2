"""pydantic-ai with a scripted ``Model``; its own FunctionModel counts words with every delta, as no provider does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, StreamedResponse

from bench.peers.common import Request, Runtime, Script, Seen

PACKAGES = ("pydantic-ai-slim",)
NOTE = "`agent.run(event_stream_handler=...)`, its fastest way to see each delta; history by `message_history`"


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    @property
    def model_name(self) -> str:
        return "scripted"

    @property
    def system(self) -> str:
        return "scripted"

    @property
    def base_url(self) -> str | None:
        return None

    async def request(self, messages, model_settings, model_request_parameters):
        raise NotImplementedError("the benchmark streams")

    @asynccontextmanager
    async def request_stream(self, messages, model_settings, model_request_parameters, run_context=None):
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        asks = self._script.calls and not isinstance(messages[-1].parts[-1], ToolReturnPart)
        yield ScriptedResponse(parameters, self._script, bool(asks))


@dataclass
class ScriptedResponse(StreamedResponse):
    script: Script
    asks: bool

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        if self.asks:
            for number in range(self.script.calls):
                event = self._parts_manager.handle_tool_call_delta(
                    vendor_part_id=number,
                    tool_name="add",
                    args=json.dumps({"left": number, "right": 1}),
                    tool_call_id=f"c{number}",
                )
                if event is not None:
                    yield event
            return
        for piece in self.script.pieces:
            for event in self._parts_manager.handle_text_delta(vendor_part_id="content", content=piece):
                yield event

    async def close_stream(self) -> None:
        pass

    @property
    def model_name(self) -> str:
        return "scripted"

    @property
    def provider_name(self) -> str | None:
        return None

    @property
    def provider_url(self) -> str | None:
        return None

    @property
    def timestamp(self) -> datetime:
        return datetime.now(UTC)


class Peer(Runtime):
    async def fresh(self, script: Script) -> Request:
        return _request(script, None)

    async def after(self, messages: int, script: Script) -> Request:
        history: list[ModelMessage] = []
        for _ in range(messages // 2):
            history.append(ModelRequest(parts=[UserPromptPart("hello")]))
            history.append(ModelResponse(parts=[TextPart("".join(script.pieces))]))
        return _request(script, history)

    def see(self, event: Any, seen: Seen) -> None:
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            seen.pieces.append(event.part.content)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            seen.pieces.append(event.delta.content_delta)
        elif isinstance(event, FunctionToolResultEvent):
            seen.results += 1


def _request(script: Script, history: list[ModelMessage] | None) -> Request:
    agent = Agent(ScriptedModel(script), instructions="You are a helpful assistant.", name="bench")

    @agent.tool_plain
    async def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    async def request(see: Callable[[Any], None] | None) -> None:
        async def handler(_context: Any, events: Any) -> None:
            async for event in events:
                if see is not None:
                    see(event)

        await agent.run("hello", message_history=history, event_stream_handler=handler)

    return request
