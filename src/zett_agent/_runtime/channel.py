"""From the asyncio task of a request to whoever iterates its stream."""

from __future__ import annotations

import asyncio

from zett_agent.events import TERMINAL_EVENTS, AgentEvent
from zett_agent.exceptions import AgentProtocolError

#: Events that may wait for a consumer before a producer of deltas parks (docs/design/001).
HIGH_WATER = 1_024


class Channel:
    """Events in order, from any number of producers on one loop to one consumer.

    ``send`` never waits. A producer that sends much awaits ``drained()`` when ``send`` says so, and every producer
    awaits it before an effect: it returns when the consumer has taken what was sent and asks for more, or has left.
    After ``close()`` by the consumer events are dropped and nobody waits, so a hook may emit while a request is being
    cancelled.
    """

    __slots__ = ("_closed", "_error", "_finished", "_getter", "_loop", "_parked", "queue")

    def __init__(self) -> None:
        self.queue: list[AgentEvent] = []
        self._getter: asyncio.Future[None] | None = None
        self._parked: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._finished = False
        self._error: BaseException | None = None

    @property
    def closed(self) -> bool:
        """True when nothing can be put any more."""
        return self._closed

    @property
    def finished(self) -> bool:
        """True when the producer has nothing more to say."""
        return self._finished

    @property
    def empty(self) -> bool:
        """True when the consumer has taken everything."""
        return not self.queue

    def send(self, event: AgentEvent) -> bool:
        """Queue ``event``; True asks the producer to await ``drained()`` before it sends more."""
        if self._closed:
            return False
        self.queue.append(event)
        if self._getter is not None:
            self._wake(self._getter)
        return len(self.queue) >= HIGH_WATER

    def take(self) -> list[AgentEvent]:
        """For the consumer: everything that waits; the queue begins anew."""
        taken, self.queue = self.queue, []
        return taken

    async def drained(self) -> None:
        """Wait until the consumer has taken everything and asks for more, or has left."""
        if self.closed or (not self.queue and self._getter is not None):
            return
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        await parked

    async def more(self) -> bool:
        """For the consumer: True when ``queue`` has something, False at the end; raises what the producer raised.

        AgentProtocolError on another event loop than before: nothing here can wake a consumer there.
        """
        if not self.queue and not self._finished:
            loop = asyncio.get_running_loop()
            if self._loop is not loop:
                self._bind(loop)
            getter = self._getter = loop.create_future()
            if self._parked:
                self._release()
            try:
                await getter
            finally:
                self._getter = None
        if self.queue:
            return True
        if self._error is not None:
            raise self._error
        return not self._finished

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            raise AgentProtocolError("a stream must be read on the event loop where its first event was asked for")
        self._loop = loop

    def finish(self, error: BaseException | None = None) -> None:
        """For the producer: nothing follows; the consumer gets what is queued, then ``error`` if there is one."""
        if not self._finished:
            self._finished, self._closed, self._error = True, True, error  # what is said later is said to nobody
            if self._getter is not None:
                self._wake(self._getter)
            self._release()

    def close(self) -> None:
        """For the consumer: nothing more will be taken."""
        self._closed = True
        self.queue.clear()
        self._release()

    async def put(self, event: AgentEvent) -> None:
        """Queue ``event``, waiting while the queue is full; AgentProtocolError after the end."""
        if self.closed:
            raise AgentProtocolError(f"the stream has ended; {event.type.value} cannot be put")
        if self.send(event):
            await self.drained()

    async def get(self) -> AgentEvent:
        """The next event; raises the producer's error, AgentProtocolError at an end without an outcome."""
        if not self.queue and not await self.more():
            raise AgentProtocolError("the stream ended without a terminal event")
        event = self.queue.pop(0)
        if event.type in TERMINAL_EVENTS:
            self.finish()
        return event

    def _wake(self, getter: asyncio.Future[None]) -> None:
        self._getter = None
        if not getter.done():  # else the consumer was cancelled, and has not run since
            getter.set_result(None)

    def _release(self) -> None:
        parked, self._parked = self._parked, []
        for future in parked:
            if not future.done():
                future.set_result(None)
