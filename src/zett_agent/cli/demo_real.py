"""``python -m zett_agent.cli.demo_real``: the runtime against a real model, small and on this machine.

The model can do one thing: call ``add`` and say what came of it. That takes every part of the way that a large one
takes: a server, the streamed wire, the call, the tool, the answer, the usage.
"""

from __future__ import annotations

import sys

from zett_agent.cli.app import guarded
from zett_agent.cli.chat import stdin
from zett_agent.cli.conversation import Conversation, Person
from zett_agent.cli.faults import COMPLETED, FAILED, INTERRUPTED, complain
from zett_agent.cli.interrupts import Interrupts, run
from zett_agent.cli.render import Renderer, make_console
from zett_agent.cli.tools import BUILT_IN
from zett_agent.client import create_agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.ids import new_uuid7
from zett_agent.messages import AssistantMessage
from zett_agent.model import AgentModel
from zett_agent.providers.openai import OpenAIProvider
from zett_agent.testing.local_model import ANSWER, MODEL, PROMPT, LocalModelError, local_model

_ADD = tuple(tool for tool in BUILT_IN if tool.name == "add")


def main() -> int:
    """Serve the model, make the round trip, end the server; 0 only if the answer is right."""
    return guarded(_serve)


def _serve() -> int:
    renderer = Renderer(make_console())
    renderer.note("starting a small real model on this machine (the first time it is installed: some 600 MB)")
    try:
        with local_model() as server:
            renderer.note(f"{MODEL} answers at {server.url}")
            return run(lambda interrupts: _ask(OpenAIProvider(MODEL, "none", **server.options), renderer, interrupts))
    except LocalModelError as error:
        complain(error)
        return FAILED


async def _ask(model: OpenAIProvider, renderer: Renderer, interrupts: Interrupts) -> int:
    async with model, stdin(renderer) as person:
        return await round_trip(model, renderer, person, interrupts)


async def round_trip(model: AgentModel, renderer: Renderer, person: Person, interrupts: Interrupts) -> int:
    """Ask for the sum and check all that must have happened."""
    config = AgentRunConfig(session_id=new_uuid7())
    seen: list[AgentEvent] = []
    async with await create_agent(model, config=config, system_prompt="", tools=_ADD, extensions=[]) as client:
        conversation = Conversation(
            client, config, renderer=renderer, person=person, interrupts=interrupts, watch=seen.append
        )
        renderer.user(PROMPT)
        try:
            await conversation.turn(PROMPT)
        except Exception as error:
            complain(error)
            return FAILED
        return _judge(seen, renderer.usage.total_tokens)


def _judge(seen: list[AgentEvent], tokens: int) -> int:
    if seen[-1].type is AgentEventType.RUN_CANCELLED:
        return INTERRUPTED
    faults = _faults(seen, tokens)
    for fault in faults:
        complain(fault)
    return FAILED if faults else COMPLETED


def _faults(seen: list[AgentEvent], tokens: int) -> list[str]:
    last = seen[-1]
    answer = last.message.content if isinstance(last.message, AssistantMessage) else ""
    kinds = [event.type for event in seen]
    checks = {
        f"the answer is {answer!r} and not {ANSWER!r}": answer.strip() == ANSWER,
        "no tool was called": AgentEventType.TOOL_COMPLETED in kinds,
        "the answer was not streamed": kinds.count(AgentEventType.TEXT_DELTA) > 1,
        "the server reported no usage": tokens > 0,
    }
    return [fault for fault, fine in checks.items() if not fine]


if __name__ == "__main__":
    sys.exit(main())
