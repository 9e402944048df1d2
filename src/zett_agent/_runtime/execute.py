"""One request from start to outcome: the only place that owns a request's cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from zett_agent._runtime.closing import cancel, complete, fail, finish_pass
from zett_agent._runtime.faults import request_failure
from zett_agent._runtime.hooks import each
from zett_agent._runtime.loop import run_turns
from zett_agent._runtime.opening import Compaction, Inspection, Start, inspect, load_context, take_input
from zett_agent._runtime.run import LOG, Run, StopAfterTurn
from zett_agent._runtime.supervisor import CLOSE_BOUND, name_late
from zett_agent.storage.base import SessionStore


async def execute(run: Run, start: Start, store: SessionStore | None) -> None:
    """Run ``start`` to exactly one outcome; what the consumer must see, an error included, goes through the channel."""
    error: BaseException | None = None
    try:
        error = await _outcome(run, start, store)
    finally:
        run.channel.finish(error)  # from here on nobody may cancel: what is left is to give things back
        await _release(run)


async def _outcome(run: Run, start: Start, store: SessionStore | None) -> BaseException | None:
    try:
        if run.cancel_requested:  # before the first step: an asyncio task that is cancelled then would never begin
            raise asyncio.CancelledError
        if await _begin(run, start, store):
            await complete(run, await run_turns(run))
        return None
    except StopAfterTurn:
        await cancel(run)
        return None
    except GeneratorExit:
        raise  # the loop is gone: nothing can be awaited any more
    except BaseException as raised:
        if run.phase.ended:  # it did not stop within its bound and was given up: nobody is there to be told
            return None
        if run.broken is None and isinstance(raised, asyncio.CancelledError) and _is_an_order(run):
            await cancel(run)
            return None
        error = run.broken or request_failure(raised)
        await fail(run, error)
        return error


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
    stopped = [_stopped(run, run.producer) for run in runs if run.producer is not None]
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


async def _release(run: Run) -> None:
    if run.supervisor is not None:
        await run.supervisor.stop()
    if run.journal is not None:
        try:
            await run.journal.release()
        except Exception as failure:
            LOG.warning("the session's lease was not given back: %s", failure, exc_info=failure)
