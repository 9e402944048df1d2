"""The loop: turn after turn until nothing is left to answer."""

from __future__ import annotations

from zett_agent._failures import failure_text
from zett_agent._runtime.hooks import each
from zett_agent._runtime.model_step import model_step
from zett_agent._runtime.resumption import FINAL_TURN
from zett_agent._runtime.run import Run, StopAfterTurn
from zett_agent._runtime.tool_step import accept_steering, tool_step
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentIterationLimitError, AgentLimitError
from zett_agent.extensions.events import InternalMessageEvent
from zett_agent.messages import AgentMessage, AssistantMessage, UserMessage


async def run_turns(run: Run) -> AssistantMessage:
    """Answer the input, and every input that arrives meanwhile; return the last answer.

    A turn is a model step and, when it asks for tools, a tool step. A paused answer is continued within its turn. A
    limit that strikes in the middle of work may let the model say its last words.
    """
    hooks, context = run.hooks, run.context
    await each(hooks.before_run, context)
    continued = False
    try:
        while True:
            if not continued:
                await each(hooks.before_turn, context)
            message = await model_step(run)
            continued = run.pauses > 0
            if continued:
                continue
            if run.transcript.open_calls:
                await tool_step(run, message)
                await each(hooks.after_turn, context, message)
                if run.stop_after_turn:
                    raise StopAfterTurn
                continue
            await _answered(run, message)
            await each(hooks.after_turn, context, message)
            await run.channel.drained()  # who has just read the answer may still say something to it
            if run.stop_after_turn or not await _next_input(run):
                return message
    except AgentLimitError as limit:
        if run.limits.final_turn and _may_close(run):
            await _final_turn(run, limit)
        raise


def _may_close(run: Run) -> bool:
    """Whether the history lets the model be asked, and it has not just spoken."""
    between = run.phase.current is AgentPhase.READY and not run.transcript.open_calls
    return between and not isinstance(run.transcript.last, AssistantMessage)


async def _final_turn(run: Run, limit: AgentLimitError) -> None:
    """One model call more, without tools; the limit stays the outcome, whatever the model makes of it."""
    run.closing = limit.limit or type(limit).__name__
    try:
        await model_step(run)
    except Exception as failure:
        limit.add_note(f"the final turn failed: {failure_text(failure)}")
    finally:
        if run.partial is not None:
            run.partial.attributes[FINAL_TURN] = run.closing


async def _answered(run: Run, message: AssistantMessage) -> None:
    """Tell that the steering or internal input has its answer."""
    active, run.active_input = run.active_input, None
    if isinstance(active, UserMessage):
        await run.tell(AgentEventType.STEERING_COMPLETED, steering_message=active, message=message)
    elif isinstance(active, AgentMessage):
        await run.tell(AgentEventType.INTERNAL_MESSAGE_COMPLETED, internal_message=active, message=message)


async def _next_input(run: Run) -> bool:
    """Take steering first, else one internal message; False closes the inbox: the request is about to end."""
    waiting = run.inbox.take_next()
    if waiting is None:
        return False
    if isinstance(waiting, InternalMessageEvent):
        await _accept_internal(run, waiting)
    else:
        await accept_steering(run, waiting)
    return True


async def _accept_internal(run: Run, event: InternalMessageEvent) -> None:
    if event.counted:
        if run.internal_taken >= run.limits.max_internal_messages:
            run.inbox.put_back(event)
            most = run.limits.max_internal_messages
            text = f"the request reached max_internal_messages={most}; AgentState.undelivered has what is left"
            raise AgentIterationLimitError(text, limit="max_internal_messages", value=most)
        run.internal_taken += 1
    run.begin_input(event.message)
    await run.tell(AgentEventType.INTERNAL_MESSAGE_STARTED, internal_message=event.message)
    await run.append(event.message)
