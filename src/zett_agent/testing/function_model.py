"""A model that is a function."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing

from typing_extensions import TypeAliasType

from zett_agent.messages import AssistantMessage
from zett_agent.model import DEFAULT_RETRY_OPTIONS, ModelEvent, ModelRequest, RetryOptions
from zett_agent.testing.scripted import CallIds, Piece, play, whole_step

Answer = TypeAliasType("Answer", str | AssistantMessage | Iterable[Piece] | AsyncIterable[Piece])


class FunctionModel:
    """An AgentModel that asks ``function(request)`` for each answer and keeps the requests in ``requests``.

    The function returns text, an AssistantMessage or the pieces of a script, at once, as an awaitable, or one after
    another as a generator, plain or async.
    """

    def __init__(
        self,
        function: Callable[[ModelRequest], Answer | Awaitable[Answer]],
        *,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
    ) -> None:
        self.retry = retry
        self.requests: list[ModelRequest] = []
        self._function = function
        self._ids = CallIds()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream what the function returns; its errors propagate."""
        self.requests.append(request)
        given = self._function(request)
        answer = await given if inspect.isawaitable(given) else given
        pieces = whole_step(answer) if isinstance(answer, str | AssistantMessage) else answer
        async with aclosing(play(pieces, self._ids)) as events:
            async for event in events:
                yield event
