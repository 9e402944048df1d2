"""One person and one agent in a terminal: turns are shown, questions asked in place, lines typed meanwhile steer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from typing import Protocol

from zett_agent._runtime.supervisor import start_task, stop_tasks
from zett_agent.cli.interrupts import Interrupts
from zett_agent.cli.questions import Question, Unclear, question_of
from zett_agent.cli.render import Renderer
from zett_agent.client import AgentClient
from zett_agent.config import AgentRunConfig
from zett_agent.events import TERMINAL_EVENTS, AgentEvent, AgentEventType
from zett_agent.exceptions import AgentError, AgentProtocolError, InputRefusedError
from zett_agent.extensions.steering import STEERING_MESSAGE_EVENT_NAME
from zett_agent.waits import ExternalEvent

_SETTLED = frozenset(
    {
        AgentEventType.TOOL_STARTED,
        AgentEventType.TOOL_COMPLETED,
        AgentEventType.TOOL_FAILED,
        AgentEventType.TOOL_SKIPPED,
    }
)
_STATUS = {
    AgentEventType.MODEL_STARTED: "… waiting for the model",
    AgentEventType.TOOL_STARTED: "… working",
}


class Person(Protocol):
    """Who sits at the terminal, or what stands in for that; see ConsoleInput."""

    interactive: bool

    async def line(self) -> str | None:
        """The next line; None when there is no more."""
        ...

    async def quiet(self) -> None:
        """Wait until nothing half-typed is on the screen."""
        ...

    def set_prompt(self, prompt: str) -> None:
        """Show a prompt, or none."""
        ...

    def set_status(self, status: str) -> None:
        """Show what is being waited for, or nothing."""
        ...

    def discard(self) -> None:
        """Forget what is half-typed, and the prompt."""
        ...

    def covered(self) -> AbstractContextManager[None]:
        """Take the prompt away while something is written."""
        ...


class Conversation:
    """Turns of one session.

    ``steered`` says that a line redirected a turn; ``late`` holds lines that came too late for that.
    """

    def __init__(
        self,
        client: AgentClient,
        config: AgentRunConfig,
        *,
        renderer: Renderer,
        person: Person,
        interrupts: Interrupts,
        watch: Callable[[AgentEvent], None] = lambda event: None,
    ) -> None:
        self.steered = False
        self.late: deque[str] = deque()
        self._client = client
        self._config = config
        self._renderer = renderer
        self._person = person
        self._interrupts = interrupts
        self._watch = watch
        self._questions: dict[tuple[str, str], Question] = {}
        self._asked = asyncio.Event()
        self._began = asyncio.Event()

    async def turn(self, message: str) -> AgentEvent:
        """Send ``message``, show what happens and return the terminal event; raises what the stream raises."""
        self._renderer.begin()
        listener = start_task(self._listen(), "zett listener")
        try:
            with self._interrupts.stopping(self._stop):
                return await self._follow(self._client.stream(message, config=self._config))
        finally:
            await stop_tasks([listener])
            self._settle()
            if listener.done() and not listener.cancelled():
                listener.result()  # what made the terminal unreadable

    def _settle(self) -> None:
        """The turn is over: nothing is asked any more, and nothing waited for."""
        self._questions.clear()
        self._asked.clear()
        self._began.clear()
        self._person.set_prompt("")
        self._person.set_status("")

    def steer(self, text: str) -> bool:
        """Redirect the turn; False when it is too late for that."""
        event = ExternalEvent(STEERING_MESSAGE_EVENT_NAME, {"content": text})
        try:
            accepted = bool(self._client.emit_external_event(event, config=self._config))
        except InputRefusedError:
            accepted = False
        self.steered = self.steered or accepted
        return accepted

    def note(self, text: str) -> None:
        """Write a remark beside the stream without disturbing what is being typed."""
        with self._person.covered():
            self._renderer.note(text, "yellow")

    async def _follow(self, stream: AsyncIterator[AgentEvent]) -> AgentEvent:
        last: AgentEvent | None = None
        async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see ``Agent.stream``
            async for event in events:
                self._began.set()
                await self._person.quiet()
                self._person.set_status("")
                with self._person.covered():
                    self._renderer.show(event)
                self._person.set_status(_STATUS.get(event.type, ""))
                self._keep_questions(event)
                self._watch(event)
                last = event
        if last is None or last.type not in TERMINAL_EVENTS:
            raise AgentProtocolError("the stream ended without an outcome")
        return last

    async def _listen(self) -> None:
        """Take line after line: an answer while a question is open, else steering. A pipe only answers."""
        await self._began.wait()  # before that there is nothing to steer
        while True:
            if not self._person.interactive:
                await self._asked.wait()
            line = await self._person.line()
            if line is None:
                await self._asked.wait()
                self._decline_all()
            elif self._questions:
                self._answer(next(iter(self._questions.values())), line)
            elif line.strip() and not self.steer(line):
                self.late.append(line)

    def _keep_questions(self, event: AgentEvent) -> None:
        question = question_of(event)
        if question is not None:
            self._questions[question.session_id, question.call_id] = question
            self._asked.set()
            if len(self._questions) == 1:
                self._ask(question)
        elif event.type in _SETTLED:
            for call in event.tool_calls:
                self._close((event.session_id, call.id))

    def _ask(self, question: Question) -> None:
        with self._person.covered():
            self._renderer.question(question)
        self._person.set_prompt(question.prompt)

    def _close(self, key: tuple[str, str]) -> None:
        """Forget a question that is answered or gone, and ask the next."""
        first = next(iter(self._questions), None)
        if self._questions.pop(key, None) is None or key != first:
            return
        self._person.set_prompt("")
        if self._questions:
            self._ask(next(iter(self._questions.values())))
        else:
            self._asked.clear()

    def _answer(self, question: Question, line: str) -> None:
        try:
            answer = question.read(line)
        except Unclear as unclear:
            self.note(str(unclear))
            return
        if self._send(question, answer):
            self._close((question.session_id, question.call_id))
        else:
            self.note(f"that was not accepted; {question.hint}")

    def _decline_all(self) -> None:
        for question in tuple(self._questions.values()):
            self.note("nobody is there to answer")
            self._send(question, question.decline())
            self._close((question.session_id, question.call_id))

    def _send(self, question: Question, answer: ExternalEvent) -> bool:
        try:
            return bool(self._client.emit_external_event(answer, config=AgentRunConfig(session_id=question.session_id)))
        except AgentError:
            return False

    def _stop(self) -> None:
        self._person.discard()
        self.note("stopping; Ctrl-C again leaves")
        self._client.stop(self._config)
