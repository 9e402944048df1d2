"""Subagents in the foreground: a tool that hands work to another agent and waits for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent
from zett_agent.extensions._subagents.creation import create_child, with_inherited
from zett_agent.extensions._subagents.definition import SubAgentDefinition, default_subagents
from zett_agent.extensions._subagents.forwarding import forward
from zett_agent.extensions._subagents.nursery import Nursery
from zett_agent.extensions._subagents.offer import Description, Offer, Prompt, SubAgentName
from zett_agent.extensions._subagents.report import SubAgentResult, subagent_report
from zett_agent.extensions._subagents.tree import Caps
from zett_agent.extensions.base import AgentExtension
from zett_agent.tools.base import AgentTool, tool
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "SubAgentDefinition",
    "SubAgentExtension",
    "SubAgentResult",
    "default_subagents",
    "subagent_report",
    "with_inherited",
]


class SubAgentExtension(AgentExtension):
    """Offers ``task``: a subagent works in a session of its own, and its report is the result of the call.

    ``max_depth`` bounds the levels below the root, ``max_children`` those that run at once for a session (more wait
    their turn), ``max_total`` what a request may start in its whole tree; a child shares what is left. Children inherit
    what the extensions of the parent hand on (``for_child``). Their questions are shown on the parent's stream and
    answered through the parent's agent, with the child's session in the config; with ``forward_events`` everything else
    of them is shown too, as CUSTOM ``subagent_event``. Bad options raise ValueError.
    """

    def __init__(
        self,
        subagents: Sequence[SubAgentDefinition] | None = None,
        *,
        max_depth: int = 2,
        max_children: int = 16,
        max_total: int = 100,
        forward_events: bool = False,
    ) -> None:
        self.forward_events = forward_events
        #: The children that run, and where their sessions stand in the tree.
        self.nursery = Nursery(self._create_child, Caps(max_depth, max_children, max_total))
        self._offer = Offer(subagents)
        self._task_tool = tool(self._task, name="task")

    async def on_tool(self, context: AgentRunContext) -> None:
        """Register the tools for this request."""
        for offered in self.build_tools(context, self._offer.kinds(context.model)):
            context.register_tool(offered)

    def build_tools(
        self, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
    ) -> tuple[AgentTool, ...]:
        """The tools for one request; ``subagents`` maps the names that the model may choose to their definitions."""
        return (self._offer.make(self._task_tool, context, subagents),)

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Pass an event for the session of a running child, at any depth, on to that child."""
        return self.nursery.accept(config, event)

    def open_waits(self, session_id: str | None = None) -> Sequence[Wait]:
        """The open questions of running children, and of theirs."""
        return [wait for _, wait in self.nursery.questions(session_id)]

    def choose(self, context: AgentRunContext, name: str) -> SubAgentDefinition:
        """The definition that the request offers under this name; ValueError names those that there are."""
        return self._offer.choose(context, name)

    async def end_session(self, session_id: str) -> None:
        """The session of a child that used this extension is over; what it left running is stopped."""

    async def _task(
        self, description: Description, prompt: Prompt, subagent_type: SubAgentName, context: AgentRunContext
    ) -> SubAgentResult:
        """Give a self-contained piece of work to a subagent and wait for its report.

        The subagent starts without any knowledge of this conversation, and nothing but its report comes back.

        Args:
            description: What the work is, in a few words, for people who watch.
            prompt: The whole task: the goal, what is known already, the limits, and what the report must hold.
            subagent_type: Which kind of subagent.

        Snippet:
            Give a self-contained piece of work to a subagent and get its report.

        Guidelines:
            - Send independent pieces of work in one response; their subagents work at the same time.
            - Write into the prompt all that the subagent must know; it cannot ask you.
            - Do small things yourself.
        """
        child = await self.nursery.open(self.choose(context, subagent_type), context, in_turn=True)

        async def show(event: AgentEvent) -> None:
            await forward(context, child, event, everything=self.forward_events)

        try:
            answer = await child.run(prompt, show)
        finally:
            await self.nursery.close(child)
        return SubAgentResult(
            session_id=child.session_id,
            parent_session_id=child.parent_session_id,
            subagent_type=child.name,
            content=subagent_report(answer),
            stop=answer.stop,
        )

    async def _create_child(
        self, definition: SubAgentDefinition, child_session_id: str, context: AgentRunContext
    ) -> Agent:
        """Build the agent of one child. Override to change it; ``with_inherited`` is what hands policies on."""
        return await create_child(definition, child_session_id, context)
