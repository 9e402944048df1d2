from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest_asyncio

from tests.providers.replay import Answer, ReplayServer
from zett_agent.model import RetryOptions
from zett_agent.providers.openai import OpenAIProvider

KEY = "zz-SECRET-123"
AT_ONCE = RetryOptions(base_delay=0, max_delay=0, max_retries=2)

Connect = Callable[..., Any]


class Connected:
    """A provider and the server that it talks to."""

    def __init__(self, server: ReplayServer, provider: OpenAIProvider) -> None:
        self.server = server
        self.provider = provider


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Connect]:
    """``await connect(*answers, **options)`` gives a server with these answers and its provider; both are closed."""
    async with AsyncExitStack() as stack:

        async def connected(*answers: Answer, **options: Any) -> Connected:
            server = await stack.enter_async_context(ReplayServer(*answers).running())
            options = {"retry": AT_ONCE, "base_url": server.url, **options}
            provider = await stack.enter_async_context(OpenAIProvider("m-1", KEY, **options))
            return Connected(server, provider)

        yield connected
