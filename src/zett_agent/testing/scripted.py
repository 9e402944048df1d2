"""A model that plays a script, and the pieces that scripts are made of."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Self

from typing_extensions import TypeAliasType

from zett_agent.messages import AssistantMessage, ToolCall
from zett_agent.model import (
    DEFAULT_RETRY_OPTIONS,
    ModelEvent,
    ModelEventType,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    RetryOptions,
    ToolCallDelta,
)
from zett_agent.stop import StopInfo, StopReason


class ScriptError(AssertionError):
    """A model was called more often than its script says."""


@dataclass(frozen=True, slots=True)
class Text:
    """See ``text``."""

    deltas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """See ``reasoning``."""

    deltas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """See ``call``; ``arguments`` are what the response holds, ``fragments`` what is streamed before it."""

    name: Any
    id: str | None
    arguments: Any
    fragments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deltas:
    """See ``deltas``."""

    events: tuple[ModelEvent, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """See ``error``."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Stop:
    """See ``stop``."""

    reason: str | StopReason | StopInfo


@dataclass(frozen=True, slots=True)
class End:
    """See ``end``."""


@dataclass(slots=True, eq=False)
class Stall:
    """A place where the model waits; ``reached`` is set when a stream has come to it."""

    released: asyncio.Event
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let every stream that waits here go on."""
        self.released.set()


Piece = TypeAliasType("Piece", Text | Reasoning | Call | ToolCall | Deltas | Failure | Stop | Stall | End | ModelUsage)
Step = TypeAliasType("Step", str | AssistantMessage | Piece | Sequence[Piece])


def text(*deltas: str) -> Text:
    """A piece of the answer: one string is streamed word by word, several are streamed as they are."""
    return Text(_words(deltas))


def reasoning(*deltas: str) -> Reasoning:
    """A piece of the model's thinking, split as ``text`` is."""
    return Reasoning(_words(deltas))


def call(name: str, /, id: str | None = None, **arguments: Any) -> Call:
    """A tool call; without an ``id`` the model makes ``call_1``, ``call_2`` and so on.

    For an argument that is itself called ``id``, and for broken calls, put a ``ToolCall`` into the script instead.
    """
    return Call(name, id, arguments)


def raw_call(name: str, /, *fragments: str, id: str | None = None) -> Call:
    """A tool call whose arguments are the text of ``fragments``, JSON or not, streamed as tool call deltas."""
    return Call(name, id, "".join(fragments), fragments)


def deltas(*events: ModelEvent) -> Deltas:
    """Any model events, as they are; a response among them stands for the one that the script would make."""
    return Deltas(events)


def error(exception: BaseException) -> Failure:
    """The stream fails here."""
    return Failure(exception)


def stall(event: asyncio.Event | None = None) -> Stall:
    """The stream waits here until it is cancelled, or ``event`` is set, or ``release()`` of the piece is called."""
    return Stall(asyncio.Event() if event is None else event)


def stop(reason: str | StopReason | StopInfo) -> Stop:
    """How the response ends: a provider's finish reason such as ``"length"``, or what it is classified as."""
    return Stop(reason)


def usage(input_tokens: int = 0, output_tokens: int = 0, *, cached: int = 0, reasoning: int = 0) -> ModelUsage:
    """The tokens of the response; ``cached`` is a part of the input, ``reasoning`` of the output."""
    return ModelUsage(input_tokens, output_tokens, cache_read_tokens=cached, reasoning_tokens=reasoning)


def end() -> End:
    """The stream ends here, without a response."""
    return End()


