"""``zett run``: one prompt, one answer, an exit status."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import aclosing

from zett_agent.agent import DEFAULT_SYSTEM_PROMPT
from zett_agent.cli.faults import COMPLETED, FAILED, INTERRUPTED, STOPPED_BY_MODEL, UsageFault, complain
from zett_agent.cli.interrupts import Interrupts, run
from zett_agent.cli.json_events import event_line
from zett_agent.cli.provider import Endpoint
from zett_agent.cli.text import visible
from zett_agent.cli.tools import BUILT_IN
from zett_agent.client import AgentClient, create_agent
from zett_agent.events import AgentEvent
from zett_agent.json_types import utf8_text
from zett_agent.messages import AssistantMessage
from zett_agent.model import AgentModel


def command(options: Namespace) -> int:
    """Run the command and return its exit status."""
    prompt = _prompt(options.prompt)
    endpoint = Endpoint.from_options(options.base_url, options.model, options.api_key_env, options.max_tokens)
    model = endpoint.provider()

    async def work(interrupts: Interrupts) -> int:
        async with model:
            return await answer(
                model,
                prompt,
                system=options.system,
                as_json=options.json,
                interrupts=interrupts,
                secrets=endpoint.secrets,
            )

    return run(work)


async def answer(
    model: AgentModel,
    prompt: str,
    *,
    interrupts: Interrupts,
    system: str | None = None,
    as_json: bool = False,
    secrets: tuple[str, ...] = (),
) -> int:
    """Send ``prompt`` and print the answer, or every event as a line of JSON; the exit status says how it ended."""
    async with await create_agent(model, system_prompt=system or DEFAULT_SYSTEM_PROMPT, tools=BUILT_IN) as client:
        with interrupts.stopping(client.stop):
            try:
                last = await _follow(client, prompt, as_json=as_json)
            except OSError:
                raise  # what we print cannot be written
            except Exception as error:
                complain(error, secrets=secrets)
                return FAILED
    return _outcome(last, as_json=as_json)


async def _follow(client: AgentClient, prompt: str, *, as_json: bool) -> AgentEvent | None:
    last: AgentEvent | None = None
    async with aclosing(client.stream(prompt)) as events:  # type: ignore[type-var]  # an async generator
        async for event in events:
            if as_json:
                print(event_line(event), flush=True)
            last = event
    return last


def _outcome(last: AgentEvent | None, *, as_json: bool) -> int:
    message = None if last is None else last.message
    if not isinstance(message, AssistantMessage):  # the stream ended with RUN_CANCELLED
        complain("interrupted")
        return INTERRUPTED
    if not as_json:
        watched = sys.stdout is not None and sys.stdout.isatty()
        print(visible(message.content) if watched else utf8_text(message.content), flush=True)
    if message.stop is not None and not message.stop.ok:
        complain(f"the model stopped: {message.stop.describe()}")
        return STOPPED_BY_MODEL
    return COMPLETED


def _prompt(given: str) -> str:
    text = given
    if given == "-":
        text = sys.stdin.buffer.read().decode(errors="replace") if sys.stdin is not None else ""
    if not text.strip():
        raise UsageFault("the prompt is empty")
    return utf8_text(text)
