"""Telling a parent what became of its background tasks: each outcome once, and never lost on the way."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from zett_agent.context import AgentRunContext
from zett_agent.extensions._subagents.board import ANNOUNCED, TaskBoard
from zett_agent.extensions._subagents.tasks import SubAgentTask
from zett_agent.messages import AgentMessage, AnyMessage, ToolMessage
from zett_agent.tools.base import current_tool_call_id

_LOG = logging.getLogger("zett_agent")

#: Characters of a report that a notice quotes; the whole of it is read with a tool.
QUOTED_CHARACTERS = 2_000

NoticeText = Callable[[SubAgentTask], str | None]


class Notices:
    """Which outcomes the parents know.

    An outcome counts as told when the message that holds it, a notice or a tool's result, is really in the history: a
    request that fails or is cancelled before that leaves it for the next one.
    """

    def __init__(self, board: TaskBoard, text: NoticeText) -> None:
        self._board = board
        self._text = text
        self._offered: WeakKeyDictionary[AgentRunContext, AgentMessage] = WeakKeyDictionary()
        self._shown: WeakKeyDictionary[AgentRunContext, dict[str, list[str]]] = WeakKeyDictionary()

    def compose(self, session_id: str) -> AgentMessage | None:
        """One message for all that the session's parent does not know yet; None when there is nothing to say."""
        texts: dict[str, str] = {}
        silent: list[str] = []
        for task in self._board.untold(session_id):
            text = self._text_of(task)
            if text:
                texts[task.task_id] = text
            else:
                silent.append(task.task_id)
        self._board.told(session_id, silent)
        if not texts:
            return None
        return AgentMessage(content="\n\n".join(texts.values()), attributes={ANNOUNCED: list(texts)})

    def offer(self, context: AgentRunContext) -> None:
        """Put that message, if there is one, into the history that the request is about to send."""
        if context in self._offered:
            return  # an earlier one is still on its way
        message = self.compose(context.session_id)
        if message is not None:
            self._offered[context] = message
            context.add_message(message)

    def waiting(self, session_id: str) -> bool:
        """True when there is an outcome that the session's parent does not know."""
        return bool(self._board.untold(session_id))

    def delivered(self, session_id: str, message: AgentMessage) -> bool:
        """True when every outcome of ``message`` is told."""
        return not set(message.attributes[ANNOUNCED]) & {task.task_id for task in self._board.untold(session_id)}

    def show(self, context: AgentRunContext, tasks: Iterable[SubAgentTask]) -> None:
        """The running call's result tells how ``tasks`` ended, as soon as it is in the history."""
        ended = [task.task_id for task in tasks if task.finished]
        call_id = current_tool_call_id()
        if call_id is None:  # the tool was called by hand: whoever called it has read the result
            self._board.told(context.session_id, ended)
        elif ended:
            self._shown.setdefault(context, {})[call_id] = ended

    def appended(self, context: AgentRunContext, message: AnyMessage) -> None:
        """``message`` is in the history."""
        told: list[str] = []
        if isinstance(message, AgentMessage):
            told = message.attributes.get(ANNOUNCED, told)
            if self._offered.get(context) is message:
                del self._offered[context]
        elif isinstance(message, ToolMessage) and message.success:
            told = self._shown.get(context, {}).pop(message.tool_call_id, told)
        if told:
            self._board.told(context.session_id, told)

    def withdraw(self, context: AgentRunContext) -> None:
        """The request ended: a message that it did not announce must not be remembered, for it will be sent again."""
        offered = self._offered.pop(context, None)
        if offered is not None:
            kept = [message for message in context.transcript.view() if message is not offered]
            context.replace_messages(kept, emit_new=False)

    def _text_of(self, task: SubAgentTask) -> str | None:
        try:
            text = self._text(task)
            if text is not None and not isinstance(text, str):
                raise TypeError(f"a notice is text or None, not {type(text).__name__}")
            return text
        except Exception as error:
            _LOG.warning("completion_notice failed for %s: %s", task.task_id, error, exc_info=error)
            return notice(task)


def notice(task: SubAgentTask, *, quoted: int | None = QUOTED_CHARACTERS) -> str:
    """How a task ended, as one line that a report cannot break out of: what the child wrote is quoted as JSON."""
    said: dict[str, object] = {"description": task.description}
    if task.content is not None:
        said["report"] = task.content[:quoted]
        if len(task.content) > len(task.content[:quoted]):
            said["cut_off"] = f"the whole report has {len(task.content)} characters; read it with task_output"
    if task.error is not None:
        said["error"] = task.error
    head = f"[background task {task.task_id} of subagent {task.subagent_type} {task.status.value}]"
    return f"{head} {json.dumps(said, ensure_ascii=False)}"
