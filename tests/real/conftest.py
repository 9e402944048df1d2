from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from zett_agent.providers.openai import OpenAIProvider
from zett_agent.testing.local_model import MODEL, LocalModel, local_model


@pytest.fixture(scope="session")
def model_server() -> Iterator[LocalModel]:
    """One real model for the whole session."""
    with local_model() as model:
        yield model


@pytest_asyncio.fixture
async def provider(model_server: LocalModel) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(MODEL, "no key", **model_server.options) as provider:
        yield provider
