"""Many sessions of one agent that wait at once, and another thread that answers them in any order."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from zett_agent._runtime.run import Run
from zett_agent._runtime.waitbook import Ticket
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext, AgentState
from zett_agent.events import AgentEvent
from zett_agent.extensions.ask_user import ASK_USER_RESPONSE_EVENT_NAME, AskUserExtension
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import AssistantMessage, ToolMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, call, check_transcript
from zett_agent.waits import ExternalEvent

#: What must not be there any more once its request has ended and its session is forgotten.
MORTAL = (Run, Ticket, AgentRunContext, AgentState)


def census() -> Counter[str]:
    """How much of sessions is in memory."""
    gc.collect()
    return Counter(type(thing).__name__ for thing in gc.get_objects() if type(thing) in MORTAL)


class Question(NamedTuple):
    """An open question: whose it is, by which id, and the session at the top."""

    session_id: str
    call_id: str
    top: str

    @property
    def answer(self) -> str:
        """An answer that no other question may get."""
        return f"{self.session_id} {self.call_id}"


def said(answers: Mapping[str, str]) -> str:
    """Answers by call id, as the models of a crowd report them."""
    return json.dumps(dict(sorted(answers.items())))


class Crowd:
    """``size`` sessions that ask two questions each: one by an id that all share, one by an id of its own."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.random = random.Random(seed)
        self.asking = AskUserExtension()
        self.questions: list[Question] = []
        self.all_wait = asyncio.Event()
        self.outcomes: dict[str, str] = {}
        self.taken: Counter[str] = Counter()
        self.wrongly_taken: list[Question] = []
        self.refused = 0
        self.before = census()
        self.agent: Agent

    async def play(self) -> None:
        """Let them all ask, have them answered from another thread once all wait, and follow each to its end."""
        self.agent = await self.make()
        async with asyncio.TaskGroup() as sessions:
            for number in range(self.size):
                sessions.create_task(self.follow(f"s{number}"))
            await self.all_wait.wait()
            assert len(self.agent.pending_waits()) == len(self.questions) == 2 * self.size
            await asyncio.to_thread(self.answer_all)
        assert list(self.taken.values()) == [2 * self.size]
        assert not self.wrongly_taken
        assert self.refused > 6 * self.size
        assert self.outcomes == self.expected()

    def expected(self) -> dict[str, str]:
        """What each session must report: the answers to its own questions."""
        answers: dict[str, dict[str, str]] = {}
        for question in self.questions:
            answers.setdefault(question.top, {})[question.call_id] = question.answer
        return {session_id: said(each) for session_id, each in answers.items()}

    async def make(self) -> Agent:
        """The agent that all sessions share."""
        return await Agent.create(FunctionModel(self.asks), system_prompt="", extensions=[self.asking])

    def asks(self, request: ModelRequest) -> Any:
        """A model that asks, and then reports what it was told."""
        check_transcript(request.messages)
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            own = f"right-{last.text}"
            return [call("ask_user", id="left", question="left?"), call("ask_user", id=own, question="right?")]
        told = [json.loads(message.text) for message in request.messages if isinstance(message, ToolMessage)]
        return said({each["payload"]["tool_call_id"]: each["payload"]["answer"] for each in told})

    async def follow(self, session_id: str) -> None:
        """One session, from its message to its answer."""
        stream = self.agent.stream(session_id, config=AgentRunConfig(session_id))
        async with aclosing(stream) as events:  # type: ignore[type-var]  # an async generator, see Agent.stream
            async for event in events:
                self._note(event, session_id)

    def _note(self, event: AgentEvent, top: str) -> None:
        if event.name == "ask_user" and event.payload is not None:
            self.questions.append(Question(event.payload["session_id"], event.payload["tool_call_id"], top))
            if len(self.questions) == 2 * self.size:
                self.all_wait.set()
        elif event.type == "run_completed" and isinstance(event.message, AssistantMessage):
            self.outcomes[top] = event.message.content

    def answer_all(self) -> None:
        """Answer every question once, in a random order, among many answers that must be refused."""
        order = list(self.questions)
        self.random.shuffle(order)
        for position, question in enumerate(order):
            for other in self.random.sample(order, 3):
                if other.top != question.top:
                    self._misdirect(question, other)
            self.taken.update(self.send(question.session_id, question.call_id, question.answer))
            self._must_refuse(question)
            self._must_refuse(order[self.random.randrange(position + 1)])

    def _misdirect(self, question: Question, other: Question) -> None:
        """An answer to what that session has not asked, or under the name of another kind of answer."""
        if self.send(other.session_id, f"right-{question.top}", "to another session"):
            self.wrongly_taken.append(question)
        if self.send(question.session_id, question.call_id, "of another kind", name="permission_response"):
            self.wrongly_taken.append(question)
        self.refused += 2

    def _must_refuse(self, question: Question) -> None:
        """A second answer to what is answered."""
        if self.send(question.session_id, question.call_id, "too late"):
            self.wrongly_taken.append(question)
        self.refused += 1

    def send(self, session_id: str, call_id: str, answer: str, name: str = ASK_USER_RESPONSE_EVENT_NAME) -> list[str]:
        """Give an answer as an application does; who took it."""
        event = ExternalEvent(name, {"tool_call_id": call_id, "answer": answer})
        return self.agent.emit_external_event(event, config=AgentRunConfig(session_id))

    def check_nothing_is_left(self) -> None:
        """No wait, no request, no asyncio task but the caller's, and nothing of a session in memory."""
        assert not self.agent.pending and not self.agent.pending_waits()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not self.asking._books and not self.asking._staged
        for number in range(self.size):
            self.agent.forget(f"s{number}")
        left = census() - self.before
        assert left == {"AgentState": 1}, left  # ``agent.state`` keeps that of the latest request


class Family(Crowd):
    """A crowd in which a child of each session asks, in the foreground."""

    async def make(self) -> Agent:
        """Parents that hand everything to a child."""
        child = SubAgentDefinition("child", "c", "c", FunctionModel(self.asks), extensions=[self.asking])
        self.children = SubAgentExtension([child])
        return await Agent.create(FunctionModel(self.delegates), system_prompt="", extensions=[self.children])

    def delegates(self, request: ModelRequest) -> Any:
        """A model that hands its input to a child, and then reports what that reported."""
        check_transcript(request.messages)
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return [call("task", description="part", prompt=last.text, subagent_type="child")]
        return json.loads(last.text)["content"]  # type: ignore[union-attr]

    def check_nothing_is_left(self) -> None:
        """Nor a child."""
        assert self.children.nursery.empty
        super().check_nothing_is_left()
