"""The agents that evaluate answers: one child session for each answer, asked until it has decided."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentCancelledError
from zett_agent.extensions._goal.evaluation import (
    MISSING_REPORT,
    REPORT_TOOL_NAME,
    GoalEvaluation,
    evaluator_prompt,
    report_tool,
)
from zett_agent.extensions._subagents.creation import create_child
from zett_agent.extensions._subagents.definition import SubAgentDefinition
from zett_agent.extensions._subagents.forwarding import forward
from zett_agent.extensions._subagents.nursery import Nursery
from zett_agent.extensions._subagents.tree import Child
from zett_agent.extensions.memory import InMemoryMessageAccumulator

_LOG = logging.getLogger("zett_agent")


@dataclass(slots=True)
class Outcome:
    """What came of evaluating one answer: a decision, or None after so many attempts, and the error of the last one."""

    evaluation: GoalEvaluation | None = None
    attempts: int = 0
    error: Exception | None = None


class Evaluators:
    """Opens the sessions of evaluators.

    An evaluator is a child like any subagent: what the parent's extensions hand on holds for it, and its questions go
    the same way. No bound of subagents holds, since a goal bounds its evaluations itself.
    """

    def __init__(self, max_retries: int) -> None:
        self.nursery = Nursery(create_child)
        self._max_retries = max_retries

    async def evaluate(
        self, context: AgentRunContext, definition: SubAgentDefinition, target: str, answer: str
    ) -> Outcome:
        """Have ``answer`` judged against ``target``; an evaluator that fails is asked again, within the retries."""
        decisions: list[GoalEvaluation] = []
        child = await self.nursery.open(_equipped(definition, decisions.append), context)
        try:
            return await _Evaluation(context, child, decisions, self._max_retries).decide(target, answer)
        finally:
            await self.nursery.close(child)


def _equipped(definition: SubAgentDefinition, accept: Callable[[GoalEvaluation], None]) -> SubAgentDefinition:
    """The definition with the tool that decides, and with a memory for what it is asked after the first time."""
    remembers = any(isinstance(extension, InMemoryMessageAccumulator) for extension in definition.extensions)
    memory = () if remembers else (InMemoryMessageAccumulator(),)
    tools = (*definition.tools, report_tool(accept))
    return replace(definition, tools=tools, extensions=(*definition.extensions, *memory))


@dataclass(slots=True, eq=False)
class _Evaluation:
    """One child on its way to a decision. A report that is refused counts as a failed attempt, as does none."""

    context: AgentRunContext
    child: Child
    decisions: list[GoalEvaluation]
    max_retries: int
    failures: int = 0
    #: Refused reports of the current attempt.
    refused: int = field(default=0, init=False)

    async def decide(self, target: str, answer: str) -> Outcome:
        task = prompt = evaluator_prompt(target, answer)
        error: Exception | None = None
        while self.failures <= self.max_retries:
            self.refused = 0
            error = await self._attempt(prompt)
            if self.decisions:
                return Outcome(self.decisions[0], self.failures + 1)
            self.failures += max(1, self.refused)
            # What failed before it was answered is not remembered, so it is asked anew.
            prompt = MISSING_REPORT if error is None else task
        return Outcome(None, self.failures, error)

    async def _attempt(self, prompt: str) -> Exception | None:
        try:
            await self.child.run(prompt, self._show)
        except AgentCancelledError:
            return None  # it has decided, or failed to decide too often
        except Exception as error:
            _LOG.warning("the evaluator of session %s failed: %s", self.context.session_id, error, exc_info=error)
            return error
        return None

    async def _show(self, event: AgentEvent) -> None:
        await forward(self.context, self.child, event, everything=False)
        if not event.tool_calls or event.tool_calls[0].name != REPORT_TOOL_NAME:
            return
        if event.type is AgentEventType.TOOL_FAILED:
            self.refused += 1
        if self.decisions or self.failures + self.refused > self.max_retries:
            self.child.agent.stop(mode="after_turn")  # nothing that it could still say is needed
