"""The closing of a request: one outcome, committed once; what goes wrong afterwards is noted, never raised.

Nothing here waits for the consumer, and no cancel cuts it short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic_ns

from zett_agent._failures import failure_text
from zett_agent._runtime.faults import thrown_away
from zett_agent._runtime.hooks import each
from zett_agent._runtime.run import LOG, Run
from zett_agent._runtime.supervisor import STOP_BOUND
from zett_agent._runtime.transcript import failed_result
from zett_agent.events import AgentEventType, AgentPhase, ExtensionEvent
from zett_agent.exceptions import AgentLimitError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InputReturnedEvent, PhaseTransitionEvent, RunCancelledEvent
from zett_agent.messages import AnyMessage, AssistantMessage, copy_assistant_message

STOPPED_BEFORE = "Not run: the request was stopped first."
STOPPED_WITHIN = "Stopped while it ran: what it had done by then, or still does, is not known."
RESULT_LOST = "It ran to its end, but its result was lost: an extension that looked at it failed, or was stopped."

#: By whether the handler of a call has ended; None when it was never entered.
_UNSETTLED = {None: STOPPED_BEFORE, False: STOPPED_WITHIN, True: RESULT_LOST}


async def complete(run: Run, answer: AssistantMessage) -> None:
    """Let extensions have their last word, then commit; until then an error of theirs fails the request."""
    await each(run.hooks.after_run, run.context, answer)
    await each(run.hooks.on_success, run.context, answer)
    await finish_pass(run)
    # A copy, for applications that edit what they are given: the history keeps what the model said.
    shown = copy_assistant_message(answer, answer.tool_calls, answer.stop)
    run.show(AgentEventType.RUN_COMPLETED, message=shown)


async def finish_pass(run: Run) -> None:
    """Commit the outcome completed."""
    await _return_input(run, None)
    run.check_wanted()  # a listener that was stopped was only noted
    run.decided = True
    if run.journal is not None:
        await run.journal.closed(AgentPhase.COMPLETED.value)
    await _commit(run, AgentPhase.COMPLETED, None)


async def fail(run: Run, error: BaseException) -> None:
    """Close what is open, commit the outcome failed, tell the extensions and the consumer."""
    run.decided = False  # writing the outcome may be what failed; hooks that hang can be cancelled again
    await _close_history(run, error)
    if isinstance(error, AgentLimitError):
        said = run.partial.content if run.partial is not None else run.said
        error.fill(run.transcript.view(), run.usage, said)
    await _return_input(run, error)
    await _commit(run, AgentPhase.FAILED, error)
    for hook in run.hooks.on_error:
        await _safely(run, _name_of("on_error", hook), error, _bounded, hook, run.context, error)
    run.waitbook.abandon_all(error)
    if run.journal is not None:
        await _safely(run, "the log", error, run.journal.closed, AgentPhase.FAILED.value, error)
    run.show(AgentEventType.RUN_FAILED, error=error)


async def cancel(run: Run) -> None:
    """Close what is open and commit the outcome cancelled; a consumer that is still there is told."""
    run.waitbook.abandon_all()
    await _close_history(run, None)
    await _return_input(run, None)
    await _commit(run, AgentPhase.CANCELLED, None)
    if run.journal is not None:
        await _safely(run, "the log", None, run.journal.closed, AgentPhase.CANCELLED.value)
    run.show(AgentEventType.RUN_CANCELLED)


async def _close_history(run: Run, error: BaseException | None) -> None:
    """Keep the text of a broken stream, and give every open call its result."""
    if run.partial is not None:
        await _append(run, run.partial, error)
    for call in run.transcript.open_calls:
        result = failed_result(call, _UNSETTLED[run.started.get(call.id)])
        await _append(run, result, error)
        live = run.shown.pop(call.id, None)
        if live is not None:  # whoever saw it start sees it end
            run.show(AgentEventType.TOOL_FAILED, tool_calls=[live], message=result, error=error)


async def _append(run: Run, message: AnyMessage, error: BaseException | None) -> None:
    await _safely(run, "the record of a message", error, run.append, message)


async def _return_input(run: Run, error: BaseException | None) -> None:
    """Hand back what was accepted and never taken."""
    left = run.inbox.close()
    if not left:
        return
    run.context.state.undelivered = left
    if error is not None:
        error.add_note(f"{len(left)} messages that arrived meanwhile were not delivered; see AgentState.undelivered")
    await _publish(run, InputReturnedEvent(left), error)
    payload = {"messages": [{"role": message.role.value, "content": message.content} for message in left]}
    run.show(AgentEventType.CUSTOM, name="input_returned", payload=payload)


async def _commit(run: Run, to: AgentPhase, error: BaseException | None) -> None:
    before = run.phase.move(to)
    now, ticks = datetime.now(UTC), monotonic_ns()
    if run.hooks.listeners(PhaseTransitionEvent):
        await _publish(run, PhaseTransitionEvent(before, to, now, ticks), error)
    if to is AgentPhase.CANCELLED:
        await _publish(run, RunCancelledEvent(before, now, ticks), error)


async def _publish(run: Run, event: ExtensionEvent, error: BaseException | None) -> None:
    """Deliver a notification to everyone, whatever one of them does."""
    for name, listener in run.hooks.listeners(type(event)):
        await _safely(run, f"on_event of {name}", error, _bounded, listener, run.context, event)


def _name_of(kind: str, hook: object) -> str:
    owner = getattr(hook, "__self__", None)
    return f"{kind} of {owner.name}" if isinstance(owner, AgentExtension) else kind


async def _bounded(hook: Callable[..., Awaitable[None]], *given: object) -> None:
    """A hook that never returns must not keep a session busy that has its outcome."""
    async with asyncio.timeout(STOP_BOUND):
        await hook(*given)


async def _safely(
    run: Run, what: str, error: BaseException | None, work: Callable[..., Awaitable[None]], *given: object
) -> None:
    """Do ``work``; its failure becomes a note on the request's error and a warning in the log."""
    try:
        await work(*given)
    except BaseException as failure:
        if thrown_away(failure, (run.producer,)):
            raise
        # CancelledError too: the request is ending already, and what remains to be done must be done.
        text = f"{what} failed while the request was closing: {failure_text(failure)}"
        LOG.warning(text, exc_info=failure)
        if error is not None:
            error.add_note(text)
