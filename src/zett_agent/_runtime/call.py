"""One call, one pipeline: gate, start, execute, settle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from zett_agent._failures import failure_text
from zett_agent._runtime.faults import Interrupted, request_failure, thrown_away
from zett_agent._runtime.hooks import each
from zett_agent._runtime.output import Mark
from zett_agent._runtime.run import Run
from zett_agent._runtime.supervisor import STOP_BOUND, join, start_task, stop_tasks
from zett_agent.context import ToolContext
from zett_agent.events import AgentEvent, AgentEventType, AgentPhase
from zett_agent.exceptions import (
    ToolArgumentsError,
    ToolError,
    ToolRejectedError,
    ToolTimeoutError,
    ToolUnknownError,
)
from zett_agent.extensions.events import MessageTiming
from zett_agent.json_types import copy_json
from zett_agent.messages import ToolCall, ToolMessage, check_message
from zett_agent.tools.agent_tool import AgentTool, Prepared, ToolResult
from zett_agent.tools.current_call import CURRENT_CALL
from zett_agent.tools.function_tool import never_began
from zett_agent.tools.guidance import unknown_tool_text
from zett_agent.tools.results import result_content, shorten

#: Seconds that a timed-out async tool has for its own clean-up before it is left alone.
TIMEOUT_GRACE = 2.0


class Batch:
    """What the calls that run side by side have in common, and how far they are."""

    __slots__ = ("_waiter", "begun", "failed", "left", "slots", "stopping", "tasks")

    def __init__(self, slots: asyncio.Semaphore | None, calls: int) -> None:
        #: Places for handlers; None when there are more places than calls.
        self.slots = slots
        #: True once the batch's owner cancels its tasks: only then is a CancelledError an order from outside.
        self.stopping = False
        #: The asyncio tasks of the calls.
        self.tasks: Sequence[asyncio.Task[None]] = ()
        self.begun = 0
        self.left = calls
        self.failed = False
        self._waiter: asyncio.Future[None] | None = None

    def ended(self, *, well: bool) -> None:
        """A call that had begun has its result, or has failed the request."""
        self.left -= 1
        self.failed |= not well
        waiter = self._waiter
        if waiter is None or waiter.done() or (self.left and not self.failed):
            return
        if not waiter.get_loop().is_closed():  # or Python is destroying what such a loop left behind
            waiter.set_result(None)

    async def all_well(self) -> bool:
        """Wait until every call has ended, True, or one has failed, False.

        The calls tell it themselves: a callback of each asyncio task would cost a round of the loop. So whoever is
        cancelled before the first step, and never tells anything, must be found by then.
        """
        await asyncio.sleep(0)
        if self.begun < len(self.tasks):
            return False
        if self.left and not self.failed:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return not self.failed


class CallRun:
    """A call on its way through the pipeline.

    ``call`` is what the model said and stays in the history as it is; ``live`` is the copy that hooks, events and the
    handler see. What will never run says why in ``live.error``.
    """

    __slots__ = ("_run", "batch", "call", "live", "prepared", "refused", "settling", "started", "tool")

    def __init__(self, run: Run, call: ToolCall, batch: Batch) -> None:
        self._run = run
        self.batch = batch
        self.call = call
        self.tool = run.context.tools.get(call.name)
        self.live = ToolCall(call.id, call.name, copy_json(call.arguments), call.error)
        self.prepared = self._examine()
        #: True when an extension set ``live.error``.
        self.refused = False
        self.started = False
        #: True once the handler has ended: the call may finish although a sibling failed.
        self.settling = False

    async def complete(self) -> None:
        """Take the call from its request to its appended result."""
        run, live, batch = self._run, self.live, self.batch
        batch.begun += 1
        well = False
        try:
            if run.hooks.before_tool:
                await self._gate()
            if batch.slots is None:
                result, error, timing = await self._execute()
            else:
                async with batch.slots:
                    result, error, timing = await self._execute()
            if run.hooks.after_tool:
                await each(run.hooks.after_tool, run.context, live, result, error)
                check_message(result)
                result.tool_call_id = self.call.id
            result.content = shorten(result.content, self._most_chars())
            try:
                await run.append(result, timing)
            finally:  # the result is in the history, whatever those say who are told of it
                if self._show_end(result, error):
                    await run.channel.drained()
            well = True
        except Exception:
            raise
        except KeyboardInterrupt as raised:
            raise Interrupted(raised) from None
        except BaseException as raised:
            if self._is_an_order(raised) or thrown_away(raised, batch.tasks):
                raise
            raise request_failure(raised) from raised
        finally:
            batch.ended(well=well)

    def _is_an_order(self, raised: BaseException) -> bool:
        """Whether somebody stops the batch, the request or this very asyncio task, as the end of the loop does."""
        if not isinstance(raised, asyncio.CancelledError):
            return False
        task = asyncio.current_task()
        return self.batch.stopping or self._run.cancel_requested or (task is not None and task.cancelling() > 0)

    def _show_end(self, result: ToolMessage, error: BaseException | None) -> bool:
        run = self._run
        run.started.pop(self.call.id, None)
        if run.clock is not None:
            run.clock.left(self.call.id)
        run.shown.pop(self.call.id, None)
        event = AgentEvent(
            AgentEventType.TOOL_COMPLETED if result.success else AgentEventType.TOOL_FAILED,
            run.session_id,
            run.phase.current,
            tool_calls=[self.live],
            message=result,
            error=None if result.success else error,
        )
        return run.channel.send(event)

    def _most_chars(self) -> int:
        own = self.tool.max_result_chars if self.tool is not None else None
        return self._run.limits.max_result_chars if own is None else own

    def start(self) -> None:
        """Show that the call runs; the phase is running_tool, and the effect must wait for the channel to drain."""
        run = self._run
        self.started = True
        run.shown[self.call.id] = self.live
        run.channel.send(
            AgentEvent(AgentEventType.TOOL_STARTED, run.session_id, run.phase.current, tool_calls=[self.live])
        )

    async def _gate(self) -> None:
        """Let extensions hold, change or refuse the call, and check what they left."""
        self._run.transcript.follow(self.live)
        found = self.live.error
        for hook in self._run.hooks.before_tool:
            await hook(self._run.context, self.live)
        self.live.id = self.call.id  # a result for another id would be nobody's
        self.tool = self._run.context.tools.get(self.live.name, self.tool)
        self.refused = self.live.error not in (None, found)
        self.prepared = None if self.refused else self._examine()

    def _examine(self) -> Prepared | None:
        live = self.live
        if self.call.error is not None:
            return None
        if self.tool is None:
            live.error = unknown_tool_text(live.name, self._run.context.tools)
            return None
        try:
            prepared = self.tool.prepare(live.arguments)
        except ToolArgumentsError as error:
            live.error = str(error)
            return None
        live.error, live.arguments = None, prepared.arguments
        return prepared

    async def _execute(self) -> tuple[ToolMessage, BaseException | None, MessageTiming | None]:
        run = self._run
        if not self.started:
            await enter_running(run, 1)
            self.start()
            await run.channel.drained()
            run.check_wanted()  # who leaves wakes this task before the batch can cancel it
        begin = Mark.now() if run.records_messages else None
        try:
            if run.journal is not None and self.prepared is not None:
                await run.journal.call_started(self.live)  # what cannot be logged must not happen
            result, error = await self._outcome()
            self.settling = True
            if self.live.id in run.started:
                run.started[self.live.id] = True
        finally:
            run.executing -= 1
        if not run.executing and run.phase.current is AgentPhase.RUNNING_TOOL:
            await run.move(AgentPhase.READY)
        return result, error, begin and begin.until_now()

    async def _outcome(self) -> tuple[ToolMessage, BaseException | None]:
        """Run the handler; whatever it raises is this call's failed result, unless the request itself is stopped."""
        run, live = self._run, self.live
        scope = ToolContext(run.context, live.id, live.name)
        try:
            if self.tool is None or self.prepared is None:
                raise self._fault()(live.error or "")
            run.started[live.id] = False
            if run.clock is not None:
                run.clock.entered(live.id)
            CURRENT_CALL.set(scope)
            value = await self._invoke(self.tool, self.prepared, scope)
            content = result_content(value, self.tool.serialize_result)
        except asyncio.CancelledError as error:
            scope.cancel()
            if self.batch.stopping or run.cancel_requested:
                if self.tool is not None and never_began(self.tool, error):
                    run.started.pop(live.id, None)
                raise
            return _failed(live, error), error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a tool that calls sys.exit() ends itself, not the process
            if thrown_away(error, self.batch.tasks):
                raise
            return _failed(live, error), error
        return ToolMessage(tool_call_id=live.id, name=live.name, content=content), None

    def _fault(self) -> type[ToolError]:
        if self.refused:
            return ToolRejectedError
        return ToolUnknownError if self.tool is None else ToolArgumentsError

    def _invoke(self, tool: AgentTool, prepared: Prepared, scope: ToolContext) -> Awaitable[ToolResult]:
        run, live = self._run, self.live
        if not run.hooks.on_tool_call and not run.hooks.authorize_tool:
            return _run_tool(tool, prepared, scope)
        call_next: Callable[[], Awaitable[ToolResult]] = partial(self._handle, tool, scope)
        for hook in reversed(run.hooks.on_tool_call):
            call_next = _layer(run, live, hook, call_next)
        return call_next()

    async def _handle(self, tool: AgentTool, scope: ToolContext) -> ToolResult:
        """Behind every layer: the tool and the arguments as they are by now, once more checked and authorized."""
        run, live = self._run, self.live
        name = live.name if live.name in run.context.tools else self.call.name
        tool = run.context.tools.get(name, tool)
        prepared = tool.prepare(copy_json(live.arguments))
        for authorize in run.hooks.authorize_tool:
            await authorize(run.context, ToolCall(self.call.id, name, copy_json(prepared.arguments)))
        return await _run_tool(tool, prepared, scope)


