"""One request from start to outcome: the only place that owns a request's cancellation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

from zett_agent._runtime.clock import CURRENT_CLOCK, Clock
from zett_agent._runtime.closing import cancel, complete, fail, finish_pass
from zett_agent._runtime.faults import request_failure, thrown_away
from zett_agent._runtime.hooks import each
from zett_agent._runtime.loop import run_turns
from zett_agent._runtime.opening import Compaction, Inspection, Start, inspect, load_context, take_input
from zett_agent._runtime.run import LOG, Run, StopAfterTurn
from zett_agent._runtime.supervisor import CLOSE_BOUND, join, name_late, start_task
from zett_agent.events import AgentPhase
from zett_agent.storage.base import SessionStore

#: The requests within which code runs, by their ids, so that nothing of them is kept.
_WITHIN: ContextVar[tuple[str, ...]] = ContextVar("zett_agent_within", default=())


def produce(run: Run, start: Start, store: SessionStore | None) -> None:
    """Start the asyncio task that executes ``start``; whoever calls this awaits ``finished`` before it ends."""
    unbegun = run.unbegun = partial(_replace_unbegun, run, start, store)
    run.producer = start_task(execute(run, start, store), f"zett request {run.context.request_id}")
    run.producer.add_done_callback(unbegun)


async def finished(run: Run, start: Start, store: SessionStore | None) -> None:
    """Nobody reads any more: stop the request unless it has ended, and wait for its asyncio task within a bound."""
    producer = run.producer
    if run.elsewhere:
        _leave_there(run)
        return
    _leave(run)
    assert producer is not None, "this is the loop where it runs"
    try:
        await join([producer], CLOSE_BOUND)
    finally:
        _replace_unbegun(run, start, store, producer)
        if run.producer is not None and run.producer is not producer:
            await join([run.producer], CLOSE_BOUND)


async def leaving(run: Run) -> None:
    """Wait for a request that is being closed, within a bound; one that goes on is left alone.

    Code within that request is not kept, it would wait for itself. Who leaves a stream by ``break`` has closed nothing
    yet: Python does that, two rounds of the event loop later.
    """
    if run.lost or run.elsewhere or run.context.request_id in _WITHIN.get():
        return
    for _ in range(3):
        if not run.cancel_requested:
            await asyncio.sleep(0)
    if run.cancel_requested and run.producer is not None:
        await asyncio.wait({run.producer}, timeout=CLOSE_BOUND)


def _leave(run: Run) -> None:
    run.channel.close()
    run.cancel()


def _leave_there(run: Run) -> None:
    """Stop a request on its own event loop, and leave it to that."""
    run.call_home(_leave, run)


def _replace_unbegun(run: Run, start: Start, store: SessionStore | None, producer: asyncio.Task[None]) -> None:
    """An asyncio task that is cancelled before its first step does nothing: another one gives the request its end."""
    if run.producer is producer and producer.cancelled() and run.phase.current is AgentPhase.CREATED:
        run.cancel_requested = True
        produce(run, start, store)


async def execute(run: Run, start: Start, store: SessionStore | None) -> None:
    """Run ``start`` to exactly one outcome; what the consumer must see, an error included, goes through the channel."""
    run.begin(asyncio.current_task())
    _WITHIN.set((*_WITHIN.get(), run.context.request_id))  # this asyncio task's own variable, and its children's
    error: BaseException | None = None
    try:
        error = await _outcome(run, start, store)
    except GeneratorExit as raised:
        if thrown_away(raised, (run.producer,)):
            raise
        error = await _failed(run, raised)
    finally:
        if not run.lost:
            run.channel.finish(error)  # from here on nobody may cancel: what is left is to give things back
        try:
            await _give_back(run)
        finally:
            if run.released is not None and run.phase.ended:
                run.released(run)  # and not at the end of the stream: whoever reads it may have stopped reading


async def _outcome(run: Run, start: Start, store: SessionStore | None) -> BaseException | None:
    try:
        if run.cancel_requested:  # before the first step: an asyncio task that is cancelled then would never begin
            raise asyncio.CancelledError
        clock = run.clock = _start_clock(run)
        try:
            if await _begin(run, start, store):
                await complete(run, await run_turns(run))
        finally:
            if clock is not None:
                clock.stop()
        return None
    except StopAfterTurn:
        await cancel(run)
        return None
    except GeneratorExit:
        raise  # Python may be closing this very coroutine, which then must not await anything
    except BaseException as raised:
        if run.phase.ended:  # it did not stop within its bound and was given up: nobody is there to be told
            return None
        if run.broken is None and isinstance(raised, asyncio.CancelledError) and _is_an_order(run):
            await cancel(run)
            return None
        return await _failed(run, raised)


async def _failed(run: Run, raised: BaseException) -> BaseException:
    error = run.broken or request_failure(raised)
    await fail(run, error)
    return error


def _start_clock(run: Run) -> Clock | None:
    """The clock of a request that has a deadline, or that runs within one that has: what waits there waits here."""
    above, seconds = CURRENT_CLOCK.get(), run.limits.deadline
    if above is None and seconds is None:
        return None
    clock = Clock(seconds, run.strike, counts_waits=run.limits.deadline_counts_waits, above=above)
    run.waitbook.watcher = clock
    CURRENT_CLOCK.set(clock)  # for what this asyncio task starts; nobody else sees it
    return clock


async def _begin(run: Run, start: Start, store: SessionStore | None) -> bool:
    """Take the request to where the model is next; False when it is a pass that needs no model, and is done."""
    await load_context(run, start, store)
    if isinstance(start, Inspection):
        inspect(run, start)
        await finish_pass(run)
        return False
    await take_input(run, start)
    if isinstance(start, Compaction):
        await each(run.hooks.on_compact, run.context)
        await finish_pass(run)
        return False
    return True


async def stop_requests(runs: Iterable[Run]) -> None:
    """Stop ``runs`` and wait for them within a bound. A cancel ends the wait: one of them may be the caller's own."""
    here = [run for run in runs if run.pid == os.getpid()]
    stopped = [_stopped(run, run.producer) for run in here if run.producer is not None]
    ends = {end for end in stopped if end is not None and end is not asyncio.current_task()}
    if ends:
        _, late = await asyncio.wait(ends, timeout=CLOSE_BOUND)
        name_late((end for end in late if isinstance(end, asyncio.Task)), CLOSE_BOUND)


