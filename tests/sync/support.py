"""What the tests of the sync door share: threads that are waited for, gates, a question."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from zett_agent import AgentEvent, AgentEventType, AgentExtension, AgentRunContext, ExternalEvent, ToolCall, tool
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.messages import ToolMessage, UserMessage
from zett_agent.model import ModelRequest

T = TypeVar("T")

SECONDS = 10.0


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Run ``function`` in a thread of its own."""
    outcome: Future[T] = Future()

    def body() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=body, daemon=True, name="zett-test").start()
    return outcome


def wait_for(event: threading.Event) -> None:
    """Wait until another thread sets ``event``."""
    assert event.wait(SECONDS), "nobody set the event"


def interrupt_when(event: threading.Event) -> None:
    """Press Ctrl-C in the main thread once ``event`` is set."""

    def press() -> None:
        wait_for(event)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    in_thread(press)


class Gate:
    """A place in async code where it stays until it is cancelled; other threads see it come and go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.cancelled = threading.Event()

    async def __call__(self) -> None:
        """Stay."""
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


class Finished(AgentExtension):
    """Sets an event each time a request is over and its session free."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def request_finished(self, context: AgentRunContext) -> None:
        """Tell the test."""
        self.event.set()


class Ask(ExternalEventExtension):
    """A tool ``ask`` whose answer comes from outside."""

    def __init__(self) -> None:
        super().__init__(response_event_name="answer", correlation_field="call_id")

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register the tool."""

        @tool(guidelines="Ask when you do not know.")
        async def ask() -> str:
            """Ask the person."""
            return str(self._take_external_event(context).payload["text"])

        context.register_tool(ask)

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Ask and wait."""
        async with self._wait_for_external_event(context, call.id):
            await context.emit(
                AgentEvent(AgentEventType.CUSTOM, context.session_id, name="question", payload={"call_id": call.id})
            )


def answer(call_id: str, text: str) -> ExternalEvent:
    """The answer to a question."""
    return ExternalEvent("answer", {"call_id": call_id, "text": text})


def last_text(request: ModelRequest) -> str:
    """The text of the newest message of a request."""
    message = request.messages[-1]
    assert isinstance(message, UserMessage | ToolMessage)
    return message.text


def called(request: ModelRequest) -> bool:
    """Whether the request already has the result of a call."""
    return isinstance(request.messages[-1], ToolMessage)
