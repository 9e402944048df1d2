"""openai-agents with a scripted ``Model`` that yields events of the Responses API made beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agents import Agent, ModelSettings, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from bench.peers.common import Request, Runtime, Script, Seen

PACKAGES = ("openai-agents",)
NOTE = "`Runner.run_streamed(...)`, tracing off, no session object; history by the list of input items"

set_tracing_disabled(True)


@function_tool
async def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self._answer = _answer(script)
        self._calls = _calls(script) if script.calls else None

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the benchmark streams")

    async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        answered = isinstance(input, list) and input[-1].get("type") == "function_call_output"
        for event in self._answer if answered or self._calls is None else self._calls:
            yield event


class Peer(Runtime):
    async def fresh(self, script: Script) -> Request:
        return _request(script, [])

    async def after(self, messages: int, script: Script) -> Request:
        history: list[Any] = []
        for _ in range(messages // 2):
            history.append({"role": "user", "content": "hello"})
            history.append({"role": "assistant", "content": "".join(script.pieces)})
        return _request(script, history)

    def see(self, event: Any, seen: Seen) -> None:
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            seen.pieces.append(event.data.delta)
        elif event.type == "run_item_stream_event" and event.name == "tool_output":
            seen.results += 1


def _request(script: Script, history: list[Any]) -> Request:
    agent = Agent(
        name="bench",
        instructions="You are a helpful assistant.",
        model=ScriptedModel(script),
        model_settings=ModelSettings(parallel_tool_calls=True),
        tools=[add],
    )
    config = RunConfig(tracing_disabled=True)
    said = [{"role": "user", "content": "hello"}]

    async def request(see: Callable[[Any], None] | None) -> None:
        result = Runner.run_streamed(agent, history + said if history else "hello", run_config=config)
        async for event in result.stream_events():
            if see is not None:
                see(event)

    return request


def _answer(script: Script) -> list[Any]:
    deltas = [
        ResponseTextDeltaEvent(
            type="response.output_text.delta",
            content_index=0,
            output_index=0,
            item_id="m",
            delta=piece,
            logprobs=[],
            sequence_number=number,
        )
        for number, piece in enumerate(script.pieces)
    ]
    text = ResponseOutputText(type="output_text", text="".join(script.pieces), annotations=[])
    message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
    return [*deltas, _completed([message], len(deltas))]


def _calls(script: Script) -> list[Any]:
    calls = [
        ResponseFunctionToolCall(
            type="function_call",
            call_id=f"c{number}",
            name="add",
            arguments=json.dumps({"left": number, "right": 1}),
        )
        for number in range(script.calls)
    ]
    return [_completed(calls, 0)]


def _completed(output: list[Any], number: int) -> Any:
    response = Response(
        id="r",
        created_at=0,
        model="scripted",
        object="response",
        output=output,
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
    )
    return ResponseCompletedEvent(type="response.completed", response=response, sequence_number=number)
