"""Internal messages: a machine's request for one more model step."""

from __future__ import annotations

from typing import ClassVar

from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, InternalMessageEvent
from zett_agent.extensions.steering import InboxFinder, offer
from zett_agent.messages import AgentMessage
from zett_agent.waits import ExternalEvent

INTERNAL_MESSAGE_EVENT_NAME = "internal_message"


class InternalMessageExtension(AgentExtension):
    """Built into every agent: takes ``internal_message`` events and InternalMessageEvent notifications.

    The payload is ``{"content": text}``. The request is named by the config that is given beside the event.
    """

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (InternalMessageEvent,)

    def __init__(self, find_inbox: InboxFinder) -> None:
        self._find_inbox = find_inbox

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Queue the message; False when it is malformed or nobody takes it, InputRefusedError when there is no room."""
        content = event.payload.get("content")
        if event.name != INTERNAL_MESSAGE_EVENT_NAME or not isinstance(content, str) or not content.strip():
            return False
        inbox = self._find_inbox(config)
        if inbox is None or not inbox.takes_internal:
            return False
        notice = InternalMessageEvent(AgentMessage(content=content))
        return offer(inbox, lambda open_inbox: open_inbox.put_internal(notice))

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Queue a published message; InputRefusedError when the request takes none."""
        if isinstance(event, InternalMessageEvent):
            context.inbox.put_internal(event)