class ScriptedModel:
    """An AgentModel whose every call plays the next step and keeps its ModelRequest in ``requests``.

    A step is a list of pieces (a string, an AssistantMessage or a single piece will do). Sessions may share a model:
    each step is played once. As a context manager it raises AssertionError at the end when steps are left.
    ``on_request``, plain or async, sees each request before its step is played.
    """

    def __init__(
        self,
        *steps: Step,
        retry: RetryOptions = DEFAULT_RETRY_OPTIONS,
        on_request: Callable[[ModelRequest], Awaitable[None] | None] | None = None,
    ) -> None:
        self.retry = retry
        self.requests: list[ModelRequest] = []
        self._steps = deque(_pieces(step) for step in steps)
        self._size = len(steps)
        self._on_request = on_request
        self._lock = threading.Lock()
        self._ids = CallIds()

    @property
    def remaining(self) -> int:
        """Steps that were not played yet."""
        return len(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.assert_done()

    def assert_done(self) -> None:
        """Raise AssertionError when steps are left, or when the model was called once too often."""
        if self._steps:
            raise AssertionError(f"{self.remaining} of {self._size} steps were not played; next: {self._steps[0]!r}")
        if len(self.requests) > self._size:
            raise ScriptError(f"the model was called {len(self.requests)} times; the script has {self._size} steps")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Play the next step; ScriptError when there is none."""
        pieces = self._next(request)
        if self._on_request is not None:
            seen = self._on_request(request)
            if inspect.isawaitable(seen):
                await seen
        async with aclosing(play(pieces, self._ids)) as events:
            async for event in events:
                yield event

    def _next(self, request: ModelRequest) -> Sequence[Piece]:
        with self._lock:
            self.requests.append(request)
            if self._steps:
                return self._steps.popleft()
        last = request.messages[-1] if request.messages else None
        raise ScriptError(
            f"model call {len(self.requests)} has no step: the script has {self._size}; the last message is {last!r}"
        )


class CallIds:
    """Makes the ids of calls that have none; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """The next id."""
        with self._lock:
            self._last += 1
            return f"call_{self._last}"


async def play(pieces: Iterable[Piece] | AsyncIterable[Piece], ids: CallIds) -> AsyncGenerator[ModelEvent, None]:
    """The model stream that ``pieces`` describe, closed by the response that they add up to."""
    answer = _Answer(ids)
    async with aclosing(pieces if isinstance(pieces, AsyncGenerator) else _one_by_one(pieces)) as each:
        async for piece in each:
            match piece:
                case Failure():
                    raise piece.error
                case Stall():
                    piece.reached.set()
                    await piece.released.wait()
                case End():
                    return
                case _:
                    for event in answer.take(piece):
                        yield event
    if not answer.responded:
        yield ModelEvent.completed(answer.response())


def _message_pieces(message: AssistantMessage) -> tuple[Piece, ...]:
    head: list[ModelEvent] = []
    if message.reasoning:
        head += map(ModelEvent.reasoning, _words((message.reasoning,)))
    if message.content:
        head += map(ModelEvent.text, _words((message.content,)))
    return (Deltas((*head, ModelEvent.completed(ModelResponse(message, stop=message.stop)))),)


class _Answer:
    """What the pieces of a step add up to."""

    def __init__(self, ids: CallIds) -> None:
        self.responded = False
        self._ids = ids
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._usage = ModelUsage()
        self._stop: str | StopReason | StopInfo | None = None

    def take(self, piece: Piece) -> Iterable[ModelEvent]:
        match piece:
            case Text():
                self._text += piece.deltas
                return map(ModelEvent.text, piece.deltas)
            case Reasoning():
                self._reasoning += piece.deltas
                return map(ModelEvent.reasoning, piece.deltas)
            case Call():
                return self._take_call(piece)
            case ToolCall():
                self._calls.append(piece)
            case Deltas():
                self.responded |= any(event.type is ModelEventType.RESPONSE for event in piece.events)
                return piece.events
            case ModelUsage():
                self._usage = piece
            case Stop():
                self._stop = piece.reason
            case _:
                raise TypeError(f"a step is made of pieces such as text() and call(), not of {type(piece).__name__}")
        return ()

    def _take_call(self, piece: Call) -> Iterable[ModelEvent]:
        index = len(self._calls)
        done = ToolCall(piece.id or self._ids.next(), piece.name, piece.arguments)
        self._calls.append(done)
        if not piece.fragments:
            return ()
        first, *rest = piece.fragments
        return [
            ModelEvent.tool_call(ToolCallDelta(index, done.id, done.name, first)),
            *(ModelEvent.tool_call(ToolCallDelta(index, arguments_delta=part)) for part in rest if part),
        ]

    def response(self) -> ModelResponse:
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning) or None,
            tool_calls=tuple(self._calls),
        )
        reason = self._stop
        if isinstance(reason, StopReason):
            reason = StopInfo(reason)
        if isinstance(reason, StopInfo):
            return ModelResponse(message, reason.raw, self._usage, reason)
        return ModelResponse(message, reason, self._usage)


async def _one_by_one(pieces: Iterable[Piece] | AsyncIterable[Piece]) -> AsyncGenerator[Piece, None]:
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
    else:
        for piece in pieces:
            yield piece


def whole_step(step: str | AssistantMessage) -> tuple[Piece, ...]:
    """The pieces of a step that is given as text or as a message."""
    return (text(step),) if isinstance(step, str) else _message_pieces(step)


def _pieces(step: Step) -> Sequence[Piece]:
    if isinstance(step, str | AssistantMessage):
        return whole_step(step)
    if isinstance(step, list | tuple):
        return tuple(step)
    return (step,)  # type: ignore[return-value]  # a single piece; ``play`` refuses what is none


def _words(deltas: tuple[str, ...]) -> tuple[str, ...]:
    """One string as its words, each with the white space before it; several strings as they are."""
    if len(deltas) != 1:
        return deltas
    return tuple(re.findall(r"\s*\S+|\s+$", deltas[0])) or deltas
