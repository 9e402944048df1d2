"""What happens at the edges: consumers far behind, hooks that never end, the loop's own end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.engine.conftest import Leap
from tests.engine.scenario import add, named, scene, spin, story
from zett_agent._runtime.channel import HIGH_WATER
from zett_agent._runtime.supervisor import CLOSE_BOUND
from zett_agent.agent import drain
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError, ToolRejectedError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.testing import EventRecorder, call, error, reasoning, text

MANY = 3 * HIGH_WATER


async def test_every_kind_of_delta_waits_for_a_consumer_that_is_far_behind() -> None:
    class Chatty(AgentExtension):
        async def before_run(self, context: AgentRunContext) -> None:
            for n in range(MANY):
                await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name=str(n)))

    stage = await scene([reasoning(*["r"] * MANY)], extensions=[Chatty()])
    recorder = EventRecorder()
    stream = stage.agent.stream("hi")
    await anext(stream)
    await spin()
    assert len(stage.agent._sessions.runs[0].channel.queue) <= HIGH_WATER
    await recorder.record(stream)
    assert len(recorder.of("reasoning_delta")) == MANY and len(recorder.of("custom")) == MANY - 1


@pytest.mark.parametrize("words", [HIGH_WATER - 4, HIGH_WATER - 3, HIGH_WATER - 2, HIGH_WATER - 1, HIGH_WATER])
async def test_the_outcome_is_committed_although_the_consumer_is_far_behind_and_leaves(words: int) -> None:
    stage = await scene([text(*["x"] * words), error(ConnectionError())])
    stream = stage.agent.stream("hi")
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await spin()
    await waiting
    await stream.aclose()  # type: ignore[attr-defined]
    assert stage.agent.state.phase in (AgentPhase.FAILED, AgentPhase.CANCELLED)
    assert story(stage.agent.state.messages)[1].startswith("assistant xxx")
    assert not stage.agent.pending


class Stubborn(AgentExtension):
    """A hook that ignores every cancel until it is released."""

    def __init__(self, *, returns: bool) -> None:
        self.reached, self.release = asyncio.Event(), asyncio.Event()
        self.returns = returns

    async def before_turn(self, context: AgentRunContext) -> None:
        self.reached.set()
        cancelled: BaseException | None = None
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError as order:
                cancelled = order
        if cancelled is not None and not self.returns:
            raise cancelled


@pytest.mark.parametrize("returns", [True, False])
async def test_a_hook_that_does_not_end_is_named_and_the_session_is_free(
    returns: bool, leap: Leap, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Stubborn(returns=returns)
    stage = await scene("never", "next", extensions=[hook])
    request = asyncio.ensure_future(stage.agent.run("hi"))
    await hook.reached.wait()
    with caplog.at_level(logging.ERROR, "zett_agent"):
        request.cancel()
        await spin()
        leap(CLOSE_BOUND)
        with suppress(asyncio.CancelledError):
            await request
    assert "did not stop within" in caplog.text
    given_up = stage.agent.state
    assert given_up.phase is AgentPhase.CANCELLED and not stage.agent.pending
    hook.release.set()
    await spin()
    assert given_up.phase is AgentPhase.CANCELLED
    assert stage.model.requests == [], "what comes late has no effect"
    hook.returns = True
    assert (await stage.agent.run("again")).content == "never"


async def test_the_end_of_the_loop_cancels_the_request() -> None:
    phases: list[AgentPhase] = []

    def run_and_leave() -> None:
        async def leave() -> None:
            stage = await scene([text("x"), call("wait")], tools=[named("wait", _wait)])
            _ = asyncio.get_running_loop().create_task(_follow(stage.agent.stream("hi"), phases, stage.agent))
            await spin()

        asyncio.run(leave())

    await asyncio.to_thread(run_and_leave)
    assert phases == [AgentPhase.CANCELLED]


async def _follow(stream: AsyncIterator[AgentEvent], phases: list[AgentPhase], agent: Any) -> None:
    try:
        await EventRecorder().record(stream)
    finally:
        phases.append(agent.state.phase)


async def _wait() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


async def test_looking_for_the_resume_point_ignores_what_extensions_show() -> None:
    class Shows(AgentExtension):
        async def on_state(self, context: AgentRunContext) -> None:
            await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name="loaded"))

    stage = await scene(extensions=[Shows()])
    assert await stage.agent.resume_point() is None


async def test_a_stream_without_an_outcome_is_an_error_of_run() -> None:
    async def nothing() -> AsyncIterator[AgentEvent]:
        return
        yield AgentEvent(AgentEventType.RUN_COMPLETED, "s")

    with pytest.raises(AgentProtocolError, match="ended without an outcome"):
        await drain(nothing())


async def test_extensions_may_keep_books_of_requests() -> None:
    books: list[str] = []

    class Books(AgentExtension):
        def request_started(self, context: AgentRunContext) -> None:
            books.append(f"started {context.state.phase.value}")

        def request_finished(self, context: AgentRunContext) -> None:
            books.append(f"finished {context.state.phase.value}")

    stage = await scene("done", [error(ConnectionError())], extensions=[Books()])
    await stage.play()
    await stage.play()
    assert books == ["started created", "finished completed", "started created", "finished failed"]


async def test_a_woken_session_needs_an_internal_message() -> None:
    stage = await scene()
    with pytest.raises(TypeError, match="must be an AgentMessage, not UserMessage"):
        stage.agent.stream_internal(UserMessage(content="x"))  # type: ignore[arg-type]


@dataclass(slots=True, kw_only=True)
class Tagged(AssistantMessage):
    """A provider's own kind of answer."""

    tag: str = ""


async def test_a_models_own_kind_of_message_is_kept() -> None:
    own = Tagged(content="done", tag="t", attributes={"k": 1})
    stage = await scene(own)
    outcome = await stage.play()
    kept = outcome.messages[-1]
    assert isinstance(kept, Tagged) and kept.tag == "t" and kept is not own
    assert kept.attributes == {"k": 1} and kept.attributes is not own.attributes


async def test_the_last_word_on_a_call_sees_what_the_handler_would_get() -> None:
    seen: list[ToolCall] = []

    class Edits(AgentExtension):
        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: Any) -> Any:
            call.arguments["right"] = 40
            return await call_next()

    class Guards(AgentExtension):
        priority = 1

        async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            seen.append(call)
            if call.arguments["right"] > 10:
                raise ToolRejectedError("too much")

    stage = await scene([call("add", left=1, right=2)], "done", tools=[add], extensions=[Guards(), Edits()])
    outcome = await stage.play()
    assert seen == [ToolCall("call_1", "add", {"left": 1, "right": 40})]
    assert outcome.story[2] == "tool call_1 failed: too much"


async def test_a_result_that_could_not_be_announced_is_in_the_history_and_shown() -> None:
    class Fussy(AgentExtension):
        async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
            if isinstance(event, MessageAppendedEvent) and isinstance(event.message, ToolMessage):
                raise RuntimeError("no")

    stage = await scene([call("add", id="a", left=1, right=1)], tools=[add], extensions=[Fussy()])
    outcome = await stage.play()
    assert outcome.lines[-2:] == ["tool_completed add(a)", "run_failed RuntimeError"]
    assert outcome.story[-1] == "tool a ok: 2"
