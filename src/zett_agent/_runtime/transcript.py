"""The history of a request: its only writer, and the immutable view that everybody else gets."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import overload

from zett_agent.exceptions import AgentProtocolError
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    check_message,
)

_KINDS = frozenset({SystemMessage, UserMessage, AssistantMessage, ToolMessage, AgentMessage})

OUTCOME_UNKNOWN = (
    "The outcome of this call is unknown: the process stopped before it was recorded. "
    "Check the state of things before you run it again."
)


class History(Sequence[AnyMessage]):
    """An immutable view of the first messages of a transcript; it shares the messages and costs nothing to make."""

    __slots__ = ("_items", "_length", "ids")

    def __init__(self, items: list[AnyMessage], ids: set[str]) -> None:
        self._items = items
        self._length = len(items)
        self.ids = ids

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[AnyMessage]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> AnyMessage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AnyMessage, ...]: ...
    def __getitem__(self, index: int | slice) -> AnyMessage | tuple[AnyMessage, ...]:
        if isinstance(index, slice):
            return tuple(self._items[position] for position in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._items[index if index >= 0 else self._length + index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History | tuple | list):
            return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))
        return NotImplemented

    def __add__(self, other: Iterable[AnyMessage]) -> tuple[AnyMessage, ...]:
        return (*self, *other)

    def __radd__(self, other: Iterable[AnyMessage]) -> tuple[AnyMessage, ...]:
        return (*other, *self)

    __hash__ = None  # type: ignore[assignment]  # like the messages in it

    def __repr__(self) -> str:
        return f"History({list(self)!r})"


class Transcript:
    """The message list of a request, with the pairing of calls and results kept by an index, not by scanning.

    Results stand directly after their assistant message in call order, in whatever order they arrive. A message that
    arrives while calls are open follows after their results. Views that were handed out never change.
    """

    __slots__ = ("_after", "_batch_at", "_ids", "_items", "_open", "_restored_to", "_settled", "_viewed", "rewritten")

    def __init__(self, messages: Iterable[AnyMessage] = ()) -> None:
        self._reset()
        #: True once the restored part was changed: what it was restored from no longer matches it.
        self.rewritten = False
        self._ids: set[str] = set()
        self._restored_to = 0
        for message in messages:
            self.adopt(message)

    def _reset(self) -> None:
        self._items: list[AnyMessage] = []
        self._viewed = 0
        self._open: dict[str, tuple[int, ToolCall]] = {}
        self._settled: list[int] = []
        self._batch_at = 0
        self._after: list[AnyMessage] = []

    def __len__(self) -> int:
        return len(self._items)

    def view(self) -> History:
        """The messages as they are now; later changes do not show in it."""
        self._viewed = len(self._items)
        return History(self._items, self._ids)

    @property
    def last(self) -> AnyMessage | None:
        """The newest message."""
        return self._items[-1] if self._items else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls that have no result yet, in call order."""
        return tuple(call for _, call in self._open.values())

    def knows_call(self, call_id: str) -> bool:
        """True when a call of the session has used this id."""
        return call_id in self._ids

    def follow(self, call: ToolCall) -> None:
        """Let ``open_calls`` show ``call`` as it is worked on; the message keeps what the model said."""
        order, _ = self._open[call.id]
        self._open[call.id] = order, call

    def append(self, message: AnyMessage) -> None:
        """Add ``message`` at its place; AgentProtocolError for a result that no open call waits for.

        TypeError for what no provider could send: a history that holds it once would fail every later request.
        """
        if type(message) not in _KINDS or type(message.content) is not str:
            check_message(message)
        if isinstance(message, ToolMessage):
            self._settle(message)
        elif self._open:
            self._after.append(message)
        else:
            if isinstance(message, AssistantMessage) and message.tool_calls:
                self._open_batch(message)
            self._items.append(message)

    def insert(self, index: int, message: AnyMessage) -> None:
        """Put ``message`` before position ``index``, or after the results that stand there."""
        check_message(message)
        if isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls):
            raise AgentProtocolError("calls and their results can only be appended")
        size = len(self._items)
        index = max(0, size + index) if index < 0 else min(index, size)
        while index < size and isinstance(self._items[index], ToolMessage):
            index += 1
        if index == size:
            self.append(message)
            return
        self._own(index)
        self._items.insert(index, message)
        self._batch_at += index <= self._batch_at
        if index < self._restored_to:
            self._restored_to += 1
            self.rewritten |= not isinstance(message, SystemMessage)

    def replace(self, messages: Iterable[AnyMessage]) -> None:
        """Take ``messages`` as the history; what breaks the pairing in it is repaired, see ``adopt``."""
        taken = list(messages)
        for message in taken:
            check_message(message)
        self._reset()
        self._restored_to = 0
        self.rewritten = True
        for message in taken:
            self.adopt(message)

    def restore(self, earlier: Sequence[AnyMessage]) -> None:
        """Put the session's earlier messages behind the leading system messages."""
        history = earlier if isinstance(earlier, History) else Transcript(earlier).view()
        head = next(
            (at for at, message in enumerate(self._items) if not isinstance(message, SystemMessage)), len(self._items)
        )
        added, self._items = self._items[head:], [*self._items[:head], *history]
        self._restored_to = len(self._items)
        self._viewed = 0
        self._ids = history.ids
        if isinstance(self.last, ToolMessage | AssistantMessage):
            self._reopen()
        for message in added:
            self.adopt(message)

    def settle_open(self, text: str) -> list[ToolMessage]:
        """Close every open call with a failed result of ``text`` and return the results."""
        results = [failed_result(call, text) for call in self.open_calls]
        for result in results:
            self.append(result)
        return results

    def drop_unanswered_input(self) -> None:
        """Remove the user messages at the end of the restored history that no model has answered."""
        at = self._restored_to - 1
        doomed = []
        while at >= 0 and isinstance(self._items[at], UserMessage | AgentMessage):
            if isinstance(self._items[at], UserMessage):
                doomed.append(at)
            at -= 1
        if doomed:
            self._own(doomed[-1])
        for position in doomed:
            del self._items[position]
            self._restored_to -= 1
            self._batch_at -= position < self._batch_at

    def since_restored(self) -> Sequence[AnyMessage]:
        """What joined the history since it was restored."""
        return self._items[self._restored_to :]

    def mark_restored(self) -> None:
        """Take everything up to here as restored history."""
        self._restored_to = len(self._items)

    def take_over(self, messages: Sequence[AnyMessage], ids: set[str]) -> None:
        """Append ``messages`` as they are, the end of a transcript without open calls; ``ids`` are its call ids."""
        if self._open:
            self.settle_open(OUTCOME_UNKNOWN)
        self._items += messages
        if ids is not self._ids:
            self._ids |= ids

    def adopt(self, message: AnyMessage) -> None:
        """Append a message of unknown origin: stray results are dropped, calls left open in the middle are closed."""
        if isinstance(message, ToolMessage):
            if message.tool_call_id in self._open:
                self._settle(message)
            return
        if self._open and not isinstance(message, SystemMessage):
            self.settle_open(OUTCOME_UNKNOWN)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            message = _with_distinct_calls(message)
        self.append(message)

    def _open_batch(self, message: AssistantMessage) -> None:
        opened = {call.id: (order, call) for order, call in enumerate(message.tool_calls)}
        if len(opened) != len(message.tool_calls):
            raise AgentProtocolError("the calls of one message must have distinct ids")
        self._batch_at = len(self._items)
        self._settled = []
        self._open = opened
        self._ids.update(self._open)

    def _settle(self, result: ToolMessage) -> None:
        if result.tool_call_id not in self._open:
            raise AgentProtocolError(f"no open call has the id {result.tool_call_id!r}")
        order, _ = self._open.pop(result.tool_call_id)
        before = bisect(self._settled, order)
        self._settled.insert(before, order)
        at = self._batch_at + 1 + before
        if at == len(self._items):
            self._items.append(result)
        else:
            self._own(at)
            self._items.insert(at, result)
        if not self._open:
            after, self._after = self._after, []
            for message in after:
                self.append(message)

    def _reopen(self) -> None:
        """Find calls at the end of a restored history that have no result; looks at the last batch only."""
        at = len(self._items) - 1
        while isinstance(self._items[at], ToolMessage):
            at -= 1
        message, *results = self._items[at:]
        if isinstance(message, AssistantMessage) and len(message.tool_calls) > len(results):
            del self._items[at:]
            for known in (message, *results):
                self.append(known)

    def _own(self, at: int) -> None:
        """Before a change at ``at``: leave the list to the views that show that place, go on with a copy."""
        if at < self._viewed:
            self._items = list(self._items)
            self._viewed = 0


def failed_result(call: ToolCall, text: str) -> ToolMessage:
    """A result that the runtime writes for a call that has none of its own."""
    return ToolMessage(tool_call_id=call.id, name=call.name, content=text, success=False)


def _with_distinct_calls(message: AssistantMessage) -> AssistantMessage:
    distinct: dict[str, ToolCall] = {}
    for call in message.tool_calls:
        distinct.setdefault(call.id, call)
    if len(distinct) == len(message.tool_calls):
        return message
    return replace(message, tool_calls=tuple(distinct.values()))
