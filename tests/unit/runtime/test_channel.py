"""The channel between a request and its consumer."""

from __future__ import annotations

import asyncio

import pytest

from zett_agent._runtime.channel import HIGH_WATER, Channel
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentProtocolError


def event(kind: AgentEventType = AgentEventType.TEXT_DELTA, delta: str = "") -> AgentEvent:
    return AgentEvent(kind, "s", delta=delta)


END = event(AgentEventType.RUN_COMPLETED)


async def test_events_come_out_in_the_order_they_went_in() -> None:
    channel = Channel()
    for delta in "abc":
        assert channel.send(event(delta=delta)) is False
    assert not channel.empty
    assert [(await channel.get()).delta for _ in range(3)] == ["a", "b", "c"]
    assert channel.empty


async def test_sending_never_waits_and_says_when_it_is_time_to() -> None:
    channel = Channel()
    assert [channel.send(event()) for _ in range(HIGH_WATER)] == [False] * (HIGH_WATER - 1) + [True]
    assert channel.send(event()) is True


async def test_drained_waits_until_the_consumer_asks_for_more() -> None:
    channel = Channel()
    channel.send(event(delta="a"))
    drained = asyncio.ensure_future(channel.drained())
    await asyncio.sleep(0)
    assert (await channel.get()).delta == "a"
    await asyncio.sleep(0)
    assert not drained.done(), "taken, but nothing more is asked for"
    asking = asyncio.ensure_future(channel.more())
    await drained
    await channel.drained()  # the consumer waits: at once
    channel.finish()
    assert await asking is False


async def test_several_producers_are_released_together() -> None:
    channel = Channel()
    channel.send(event())
    waiting = [asyncio.ensure_future(channel.drained()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    channel.queue.clear()
    asking = asyncio.ensure_future(channel.more())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True] * 3
    channel.finish()
    await asking


async def test_the_end_gives_what_is_queued_and_then_the_error() -> None:
    channel = Channel()
    channel.send(event(delta="a"))
    channel.finish(RuntimeError("over"))
    channel.finish(RuntimeError("a second end changes nothing"))
    assert channel.closed and channel.finished
    assert (await channel.get()).delta == "a"
    with pytest.raises(RuntimeError, match="over"):
        await channel.get()
    await channel.drained()


async def test_a_consumer_that_left_is_not_waited_for() -> None:
    channel = Channel()
    channel.send(event())
    waiting = asyncio.ensure_future(channel.drained())
    await asyncio.sleep(0)
    channel.close()
    await waiting
    assert channel.closed and not channel.finished and channel.empty
    assert channel.send(event()) is False
    assert channel.empty
    await channel.drained()


async def test_a_consumer_that_is_cancelled_while_it_asks_may_ask_again() -> None:
    channel = Channel()
    asking = asyncio.ensure_future(channel.more())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    channel.send(event(delta="a"))
    assert (await channel.get()).delta == "a"


async def test_the_queue_of_the_interface_refuses_after_the_end() -> None:
    channel = Channel()
    await channel.put(event(delta="a"))
    await channel.put(END)
    assert (await channel.get()).delta == "a"
    assert await channel.get() is END
    with pytest.raises(AgentProtocolError, match="the stream has ended; text_delta cannot be put"):
        await channel.put(event())
    with pytest.raises(AgentProtocolError, match="ended without a terminal event"):
        await channel.get()


async def test_putting_waits_while_the_queue_is_full() -> None:
    channel = Channel()
    for _ in range(HIGH_WATER - 1):
        await channel.put(event())
    putting = asyncio.ensure_future(channel.put(event()))
    await asyncio.sleep(0)
    assert not putting.done()
    for _ in range(HIGH_WATER):
        await channel.get()
    asking = asyncio.ensure_future(channel.get())
    await putting
    channel.send(END)
    assert await asking is END


@pytest.mark.parametrize("last", [False, True])
async def test_a_consumer_that_was_cancelled_and_has_not_run_since_is_in_nobodys_way(last: bool) -> None:
    channel = Channel()
    asking = asyncio.ensure_future(channel.more())
    await asyncio.sleep(0)
    asking.cancel()
    channel.finish() if last else channel.send(END)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await channel.more() is not last


def test_a_consumer_on_a_second_event_loop_is_refused_before_it_could_wait_for_ever() -> None:
    async def ask(channel: Channel) -> None:
        await asyncio.wait({asyncio.ensure_future(channel.more())}, timeout=0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def refused(channel: Channel) -> None:
        with pytest.raises(AgentProtocolError, match="on the event loop where its first event was asked for"):
            await channel.more()

    channel = Channel()
    asyncio.run(ask(channel))
    asyncio.run(refused(channel))
