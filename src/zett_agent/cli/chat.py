"""``zett chat``: a conversation with a model in the terminal."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from zett_agent.agent import DEFAULT_SYSTEM_PROMPT
from zett_agent.cli.console_input import ConsoleInput
from zett_agent.cli.conversation import Conversation, Person
from zett_agent.cli.faults import COMPLETED, FAILED, complain
from zett_agent.cli.interrupts import Interrupts, run
from zett_agent.cli.provider import Endpoint
from zett_agent.cli.render import Renderer, make_console
from zett_agent.cli.tools import BUILT_IN
from zett_agent.client import AgentClient, create_agent
from zett_agent.config import AgentRunConfig
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.ids import new_uuid7
from zett_agent.model import AgentModel

PROMPT = "you ▸ "
HELP = "Ctrl-C stops an answer, Ctrl-C again or Ctrl-D leaves. What you type while the agent works redirects it."


def command(options: Namespace) -> int:
    """Run the command and return its exit status."""
    endpoint = Endpoint.from_options(options.base_url, options.model, options.api_key_env, options.max_tokens)
    model = endpoint.provider()
    renderer = Renderer(make_console())

    async def work(interrupts: Interrupts) -> int:
        async with (
            model,
            await chat_agent(model, options.system, options.ask_before) as client,
            stdin(renderer) as person,
        ):
            if person.interactive:
                renderer.banner(f"{endpoint.model} at {endpoint.base_url}", HELP)
            return await chat(client, renderer, person, interrupts, secrets=endpoint.secrets)

    return run(work)


def stdin(renderer: Renderer) -> ConsoleInput:
    """The process's standard input, beside ``renderer``."""
    try:
        fd: int | None = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or not a file at all
        fd = None
    return ConsoleInput(fd, renderer.console.file, renderer, columns=lambda: renderer.console.width)


async def chat_agent(model: AgentModel, system: str | None = None, ask_before: Sequence[str] = ()) -> AgentClient:
    """An agent with the harmless tools; calls of those in ``ask_before`` need an approval (``*`` means all)."""
    extensions: list[AgentExtension] = [InMemoryMessageAccumulator(), ToolGuidelinesExtension(), AskUserExtension()]
    if ask_before:
        extensions.append(PermissionExtension([PermissionRule(tool, "ask") for tool in ask_before], default="allow"))
    prompt = system or DEFAULT_SYSTEM_PROMPT
    return await create_agent(model, system_prompt=prompt, tools=BUILT_IN, extensions=extensions)


async def chat(
    client: AgentClient,
    renderer: Renderer,
    person: Person,
    interrupts: Interrupts,
    *,
    secrets: Sequence[str] = (),
) -> int:
    """Turn after turn until the input ends. Without a person at the terminal the first failure ends it, too."""
    config = AgentRunConfig(session_id=new_uuid7())
    conversation = Conversation(client, config, renderer=renderer, person=person, interrupts=interrupts)
    while (message := await _next(conversation, renderer, person)) is not None:
        if not message.strip():
            continue
        try:
            await conversation.turn(message)
        except Exception as error:
            complain(error, secrets=secrets)
            if not person.interactive:
                return FAILED
    return COMPLETED


async def _next(conversation: Conversation, renderer: Renderer, person: Person) -> str | None:
    if conversation.late:
        message: str | None = conversation.late.popleft()
        renderer.note("that came after the answer, so it is the next message")
    else:
        person.set_prompt(PROMPT)
        message = await person.line()
        person.set_prompt("")
        if person.interactive:
            return message
    if message is not None and message.strip():
        renderer.user(message)
    return message
