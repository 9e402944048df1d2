"""What a request makes of an error that a hook or a model raised."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from zett_agent._failures import failure_text
from zett_agent.exceptions import AgentProtocolError


class Interrupted(Exception):
    """Ctrl-C on its way from an asyncio task to who awaits that: raised as it is, asyncio ends the loop with it."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        super().__init__()
        self.interrupt = interrupt


def thrown_away(raised: BaseException, own: Collection[asyncio.Task[None] | None]) -> bool:
    """Whether a GeneratorExit destroys a coroutine, whose loop is gone: then nothing can be awaited any more.

    One that comes while one of its ``own`` asyncio tasks runs was raised by code within, as any other error is; and
    while there is none, as they are being made: an eager one is in its first step.
    """
    if not isinstance(raised, GeneratorExit) or not own:
        return False
    try:
        return asyncio.current_task() not in own
    except RuntimeError:
        return True


def request_failure(raised: BaseException) -> BaseException:
    """What a request fails with when a hook or the model raised this.

    A CancelledError that nobody ordered, SystemExit and their like come in an AgentProtocolError: raised as they are
    they would pass every handler, and end an event loop that serves other sessions. Ctrl-C stays what it is.
    """
    if isinstance(raised, Exception | KeyboardInterrupt):
        return raised
    failure = AgentProtocolError(
        f"a hook or the model raised {failure_text(raised)}, though nobody stopped the request"
    )
    failure.__cause__ = raised
    return failure
