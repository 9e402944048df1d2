"""One call, one pipeline: gate, start, execute, settle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from zett_agent._runtime.hooks import each
from zett_agent._runtime.output import Mark
from zett_agent._runtime.run import Run
from zett_agent._runtime.supervisor import join, stop_tasks
from zett_agent.context import ToolContext
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import ToolArgumentsError, ToolError, ToolTimeoutError, ToolUnknownError
from zett_agent.extensions.events import MessageTiming
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.tools.arguments import utf8_text
from zett_agent.tools.base import CURRENT_CALL, AgentTool, Prepared, ToolResult
from zett_agent.tools.results import result_content

#: Seconds that a timed-out async tool has for its own clean-up before it is left alone.
TIMEOUT_GRACE = 2.0


class Batch:
    """What the calls that run side by side have in common."""

    __slots__ = ("settling", "slots", "stopping")

    def __init__(self, slots: asyncio.Semaphore | None) -> None:
        #: Places for handlers; None when there are more places than calls.
        self.slots = slots
        #: True once the batch's owner cancels its tasks: only then is a CancelledError an order from outside.
        self.stopping = False
        #: Tasks whose handler has ended: they may finish although a sibling failed.
        self.settling: set[asyncio.Task[Any]] = set()


async def run_call(run: Run, call: ToolCall, batch: Batch) -> None:
    """Take ``call`` from its request to its appended result."""
    tool = run.context.tools.get(call.name)
    live = _live(run, call)
    prepared = _examine(run, live, tool)
    if run.hooks.before_tool:
        await each(run.hooks.before_tool, run.context, live)
        prepared = _examine(run, live, tool) if call.error is None else None
    async with batch.slots or nullcontext():
        result, error, timing = await _execute(run, live, tool, prepared, batch)
    task = asyncio.current_task()
    if task is not None:
        batch.settling.add(task)
    await each(run.hooks.after_tool, run.context, live, result, error)
    result.tool_call_id = call.id
    await run.append(result, timing)
    run.started.discard(call.id)
    kind = AgentEventType.TOOL_COMPLETED if result.success else AgentEventType.TOOL_FAILED
    await run.tell(kind, tool_calls=[live], message=result, error=None if result.success else error)


def failure_text(error: BaseException) -> str:
    """What a failed call tells the model: never empty, always encodable."""
    text = utf8_text(str(error)).strip()
    if isinstance(error, ToolError) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _live(run: Run, call: ToolCall) -> ToolCall:
    """The call as hooks and events see it: a copy, so that the history keeps what the model said."""
    hooks = run.hooks
    edited = hooks.before_tool or hooks.on_tool_call or hooks.after_tool
    arguments = deepcopy(call.arguments) if edited else dict(call.arguments)
    return ToolCall(call.id, call.name, arguments, call.error)


def _examine(run: Run, live: ToolCall, tool: AgentTool | None) -> Prepared | None:
    """Check the arguments; what will never run says why in ``live.error``."""
    if live.error is not None and tool is None:
        return None
    if tool is None:
        live.error = _unknown(live.name, list(run.context.tools))
        return None
    try:
        prepared = tool.prepare(live.arguments)
    except ToolArgumentsError as error:
        live.error = str(error)
        return None
    live.error, live.arguments = None, prepared.arguments
    return prepared


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else " Use one of the tools that are offered."
    return f"There is no tool named {name!r}.{hint}"


async def _execute(
    run: Run, live: ToolCall, tool: AgentTool | None, prepared: Prepared | None, batch: Batch
) -> tuple[ToolMessage, BaseException | None, MessageTiming]:
    scope = ToolContext(run.context, live.id, live.name)
    run.executing += 1
    if run.executing == 1:
        await run.move(AgentPhase.RUNNING_TOOL)
    start = Mark.now()
    try:
        await run.tell(AgentEventType.TOOL_STARTED, tool_calls=[live])
        await run.channel.drained()
        result, error = await _outcome(run, live, tool, prepared, scope, batch)
    finally:
        run.executing -= 1
        idle = run.executing == 0
    if idle and run.phase.current is AgentPhase.RUNNING_TOOL:
        await run.move(AgentPhase.READY)
    end = Mark.now()
    return result, error, MessageTiming(start.at, end.at, end.ns - start.ns)


async def _outcome(
    run: Run, live: ToolCall, tool: AgentTool | None, prepared: Prepared | None, scope: ToolContext, batch: Batch
) -> tuple[ToolMessage, BaseException | None]:
    try:
        if tool is None or prepared is None:
            raise (ToolUnknownError if tool is None else ToolArgumentsError)(live.error or "")
        if run.journal is not None:
            await run.journal.call_started(live)
        run.started.add(live.id)
        CURRENT_CALL.set(scope)
        value = await _invoke(run, live, tool, prepared, scope)
        content = result_content(value, tool.serialize_result)
    except asyncio.CancelledError as error:
        scope.cancel()
        if batch.stopping or run.cancel_requested:
            raise
        return _failed(live, error), error
    except (Exception, SystemExit) as error:  # a tool that calls sys.exit() ends itself, not the process
        return _failed(live, error), error
    return ToolMessage(tool_call_id=live.id, name=live.name, content=content), None


def _failed(live: ToolCall, error: BaseException) -> ToolMessage:
    return ToolMessage(tool_call_id=live.id, name=live.name, content=failure_text(error), success=False)


async def _invoke(run: Run, live: ToolCall, tool: AgentTool, prepared: Prepared, scope: ToolContext) -> ToolResult:
    if not run.hooks.on_tool_call:
        return await _within(tool.timeout, tool.run(prepared), scope)

    async def handler() -> ToolResult:
        registered = run.context.tools.get(live.name, tool)
        return await _within(registered.timeout, registered.run(registered.prepare(live.arguments)), scope)

    call_next: Callable[[], Awaitable[ToolResult]] = handler
    for hook in reversed(run.hooks.on_tool_call):
        call_next = _layer(run, live, hook, call_next)
    return await call_next()


def _layer(
    run: Run, live: ToolCall, hook: Callable[..., Awaitable[ToolResult]], call_next: Callable[[], Awaitable[ToolResult]]
) -> Callable[[], Awaitable[ToolResult]]:
    return lambda: hook(run.context, live, call_next)


async def _within(seconds: float | None, work: Coroutine[Any, Any, ToolResult], scope: ToolContext) -> ToolResult:
    """Await ``work``, but no longer than ``seconds``, even if it refuses to be cancelled."""
    if seconds is None:
        return await work
    task = asyncio.get_running_loop().create_task(work, name=f"zett tool {scope.tool_name}")
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await stop_tasks([task])
        raise
    if not done:
        scope.cancel()
        task.cancel()
        await join([task], TIMEOUT_GRACE)
        raise ToolTimeoutError(f"The tool {scope.tool_name} did not end within {seconds} seconds and was stopped.")
    return task.result()
