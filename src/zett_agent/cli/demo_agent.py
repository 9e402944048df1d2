"""The agent of ``zett demo``: a release of Lantern, an imaginary application for notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from zett_agent.cli.demo_model import PlannedModel, release, research
from zett_agent.cli.render import NOTICE
from zett_agent.client import AgentClient, create_agent
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.permission import PermissionExtension, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.messages import AgentMessage
from zett_agent.tools.base import AgentTool, tool

GOAL = "Lantern is due for its next release. Check it, ask me what you need to know, and publish it."


@dataclass(frozen=True)
class Pace:
    """Seconds: between two words, for one unit of a tool's pretended work, and for a person to steer."""

    word: float
    work: float
    hesitation: float


def demo_tools(pace: Pace) -> tuple[AgentTool, ...]:
    """What the releasing agent can do; nothing of it is real."""
    return (*_tools_that_look(pace), *_tools_that_act(pace))


def _tools_that_look(pace: Pace) -> tuple[AgentTool, ...]:
    @tool
    async def run_tests(suite: str) -> dict[str, Any]:
        """Run the tests.

        Args:
            suite: Which ones; "all" for all.
        """
        await asyncio.sleep(4 * pace.work)
        return {"suite": suite, "passed": 412, "failed": 0, "seconds": 38}

    @tool
    async def read_changelog(since: str) -> dict[str, Any]:
        """Read what changed.

        Args:
            since: The version after which to begin.
        """
        await asyncio.sleep(2 * pace.work)
        return {
            "since": since,
            "added": ["search inside attachments", "a dark theme", "links between notes"],
            "breaking": ["export writes Markdown instead of HTML"],
        }

    return run_tests, read_changelog


def _tools_that_act(pace: Pace) -> tuple[AgentTool, ...]:
    @tool
    async def draft_announcement(version: str, sections: int, wish: str = "") -> dict[str, Any]:
        """Write the announcement.

        Args:
            version: The version to announce.
            sections: How many sections it has.
            wish: What the user said about it.
        """
        await asyncio.sleep(3 * pace.work)
        return {"sections": sections, "wish": wish, "text": _announcement(version, sections, wish)}

    @tool
    async def publish(version: str, channel: str) -> dict[str, Any]:
        """Publish the release. This cannot be undone.

        Args:
            version: The version to publish.
            channel: Who gets it: stable or beta.
        """
        await asyncio.sleep(2 * pace.work)
        return {"version": version, "channel": channel, "published": True}

    return draft_announcement, publish


def researcher(pace: Pace) -> SubAgentDefinition:
    """The subagent that works in the background, with a model and a tool of its own."""

    @tool
    async def list_issues(label: str) -> dict[str, Any]:
        """List open issues.

        Args:
            label: Only those with this label.
        """
        await asyncio.sleep(5 * pace.work)
        issues = [
            {"severity": "medium", "title": "scripts that read the HTML export must be changed"},
            {"severity": "low", "title": "the dark theme is untested on old screens"},
        ]
        return {"label": label, "issues": issues}

    return SubAgentDefinition(
        name="researcher",
        description="Goes through open issues and reports.",
        system_prompt="Report what you find, briefly.",
        model=PlannedModel(research, pause=pace.word),
        tools=(list_issues,),
    )


class WatchedTasks(AsyncSubAgentExtension):
    """Background subagents that report their beginning and their end to ``tell``, the moment it happens."""

    def __init__(self, subagents: Sequence[SubAgentDefinition], tell: Callable[[str], None]) -> None:
        super().__init__(subagents, forward_events=True)
        self._tell = tell

    async def task_started(self, task: SubAgentTask) -> None:
        """Tell that a task runs."""
        self._tell(f"{task.task_id} ({task.subagent_type}) works in the background: {task.description}")

    async def task_finished(self, task: SubAgentTask) -> None:
        """Tell how a task ended."""
        self._tell(f"{task.task_id} ({task.subagent_type}) has ended after {task.elapsed:.1f} s: {task.status.value}")


class ShownNotices(AgentExtension):
    """Shows on the stream what the model is told by machines, such as that a task has finished."""

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (MessageAppendedEvent,)

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Emit a CUSTOM event for each machine's message."""
        if isinstance(event, MessageAppendedEvent) and isinstance(event.message, AgentMessage):
            payload = {"content": event.message.content}
            await context.emit(AgentEvent(AgentEventType.CUSTOM, context.session_id, name=NOTICE, payload=payload))


async def demo_agent(pace: Pace, config: AgentRunConfig, tell: Callable[[str], None]) -> AgentClient:
    """The agent that the demo runs; ``tell`` hears of its background work."""
    return await create_agent(
        PlannedModel(release, pause=pace.word, hesitation=pace.hesitation),
        config=config,
        system_prompt="You release software, carefully.",
        tools=demo_tools(pace),
        extensions=[
            InMemoryMessageAccumulator(),
            ToolGuidelinesExtension(),
            AskUserExtension(),
            PermissionExtension(
                [PermissionRule("publish", "ask", reason="Publishing cannot be undone.")], default="allow"
            ),
            WatchedTasks([researcher(pace)], tell),
            ShownNotices(),
        ],
    )


def _announcement(version: str, sections: int, wish: str) -> str:
    if sections > 1:
        return f"Lantern {version}: two pages in {sections} sections."
    asked = f" (written to your wish: {wish})" if wish else ""
    return f"Lantern {version}: search in attachments, a dark theme, linked notes. Export now writes Markdown.{asked}"