async def enter_running(run: Run, calls: int) -> None:
    """Count ``calls`` more that run, and pass to running_tool unless some did already."""
    run.executing += calls
    if run.phase.current is not AgentPhase.RUNNING_TOOL:
        await run.move(AgentPhase.RUNNING_TOOL)


async def _awaited(tool: AgentTool, work: Awaitable[ToolResult]) -> tuple[ToolResult, BaseException | None]:
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:  # an asyncio task that ended with it would end the loop
        return None, error
    except asyncio.CancelledError as error:
        if never_began(tool, error):
            return None, error
        raise


def _unbegun(task: asyncio.Task[tuple[ToolResult, BaseException | None]]) -> BaseException | None:
    """The cancel that reached a tool before it began, if one did."""
    ended = None if not task.done() or task.cancelled() or task.exception() else task.result()[1]
    return ended if isinstance(ended, asyncio.CancelledError) else None


def _failed(live: ToolCall, error: BaseException) -> ToolMessage:
    return ToolMessage(tool_call_id=live.id, name=live.name, content=failure_text(error), success=False)


def _layer(
    run: Run, live: ToolCall, hook: Callable[..., Awaitable[ToolResult]], call_next: Callable[[], Awaitable[ToolResult]]
) -> Callable[[], Awaitable[ToolResult]]:
    return lambda: hook(run.context, live, call_next)


def _run_tool(tool: AgentTool, prepared: Prepared, scope: ToolContext) -> Awaitable[ToolResult]:
    work = tool.run(prepared)
    return work if tool.timeout is None else _within(tool.timeout, tool, work, scope)


async def _within(seconds: float, tool: AgentTool, work: Awaitable[ToolResult], scope: ToolContext) -> ToolResult:
    """Await ``work``, but no longer than ``seconds``, even if it refuses to be cancelled."""
    task = start_task(_awaited(tool, work), f"zett tool {scope.tool_name}")
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await stop_tasks([task], STOP_BOUND / 2)  # less than this call itself has
        if (unbegun := _unbegun(task)) is not None:
            raise unbegun from None
        raise
    if not done:
        scope.cancel()
        task.cancel()
        await join([task], TIMEOUT_GRACE)
        if _unbegun(task) is not None:
            raise ToolTimeoutError(f"Not run: no thread was free for {scope.tool_name} within {seconds} seconds.")
        raise ToolTimeoutError(f"The tool {scope.tool_name} did not end within {seconds} seconds and was stopped.")
    result, ended = task.result()
    if ended is not None:
        raise ended
    return result
