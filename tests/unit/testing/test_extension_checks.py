"""The checks of extensions find what they are for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import SystemMessage, UserMessage
from zett_agent.testing import HookRecorder, check_extension
from zett_agent.testing import extensions as checks
from zett_agent.waits import ExternalEvent


async def test_a_good_extension_passes_them_all() -> None:
    await check_extension(HookRecorder)
    await check_extension(AgentExtension)


class Mixes(AgentExtension):
    """Keeps the words of one session for all."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_message(self, context: AgentRunContext) -> None:
        assert context.input_message is not None
        self.heard.append(context.input_message.text)
        context.add_message(SystemMessage(content=" ".join(self.heard)))


class Hoards(AgentExtension):
    def __init__(self) -> None:
        self.contexts: list[AgentRunContext] = []

    async def before_run(self, context: AgentRunContext) -> None:
        self.contexts.append(context)


class Forgets(AgentExtension):
    @property
    def pending(self) -> bool:
        return False


class Clings(AgentExtension):
    @property
    def pending(self) -> bool:
        return True


class Leaks(AgentExtension):
    """Leaves an asyncio task behind each request."""

    tasks: set[asyncio.Task[Any]] = set()  # noqa: RUF012

    async def before_run(self, context: AgentRunContext) -> None:
        self.tasks.add(asyncio.ensure_future(asyncio.Event().wait()))


class Deafens(AgentExtension):
    async def on_message(self, context: AgentRunContext) -> None:
        context.input_message = UserMessage(content="something else")


class Grabs(AgentExtension):
    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        return True


@pytest.mark.parametrize(
    ("extension", "check", "says"),
    [
        (Mixes, checks.check_sessions_do_not_mix, "holds messages of session"),
        (Hoards, checks.check_nothing_of_a_request_is_kept, "is still referenced"),
        (Forgets, checks.check_pending_follows_the_requests, "pending was False while a request ran"),
        (Clings, checks.check_pending_follows_the_requests, "pending is still True after a request ended"),
        (Leaks, checks.check_a_cancel_leaves_no_asyncio_task, "asyncio tasks are left"),
        (Deafens, checks.check_a_cancel_leaves_no_asyncio_task, "was never sent what the user said"),
        (Grabs, checks.check_strange_events_are_refused, "took an event that is none of the extension's"),
    ],
)
async def test_a_bad_extension_is_found(extension: Any, check: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        await check(extension)
    for task in Leaks.tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    Leaks.tasks.clear()
