"""Goals: a request that goes on until an evaluator says that its goal is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from zett_agent._checks import instance, is_finite, whole_number
from zett_agent._failures import failure_text
from zett_agent._runtime.resumption import FINAL_TURN
from zett_agent._runtime.supervisor import start_task, stop_tasks
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType, CompactionEvent, ExtensionEvent
from zett_agent.exceptions import AgentIterationLimitError, AgentLimitError, AgentProtocolError, InputRefusedError
from zett_agent.extensions._goal.arming import Arming
from zett_agent.extensions._goal.evaluation import (
    RESULTS_ARE_IN,
    GoalEvaluation,
    continuation,
    goal_content,
    reminder,
)
from zett_agent.extensions._goal.evaluator import Evaluators, Outcome
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InternalMessageEvent, MessageAppendedEvent, RunCancelledEvent
from zett_agent.extensions.steering import STEERING_MESSAGE_EVENT_NAME
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import AgentMessage, AnyMessage, AssistantMessage, UserMessage
from zett_agent.model import AgentModel, ModelRequest, ModelResponse, ReasoningEffort
from zett_agent.stop import StopReason
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "GOAL_MODE_EVENT_NAME",
    "GoalEvaluation",
    "GoalExtension",
    "GoalState",
    "default_goal_subagent",
]

GOAL_MODE_EVENT_NAME = "goal_mode"

#: Where messages say what they are to a goal.
ATTRIBUTE = "goal_extension"

_NO_ANSWER = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED, StopReason.PAUSED})

_EVALUATOR = (
    "You review the work of another agent. You see its goal and its latest answer, nothing else. Decide whether the "
    "answer reaches the goal completely: every part of it, shown and not just claimed. When something is missing, say "
    "what, and what to do next. You change nothing and do none of the work yourself."
)


class GoalState(StrEnum):
    """How a goal ended; ``blocked`` needs somebody to look: no decision was made, or the model did not go on."""

    MET = "met"
    BLOCKED = "blocked"
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(slots=True, eq=False)
class _Goal:
    """The goal of one active request."""

    target: str
    iterations: int = 0
    summarized: bool = False
    #: The message that tells the model to go on, until the request takes it.
    queued: AgentMessage | None = None
    #: Set when a person speaks while the goal waits for background work.
    spoken: asyncio.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None


def default_goal_subagent(model: AgentModel) -> SubAgentDefinition:
    """The built-in evaluator on ``model``: it judges what it reads, and has no tool but the one that decides."""
    return SubAgentDefinition(
        "goal",
        "Decides whether an answer reaches its goal.",
        _EVALUATOR,
        model,
        extensions=(ToolGuidelinesExtension(),),
        reasoning_effort=ReasoningEffort.HIGH,
    )


class GoalExtension(AgentExtension):
    """Runs requests in goal mode: each answer is evaluated, and the model goes on until its goal is reached.

    A ``goal_mode`` event arms the request that its config names, or else the session's next one, for
    ``arming_seconds``; with ``{"enabled": False}`` it takes that back. ``definition`` is the evaluator, a subagent that
    sees the goal and the answer only; what the agent's extensions hand on to children holds for it, so a permission
    policy must let it call ``report_goal_evaluation``. CUSTOM events ``goal_evaluating``, ``goal_evaluated``,
    ``goal_waiting`` and, once, ``goal_finished`` (see ``GoalState``) tell how it goes. An evaluator that does not
    decide within ``max_decision_retries`` leaves the answer as it is; after ``max_iterations`` continuations the
    request fails with AgentIterationLimitError.
    """

    #: Behind extensions that compact the history, to see what they have left.
    priority = 200

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (CompactionEvent, MessageAppendedEvent, RunCancelledEvent)

    def __init__(
        self,
        definition: SubAgentDefinition | None = None,
        *,
        max_iterations: int = 36,
        max_decision_retries: int = 3,
        arming_seconds: float = 3600.0,
    ) -> None:
        self.definition = None if definition is None else instance("definition", definition, SubAgentDefinition)
        self.max_iterations = whole_number("max_iterations", max_iterations, 1)
        self.max_decision_retries = whole_number("max_decision_retries", max_decision_retries, 0)
        if not is_finite(arming_seconds) or arming_seconds < 0:
            raise ValueError(f"arming_seconds must be a finite number of seconds, at least 0, not {arming_seconds!r}")
        self._arming = Arming(arming_seconds)
        self._evaluators = Evaluators(self.max_decision_retries)
        self._goals: dict[AgentRunContext, _Goal] = {}

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Arm a request, or pass an answer on to an evaluator that asked."""
        if config is None or config.session_id is None:
            return False
        if event.name == GOAL_MODE_EVENT_NAME:
            if event.payload.get("enabled") is False:
                return self._arming.disarm(config.session_id, config.request_id)
            return self._arming.arm(config.session_id, config.request_id)
        if event.name == STEERING_MESSAGE_EVENT_NAME:
            self._wake(config.session_id)
        return self._evaluators.nursery.accept(config, event)

    def open_waits(self, session_id: str | None = None) -> Sequence[Wait]:
        """The open questions of evaluators."""
        return [wait for _, wait in self._evaluators.nursery.questions(session_id)]

    async def on_message(self, context: AgentRunContext) -> None:
        """Turn the input of an armed request into a goal; AgentProtocolError when it has no text."""
        message = context.input_message
        if message is None or not self._arming.take(context.session_id, context.request_id):
            return
        target = message.text.strip()
        if not target:
            raise AgentProtocolError("a goal needs text; the message of a request in goal mode has none")
        marks = {**message.attributes, ATTRIBUTE: {"raw_content": message.text, "target": target}}
        context.input_message = replace(message, content=goal_content(message, target), attributes=marks)
        self._goals[context] = _Goal(target)

    async def before_run(self, context: AgentRunContext) -> None:
        """Take up the goal of a request that was interrupted."""
        if context.kind == "resume" and (found := _unfinished(context.transcript.view())) is not None:
            self._goals[context] = _Goal(*found)

    async def before_model(self, context: AgentRunContext, request: ModelRequest) -> None:
        """Say again what the goal is, when a compaction has left nothing of it."""
        goal = self._goals.get(context)
        if goal is None or not goal.summarized:
            return
        goal.summarized = False
        if not any(goal.target in _text(message) for message in context.transcript.view()):
            context.add_message(AgentMessage(content=reminder(goal.target)))

    async def after_model(self, context: AgentRunContext, response: ModelResponse) -> None:
        """Have an answer evaluated, and conclude: the goal is reached, or the model is told to go on."""
        goal = self._goals.get(context)
        if goal is None or goal.queued is not None or context.inbox.has_steering or not _is_answer(response):
            return
        running = _running(context)
        if running:
            await self._await_one(context, goal, running)
            if not context.inbox.has_steering:
                await self._go_on(context, goal, RESULTS_ARE_IN, RESULTS_ARE_IN)
            return
        await self._tell(context, "goal_evaluating", goal)
        definition = self.definition or default_goal_subagent(context.model)
        outcome = await self._evaluators.evaluate(context, definition, goal.target, response.message.content)
        await self._conclude(context, goal, outcome)

    async def on_success(self, context: AgentRunContext, result: AssistantMessage) -> None:
        """The request ends although its goal was not reached."""
        goal = self._goals.get(context)
        if goal is not None and goal.queued is not None:
            await self._finish(context, GoalState.CANCELLED, "the request was stopped before the next turn")
        elif goal is not None:
            reason = result.stop.describe() if result.stop is not None else "the request ended without an evaluation"
            await self._finish(context, GoalState.BLOCKED, reason)

    async def on_error(self, context: AgentRunContext, error: BaseException) -> None:
        """The request failed."""
        limit = isinstance(error, AgentLimitError)
        state = GoalState.EXHAUSTED if limit else GoalState.ERROR
        await self._finish(context, state, str(error) or type(error).__name__)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Note what becomes of the history, and of the request."""
        goal = self._goals.get(context)
        if goal is None:
            return
        if isinstance(event, RunCancelledEvent):
            await self._finish(context, GoalState.CANCELLED, "the request was cancelled")
        elif isinstance(event, CompactionEvent):
            goal.summarized = True
        elif isinstance(event, MessageAppendedEvent) and event.message is goal.queued:
            goal.queued = None

    def request_finished(self, context: AgentRunContext) -> None:
        """Forget the goal, and what armed this request."""
        self._goals.pop(context, None)
        self._arming.end(context.session_id, context.request_id)

    async def _conclude(self, context: AgentRunContext, goal: _Goal, outcome: Outcome) -> None:
        evaluation = outcome.evaluation
        if evaluation is None:
            state = GoalState.BLOCKED if outcome.error is None else GoalState.ERROR
            error = f": {failure_text(outcome.error)}" if outcome.error is not None else ""
            await self._finish(context, state, f"the evaluator did not decide after {outcome.attempts} attempts{error}")
            return
        await self._tell(
            context, "goal_evaluated", goal, attempts=outcome.attempts, **evaluation.model_dump(mode="json")
        )
        if evaluation.achieved:
            await self._finish(context, GoalState.MET, evaluation.summary)
        elif goal.iterations >= self.max_iterations:
            text = f"the goal was not reached within {self.max_iterations} continuations"
            await self._finish(context, GoalState.EXHAUSTED, text)
            raise AgentIterationLimitError(
                f"{text}: {evaluation.summary}", limit="goal_iterations", value=self.max_iterations
            )
        else:
            goal.iterations += 1
            await self._go_on(context, goal, continuation(evaluation), evaluation.next_instruction or "")

    async def _go_on(self, context: AgentRunContext, goal: _Goal, text: str, instruction: str) -> None:
        marks = {
            "iteration": goal.iterations,
            "max_iterations": self.max_iterations,
            "max_decision_retries": self.max_decision_retries,
            "raw_content": instruction,
        }
        goal.queued = AgentMessage(content=text, attributes={ATTRIBUTE: marks})
        try:
            # Not counted by the agent: the goal has a bound of its own, and max_total_iterations holds in any case.
            await context.publish(InternalMessageEvent(goal.queued, counted=False))
        except InputRefusedError as error:
            await self._finish(context, GoalState.BLOCKED, str(error))

    async def _await_one(self, context: AgentRunContext, goal: _Goal, running: Sequence[_Background]) -> None:
        """Wait until a background task has ended, or a person speaks: until then there is nothing to evaluate."""
        await self._tell(context, "goal_waiting", goal, tasks=[task.task_id for _, task in running])
        goal.spoken, goal.loop = asyncio.Event(), asyncio.get_running_loop()
        name = f"zett goal of {context.session_id}"
        waiters: list[asyncio.Task[Any]] = [start_task(owner.wait(task), name) for owner, task in running]
        waiters.append(start_task(goal.spoken.wait(), name))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            goal.spoken = None
            await stop_tasks(waiters)

    def _wake(self, session_id: str) -> None:
        for context, goal in tuple(self._goals.items()):
            if context.session_id == session_id and goal.spoken is not None and goal.loop is not None:
                with suppress(RuntimeError):  # its loop is closed
                    goal.loop.call_soon_threadsafe(goal.spoken.set)

    async def _finish(self, context: AgentRunContext, state: GoalState, reason: str) -> None:
        goal = self._goals.pop(context, None)
        if goal is not None:
            await self._tell(context, "goal_finished", goal, state=state.value, reason=reason)

    async def _tell(self, context: AgentRunContext, name: str, goal: _Goal, **more: Any) -> None:
        payload = {
            "session_id": context.session_id,
            "goal": goal.target,
            "iteration": goal.iterations,
            "max_iterations": self.max_iterations,
            **more,
        }
        await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name=name, payload=payload))


_Background = tuple[AsyncSubAgentExtension, SubAgentTask]


def _running(context: AgentRunContext) -> list[_Background]:
    """The background tasks of the session that have not ended."""
    return [
        (extension, task)
        for extension in context.extensions
        if isinstance(extension, AsyncSubAgentExtension)
        for task in extension.tasks(context.session_id)
        if not task.finished
    ]


def _is_answer(response: ModelResponse) -> bool:
    stopped = response.stop is not None and response.stop.reason in _NO_ANSWER
    return not (stopped or response.message.tool_calls or FINAL_TURN in response.message.attributes)


def _unfinished(messages: Sequence[AnyMessage]) -> tuple[str, int] | None:
    """The goal of an interrupted request and how often it was told to go on; None when there is none to go on with."""
    rounds = 0
    for message in reversed(messages):
        mark = message.attributes.get(ATTRIBUTE)
        if isinstance(message, UserMessage):
            return (str(mark["target"]), rounds) if isinstance(mark, dict) and "target" in mark else None
        if isinstance(message, AgentMessage) and mark is not None:
            rounds += 1
        elif isinstance(message, AssistantMessage) and not (message.tool_calls or message.stop or rounds):
            return None  # the last answer was taken as it is
    return None


def _text(message: AnyMessage) -> str:
    return message.content if isinstance(message.content, str) else getattr(message, "text", "")
