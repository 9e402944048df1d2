"""What a request has accepted is in its history or is handed back, wherever the request is stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.engine.scenario import SESSION, add, alone
from zett_agent.agent import Agent
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.messages import ToolMessage, content_text
from zett_agent.testing import ScriptedModel, call
from zett_agent.waits import ExternalEvent

Moment = AgentEventType


class Archive(AgentExtension):
    """Takes a few steps to keep a message, as one that writes to a disk does, or fails on the results of calls."""

    subscribes = (MessageAppendedEvent,)

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken

    async def on_event(self, context: object, event: ExtensionEvent) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        if self._broken and isinstance(event, MessageAppendedEvent) and isinstance(event.message, ToolMessage):
            raise OSError("the disk is full")


class Told:
    """A request that gets one message of the given kind at the given event."""

    def __init__(self, kind: str, moment: Moment, *, broken: bool = False) -> None:
        calls = [call("add", id="1", left=1, right=2), call("alone", id="2"), call("alone", id="3")]
        model = ScriptedModel(calls, "then this", "and that")
        self.agent = Agent(model, system_prompt="", tools=[add, alone], extensions=[Archive(broken=broken)])
        self._kind, self._moment = kind, moment
        self.told = False

    async def play(self) -> None:
        await self.agent.initialize(config=SESSION)
        async for event in self.agent.stream("hi"):
            self._tell(event)

    def found(self) -> list[str]:
        """Where the message is now."""
        state = self.agent.get_state("s")
        assert state is not None
        kept = [f"kept {content_text(message.content)}" for message in state.messages]
        back = [f"returned {content_text(message.content)}" for message in state.undelivered]
        return [where for where in [*kept, *back] if "listen" in where]

    def _tell(self, event: AgentEvent) -> None:
        if event.type is self._moment and not self.told:
            self.told = True
            assert self.agent.emit_external_event(ExternalEvent(self._kind, {"content": "listen"}), config=SESSION)


@pytest.mark.parametrize("moment", [Moment.MODEL_COMPLETED, Moment.TOOL_COMPLETED])
@pytest.mark.parametrize("kind", ["steering_message", "internal_message"])
async def test_core_19_accepted_input_is_kept_or_returned_wherever_the_request_is_cancelled(
    kind: str, moment: Moment
) -> None:
    places, ended = set[str](), False
    for step in range(500):
        request = Told(kind, moment)
        playing = asyncio.ensure_future(request.play())
        while not request.told:
            await asyncio.sleep(0)
        for _ in range(step):
            await asyncio.sleep(0)
        ended = playing.done()
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
        assert len(request.found()) == 1, f"cancelled {step} steps later: {request.found()}"
        places.add(*request.found())
        if ended:
            break
    assert ended and places == {"kept listen", "returned listen"}


async def test_core_19_steering_is_returned_when_a_hook_fails_on_the_calls_it_skips() -> None:
    request = Told("steering_message", Moment.MODEL_COMPLETED, broken=True)
    with pytest.raises(OSError, match="disk"):
        await request.play()
    assert request.found() == ["returned listen"]
