"""``zett demo``: the main job of the runtime, watched in a terminal, without a network."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from zett_agent.cli.chat import stdin
from zett_agent.cli.conversation import Conversation, Person
from zett_agent.cli.demo_agent import GOAL, Pace, demo_agent
from zett_agent.cli.faults import COMPLETED, FAILED, INTERRUPTED, complain
from zett_agent.cli.interrupts import Interrupts, run
from zett_agent.cli.questions import Approval
from zett_agent.cli.render import Renderer, make_console
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.ids import new_uuid7

STEERING = "keep it short"
WATCHED = Pace(word=0.025, work=0.2, hesitation=2.5)
UNWATCHED = Pace(word=0.004, work=0.08, hesitation=0.1)

_ABOUT = (
    "An agent releases an imaginary application. Its model is scripted and needs no network; everything else is the "
    "runtime as your own agents use it."
)
_YOU_MAY = "You are asked two things. Whenever you like, type a line and press Enter to steer; Ctrl-C stops."
_DEFAULTS = f'No terminal, so these answers are taken: option 1, approval "y", and "{STEERING}" as steering.'


class Defaults:
    """Answers in place of a person: each question's first option, and yes."""

    interactive = False

    def __init__(self, renderer: Renderer, *, delay: float) -> None:
        self._renderer = renderer
        self._delay = delay
        self._prompt = ""

    async def line(self) -> str | None:
        """The answer to the question that is open, after a moment."""
        await asyncio.sleep(self._delay)
        answer = "y" if self._prompt == Approval.prompt else "1"
        self._renderer.note(f"{self._prompt}{answer} (the default answer)", "green")
        return answer

    async def quiet(self) -> None:
        """Nobody types."""

    def set_prompt(self, prompt: str) -> None:
        """Remember what is asked."""
        self._prompt = prompt

    def set_status(self, status: str) -> None:
        """There is nobody to show it to."""

    def discard(self) -> None:
        """Nobody types."""

    @contextmanager
    def covered(self) -> Iterator[None]:
        """There is no prompt to take away."""
        yield


class Stations:
    """Steers once for a person who did not: while the model still thinks about its announcement."""

    def __init__(self, *, watched: bool) -> None:
        self.conversation: Conversation | None = None
        self._watched = watched
        self._drafting = False

    def watch(self, event: AgentEvent) -> None:
        """Look at an event after it was shown."""
        piece, conversation = event.tool_call_delta, self.conversation
        if piece is None or conversation is None or conversation.steered:
            return
        if piece.name_delta:
            self._drafting = piece.name_delta == "draft_announcement"
            if self._drafting and self._watched:
                conversation.note(f'too long for you? Type a line now, such as "{STEERING}", and press Enter')
        elif self._drafting and conversation.steer(STEERING):
            conversation.note(f'the demo steers, as a person could by typing a line: "{STEERING}"')


def command(options: Namespace) -> int:
    """Run the command and return its exit status."""
    renderer = Renderer(make_console())

    async def work(interrupts: Interrupts) -> int:
        async with stdin(renderer) as typed:
            if typed.interactive:
                return await demo(renderer, typed, interrupts, WATCHED)
            return await demo(renderer, Defaults(renderer, delay=0.2), interrupts, UNWATCHED)

    return run(work)


async def demo(renderer: Renderer, person: Person, interrupts: Interrupts, pace: Pace) -> int:
    """Run the agent once and return the exit status."""
    renderer.banner("zett demo", f"{_ABOUT}\n{_YOU_MAY if person.interactive else _DEFAULTS}")
    renderer.user(GOAL)
    config = AgentRunConfig(session_id=new_uuid7())
    stations = Stations(watched=person.interactive)

    def tell(text: str) -> None:
        with person.covered():
            renderer.task(text)

    async with await demo_agent(pace, config, tell) as client:
        conversation = stations.conversation = Conversation(
            client, config, renderer=renderer, person=person, interrupts=interrupts, watch=stations.watch
        )
        return await _play(conversation)


async def _play(conversation: Conversation) -> int:
    try:
        last = await conversation.turn(GOAL)
    except Exception as error:
        complain(error)
        return FAILED
    return _end(conversation, last)


def _end(conversation: Conversation, last: AgentEvent) -> int:
    for line in conversation.late:
        conversation.note(f'"{line}" came after the end')
    return INTERRUPTED if last.type is AgentEventType.RUN_CANCELLED else COMPLETED
