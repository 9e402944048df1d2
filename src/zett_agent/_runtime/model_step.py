"""The model step: one call of the model, from the request to the appended answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from zett_agent._runtime.hooks import each
from zett_agent._runtime.output import Output
from zett_agent._runtime.resumption import FINAL_TURN
from zett_agent._runtime.run import Run
from zett_agent.events import AgentEventType, AgentPhase
from zett_agent.exceptions import AgentProtocolError, ToolArgumentsError
from zett_agent.ids import new_uuid7
from zett_agent.json_types import is_flat_json, is_too_deep, strict_copy
from zett_agent.messages import AgentMessage, AssistantMessage, ToolCall, check_message, copy_assistant_message
from zett_agent.model import ModelEvent, ModelRequest, ModelResponse
from zett_agent.stop import StopInfo, StopReason
from zett_agent.tools.arguments import decode_tool_arguments

_WITHHELD = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED})
_UNNAMED = "unnamed_tool"
#: Characters of what is wrong with arguments; a path can be long, and the end says what it is.
_MOST_TOLD = 300

LAST_WORDS = (
    "You have reached a limit of this request and may call no tool any more. "
    "Say what you have done and found, and what is left to do."
)
NEVER_RUN = "Not run: the call was put into the history and not made by the model."


async def model_step(run: Run) -> AssistantMessage:
    """Call the model once and append its answer; the message says by ``stop`` whether something was wrong."""
    run.check_wanted()
    if run.closing is None:
        run.count_model_call()
    request = await _prepare(run)
    await run.move(AgentPhase.GENERATING)
    await run.tell(AgentEventType.MODEL_STARTED)
    await run.channel.drained()
    output = Output(run)
    try:
        response = _settle(run, await _stream(run, request, output))
    except BaseException:
        run.partial = output.cut_off()
        raise
    run.usages.append(response.usage)
    run.said = response.message.content or run.said
    run.partial = response.message  # whatever stops the request before it is in the history must keep it
    await run.move(AgentPhase.READY)
    run.partial = None
    await run.append(response.message, output.timing(), response.usage)
    calls = response.message.tool_calls
    await each(run.hooks.after_model, run.context, response)
    response.message.tool_calls = calls  # a hook refuses calls in ``before_tool``; the history waits for these
    await run.tell(AgentEventType.MODEL_COMPLETED, response=response)
    message = response.message
    continues = await _continues(run, message)
    if message.stop is not None and not continues:
        await run.tell(AgentEventType.MODEL_STOPPED, stop=message.stop, response=response, message=message)
    return message


async def _continues(run: Run, message: AssistantMessage) -> bool:
    """Whether a paused answer is taken up again in the same turn; steering that waits goes first."""
    paused = message.stop is not None and message.stop.reason is StopReason.PAUSED and not message.tool_calls
    if paused and run.closing is None and run.pauses < run.limits.max_pause_continuations:
        await run.channel.drained()
        if not run.inbox.has_steering:
            run.pauses += 1
            return True
    run.pauses = 0
    return False


async def _prepare(run: Run) -> ModelRequest:
    for hook in run.hooks.before_model:
        await hook(run.context, _request(run))
    await run.context.flush_message_events()
    if run.transcript.open_calls:  # an extension has put them into the history: what it asked for runs nowhere
        await run.settle_open(NEVER_RUN)
    return _request(run)


def _request(run: Run) -> ModelRequest:
    context, settings = run.context, run.settings
    tools = tuple(context.tools.values())
    if tools != run.offered:
        run.offered, run.definitions = tools, tuple(tool.definition for tool in tools)
    if run.closing is not None:
        return _closing_request(run)
    return ModelRequest(
        run.transcript.view(),
        run.definitions,
        tuple(context.server_tools.values()),
        settings.reasoning_effort,
        None,
        settings.parallel_tool_call,
        settings.cache_key,
    )


def _closing_request(run: Run) -> ModelRequest:
    """A request for last words. The tools stay, so that the prefix does, and a wire that wants them for old calls."""
    return ModelRequest(
        (*run.transcript.view(), AgentMessage(content=LAST_WORDS)),
        run.definitions,
        (),
        run.settings.reasoning_effort,
        "none",
        run.settings.parallel_tool_call,
        run.settings.cache_key,
    )


async def _stream(run: Run, request: ModelRequest, output: Output) -> ModelResponse:
    call: Callable[[ModelRequest], AsyncIterator[ModelEvent]] = run.context.model.stream
    for hook in reversed(run.hooks.on_model_request):
        call = _layer(run, hook, call)
    stream = call(request)
    try:
        return await output.consume(stream)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _layer(
    run: Run, hook: Callable[..., Any], call_next: Callable[[ModelRequest], AsyncIterator[ModelEvent]]
) -> Callable[[ModelRequest], AsyncIterator[ModelEvent]]:
    def layer(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        stream: AsyncIterator[ModelEvent] = hook(run.context, request, call_next)
        return stream

    return layer


def _settle(run: Run, response: ModelResponse) -> ModelResponse:
    """The response as the history keeps it: our own copy, calls with unique ids, calls of a refused answer withheld."""
    message, stop = response.message, response.stop
    if not isinstance(message, AssistantMessage) or stop is None:
        raise AgentProtocolError("the model's response must hold an AssistantMessage")
    try:
        check_message(message)
    except TypeError as error:
        raise AgentProtocolError(f"the model's response cannot be kept: {error}") from None
    calls: Sequence[ToolCall] = message.tool_calls
    if calls and (stop.reason in _WITHHELD or run.closing is not None):
        stop = _withhold(stop, calls)
        calls = ()
    own = copy_assistant_message(message, _own_calls(run, calls) if calls else (), None if stop.ok else stop)
    if run.closing is not None:
        own.attributes[FINAL_TURN] = run.closing
    return ModelResponse(own, response.finish_reason, response.usage, stop)


def _withhold(stop: StopInfo, calls: Sequence[ToolCall]) -> StopInfo:
    return replace(stop, detail={**stop.detail, "withheld_tool_calls": [call.name for call in calls]})


def _own_calls(run: Run, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    own: list[ToolCall] = []
    taken: set[str] = set()
    for call in calls:
        call_id = call.id
        if (
            not isinstance(call_id, str)
            or not call_id.strip()
            or call_id in taken
            or run.transcript.knows_call(call_id)
        ):
            call_id = f"call_{new_uuid7()}"
        taken.add(call_id)
        own.append(_own_call(call, call_id))
    return tuple(own)


def _own_call(call: ToolCall, call_id: str) -> ToolCall:
    if not isinstance(call.name, str) or not call.name.strip():
        return ToolCall(call_id, _UNNAMED, {}, "The call names no tool; name one of the tools that are offered.")
    arguments: object = call.arguments
    try:
        if arguments is None or isinstance(arguments, str):
            arguments = decode_tool_arguments(arguments)
    except ToolArgumentsError as error:
        return ToolCall(call_id, call.name, {}, str(error))
    if not isinstance(arguments, dict):
        return ToolCall(call_id, call.name, {}, "The arguments of the call must be a JSON object.")
    if not is_flat_json(arguments):
        try:
            arguments = _strict(arguments)
        except ValueError as error:
            return ToolCall(call_id, call.name, {}, f"The arguments of the call are no JSON: {error}; send it again.")
    if call_id == call.id and arguments is call.arguments:
        return call
    return ToolCall(call_id, call.name, arguments, call.error)


def _strict(arguments: dict[Any, Any]) -> dict[str, Any]:
    """A copy of arguments; ValueError for what could never be sent back, a text that a model can be told."""
    if is_too_deep(arguments):
        raise ValueError("nested too deeply, or in themselves")
    try:
        copied: dict[str, Any] = strict_copy(arguments, "arguments")
    except ValueError as error:
        raise ValueError(str(error)[-_MOST_TOLD:]) from None
    return copied