def _stopped(run: Run, producer: asyncio.Task[None]) -> asyncio.Future[None] | None:
    """Stop ``run`` on the loop where it is; what is done at its end, None when that loop is closed."""
    home = producer.get_loop()
    if home is asyncio.get_running_loop():
        run.cancel()
        return producer
    ended: Future[None] = Future()

    def tell(_: asyncio.Task[None]) -> None:
        with suppress(InvalidStateError):  # whoever waited has left
            ended.set_result(None)

    def stop() -> None:
        run.cancel()
        producer.add_done_callback(tell)

    try:
        home.call_soon_threadsafe(stop)  # one visit: after a second thought that loop may be closed
    except RuntimeError:
        LOG.warning("%s belongs to an event loop that is closed", producer.get_name())
        return None
    return asyncio.wrap_future(ended)


def _is_an_order(run: Run) -> bool:
    """Whether a CancelledError came because somebody stops the request: ``stop()``, the consumer, the loop's end."""
    task = asyncio.current_task()
    return run.cancel_requested or (task is not None and task.cancelling() > 0)


async def _give_back(run: Run) -> None:
    if run.supervisor is not None:
        await run.supervisor.stop()
    if run.journal is not None:
        try:
            await run.journal.release()
        except Exception as failure:
            LOG.warning("the session's lease was not given back: %s", failure, exc_info=failure)
