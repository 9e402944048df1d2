"""Steering: a user's message that redirects a request while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from typing_extensions import TypeAliasType

from zett_agent._runtime.inbox import Inbox, is_blank
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, SteeringMessageEvent
from zett_agent.messages import UserMessage, copy_user_message
from zett_agent.waits import ExternalEvent

STEERING_MESSAGE_EVENT_NAME = "steering_message"

InboxFinder = TypeAliasType("InboxFinder", Callable[[AgentRunConfig | None], Inbox | None])


class SteeringExtension(AgentExtension):
    """Built into every agent: takes ``steering_message`` events and SteeringMessageEvent notifications.

    The payload is ``{"content": text}`` or ``{"message": UserMessage}``. The request is named by the config that is
    given beside the event, never by the payload.
    """

    subscribes: ClassVar[tuple[type[ExtensionEvent], ...]] = (SteeringMessageEvent,)

    def __init__(self, find_inbox: InboxFinder) -> None:
        self._find_inbox = find_inbox

    def accept(self, config: AgentRunConfig | None, event: ExternalEvent) -> bool:
        """Queue the message; False when it is malformed or nobody takes it, InputRefusedError when there is no room."""
        if event.name != STEERING_MESSAGE_EVENT_NAME:
            return False
        message = _message(event)
        return message is not None and offer(self._find_inbox(config), lambda inbox: inbox.put_steering(message))

    async def on_event(self, context: AgentRunContext, event: ExtensionEvent) -> None:
        """Queue a published message; InputRefusedError when the request takes none."""
        if isinstance(event, SteeringMessageEvent):
            context.inbox.put_steering(event.message)


def offer(inbox: Inbox | None, put: Callable[[Inbox], None]) -> bool:
    """Put something into an inbox that may be closed; InputRefusedError only when it is open and full."""
    if inbox is None or inbox.closed:
        return False
    try:
        put(inbox)
    except InputRefusedError:
        if inbox.closed:
            return False
        raise
    return True


def _message(event: ExternalEvent) -> UserMessage | None:
    content, message = event.payload.get("content"), event.payload.get("message")
    if isinstance(content, str) and content.strip():
        return UserMessage(content=content)
    if not isinstance(message, UserMessage):
        return None
    try:
        own = copy_user_message(message)
    except (TypeError, RecursionError):  # it was changed since it was made, and cannot be sent any more
        return None
    return None if is_blank(own) else own
