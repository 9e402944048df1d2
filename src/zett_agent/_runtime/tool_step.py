"""The tool step: every call of a response gets exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from zett_agent._runtime.call import Batch, CallRun, enter_running
from zett_agent._runtime.faults import Interrupted, request_failure
from zett_agent._runtime.repeats import RepeatGuard
from zett_agent._runtime.run import Run
from zett_agent._runtime.supervisor import STOP_BOUND, failure, join, start_task, stop_tasks
from zett_agent._runtime.transcript import failed_result
from zett_agent.events import AgentEventType
from zett_agent.exceptions import AgentIterationLimitError, AgentRepeatError
from zett_agent.messages import AgentMessage, AssistantMessage, ToolCall, UserMessage
from zett_agent.stop import StopReason
from zett_agent.tools.base import ToolExecutionMode

#: Turns in a row that may be cut off within their calls, or name only unknown tools, before the request fails.
MAX_TRUNCATED_TURNS = 3
MAX_UNKNOWN_TURNS = 5

_CUT = frozenset({StopReason.MAX_OUTPUT, StopReason.CONTEXT_FULL, StopReason.OTHER})

SUPERSEDED = "Not run: a newer message of the user came first."
REPEATED = (
    "Not run: you have made this very call {} times without trying anything new. "
    "Use what it told you, or do something else."
)
CUT_OFF = "Not run: the response was cut off, so the call may be incomplete. Send it again, shorter if you can."


async def tool_step(run: Run, message: AssistantMessage) -> None:
    """Settle every open call of ``message``: run it, skip it for a steering message, or refuse it when it was cut off.

    The history says which calls these are: it is what must be paired, whatever a hook has made of the message.
    """
    calls: Sequence[ToolCall] = run.transcript.open_calls
    if await redirected(run, calls):
        return
    if message.stop is not None and message.stop.reason in _CUT:
        await _refuse_cut_calls(run, calls)
        return
    run.truncated_turns = 0
    _count_unknown(run, calls)
    if run.repeats is not None:
        calls = await _without_repeated(run, run.repeats, calls)
    parallel = [call for call in calls if _is_parallel(run, call)]
    serial = [call for call in calls if not _is_parallel(run, call)] if len(parallel) < len(calls) else []
    if parallel:
        await _run_batch(run, parallel)
    for position, call in enumerate(serial):
        if await redirected(run, serial[position:]):
            return
        await _run_batch(run, [call])
    _check_progress(run)
    await redirected(run, ())


async def redirected(run: Run, left: Sequence[ToolCall]) -> bool:
    """Take a waiting steering message, if there is one: skip the calls that are left and append it.

    The consumer has seen all that was done before: who steers at what he sees stops what comes next.
    """
    await run.channel.drained()
    if not run.inbox.has_steering:
        return False
    await interrupt(run)
    await _skip(run, left, SUPERSEDED)
    # Taken only now: nothing is awaited from here until it is in the history, so neither cancel nor hook can lose it.
    steering = run.inbox.take_steering()
    assert steering is not None, "only the request itself takes what waits"
    await accept_steering(run, steering)
    return True


async def accept_steering(run: Run, message: UserMessage) -> None:
    """Make ``message`` the input that the next turn answers."""
    await run.append(message)
    run.begin_input(message)
    await run.tell(AgentEventType.STEERING_STARTED, steering_message=message)


async def interrupt(run: Run) -> None:
    """Tell that the input which was being answered is given up."""
    active, run.active_input = run.active_input, None
    if isinstance(active, UserMessage):
        await run.tell(AgentEventType.STEERING_INTERRUPTED, steering_message=active)
    elif isinstance(active, AgentMessage):
        await run.tell(AgentEventType.INTERNAL_MESSAGE_INTERRUPTED, internal_message=active)


def _is_parallel(run: Run, call: ToolCall) -> bool:
    tool = run.context.tools.get(call.name)
    return tool is not None and tool.execution_mode is ToolExecutionMode.PARALLEL and run.settings.parallel_tool_call


def _count_unknown(run: Run, calls: Sequence[ToolCall]) -> None:
    known = any(call.name in run.context.tools for call in calls)
    run.unknown_turns = 0 if known else run.unknown_turns + 1


def _check_progress(run: Run) -> None:
    """Fail a request whose model goes in circles; every call of the turn has its result."""
    turns = run.unknown_turns
    if turns > MAX_UNKNOWN_TURNS:
        text = f"{turns} turns in a row named only tools that do not exist"
        raise AgentIterationLimitError(text, limit="unknown_turns", value=turns)
    if run.repeats is not None and run.repeats.exhausted is not None:
        most = run.limits.max_repeats
        raise AgentRepeatError(
            f"the model made the same call of {run.repeats.exhausted!r} again after max_repeats={most} times and a "
            "warning; @tool(repeatable=True) lets a tool be polled",
            limit="max_repeats",
            value=most,
        )


async def _without_repeated(run: Run, guard: RepeatGuard, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
    """Refuse the calls that came back too often, telling the model so, and return the others."""
    tools = run.context.tools
    watched = [call for call in calls if call.name not in tools or not tools[call.name].repeatable]
    refused = guard.refused(watched)
    if refused:
        await _skip(run, [call for call in calls if call.id in refused], REPEATED.format(run.limits.max_repeats))
    return [call for call in calls if call.id not in refused]


async def _skip(run: Run, calls: Sequence[ToolCall], text: str) -> None:
    for call in calls:
        result = failed_result(call, text)
        await run.append(result)
        await run.tell(AgentEventType.TOOL_SKIPPED, tool_calls=[call], message=result)


async def _refuse_cut_calls(run: Run, calls: Sequence[ToolCall]) -> None:
    await _skip(run, calls, CUT_OFF)
    run.truncated_turns += 1
    if run.truncated_turns >= MAX_TRUNCATED_TURNS:
        text = f"{run.truncated_turns} responses in a row were cut off within their tool calls"
        raise AgentIterationLimitError(text, limit="truncated_turns", value=run.truncated_turns)


async def _run_batch(run: Run, calls: Sequence[ToolCall]) -> None:
    run.check_wanted()
    limit = run.limits.max_parallel_calls
    batch = Batch(asyncio.Semaphore(limit) if len(calls) > limit else None, len(calls))
    pipelines = [CallRun(run, call, batch) for call in calls]
    if batch.slots is None and not run.hooks.before_tool:
        # Nothing can hold one of them back, so they start together and wait for the consumer once.
        await enter_running(run, len(pipelines))
        for pipeline in pipelines:
            pipeline.start()
        await run.channel.drained()
    tasks = [start_task(pipeline.complete(), f"zett call {pipeline.call.id}") for pipeline in pipelines]
    batch.tasks = tasks
    try:
        if await batch.all_well():
            return
    except asyncio.CancelledError:
        batch.stopping = True
        await stop_tasks(tasks)
        raise
    await _stop_siblings(batch, pipelines, tasks)
    errors = [error for task in tasks if (error := failure(task)) is not None]
    for error in errors:
        if isinstance(error, Interrupted):
            raise error.interrupt
    if errors:
        raise errors[0]
    raise request_failure(asyncio.CancelledError())  # somebody else cancelled a call before its first step


async def _stop_siblings(batch: Batch, pipelines: Sequence[CallRun], tasks: Sequence[asyncio.Task[None]]) -> None:
    """After a hook failed: let calls whose handler has ended keep their result, cancel the others."""
    running = [(pipeline, task) for pipeline, task in zip(pipelines, tasks, strict=True) if not task.done()]
    if running:
        batch.stopping = True
        await stop_tasks([task for pipeline, task in running if not pipeline.settling])
        await join([task for _, task in running], STOP_BOUND)
