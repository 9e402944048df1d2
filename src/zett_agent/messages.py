"""The messages of a conversation.

Messages are mutable while an extension may shape them and are treated as final once appended: histories share them,
they are never copied again. What a provider sends is what a message holds at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from typing_extensions import TypeAliasType

from zett_agent._checks import instance
from zett_agent._wire_form import Convertible
from zett_agent.exceptions import AgentStopError
from zett_agent.json_types import JsonValue, copy_json
from zett_agent.stop import StopInfo


class MessageRole(StrEnum):
    """Who a message is from; ``agent`` is a machine message that providers receive as user input."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    AGENT = "agent"


class ImageDetail(StrEnum):
    """How closely a model should look at an image."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text part."""

    text: str

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            instance("text", self.text, str)


@dataclass(frozen=True)
class ImageUrlSource:
    """An image by ``https://``, ``http://`` or ``data:image/`` URL."""

    url: str

    def __post_init__(self) -> None:
        instance("url", self.url, str)
        if not self.url.strip().startswith(("https://", "http://", "data:image/")):
            raise ValueError("url must start with https://, http:// or data:image/")


@dataclass(frozen=True)
class ImageBytesSource:
    """An image by its bytes; ``media_type`` is such as ``image/png``."""

    data: bytes = field(repr=False)
    media_type: str

    def __post_init__(self) -> None:
        instance("data", self.data, bytes)
        instance("media_type", self.media_type, str)
        if not self.data:
            raise ValueError("data must not be empty")
        if not self.media_type.strip().lower().startswith("image/"):
            raise ValueError(f"media_type must start with image/, not {self.media_type!r}")


ImageSource = TypeAliasType("ImageSource", ImageUrlSource | ImageBytesSource)


@dataclass(frozen=True)
class ImageContent(Convertible):
    """An image part; ``alt_text`` says what it shows."""

    source: ImageSource
    detail: ImageDetail = ImageDetail.AUTO
    alt_text: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, ImageUrlSource | ImageBytesSource):
            given = type(self.source).__name__
            raise TypeError(f"source must be an ImageUrlSource or an ImageBytesSource, not {given}")
        instance("detail", self.detail, ImageDetail)
        if self.alt_text is not None:
            instance("alt_text", self.alt_text, str)


UserContentPart = TypeAliasType("UserContentPart", TextContent | ImageContent)
UserContent = TypeAliasType("UserContent", str | list[UserContentPart])


@dataclass(slots=True)
class ToolCall:
    """One call of the model; when ``error`` is set it is never executed and the text becomes its failed result."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Message(Convertible):
    """Base of all messages.

    ``attributes`` never reach a provider. ``persist`` says whether stores keep the message, ``include_in_messages``
    whether later requests of the session see it again.
    """

    role: ClassVar[MessageRole]

    attributes: dict[str, Any] = field(default_factory=dict)
    persist: bool = True
    include_in_messages: bool = True


@dataclass(slots=True, kw_only=True)
class SystemMessage(Message):
    """Instructions; rebuilt for each request, so not replayed by default."""

    role: ClassVar[MessageRole] = MessageRole.SYSTEM

    content: str
    include_in_messages: bool = False

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            instance("content", self.content, str)


@dataclass(slots=True, kw_only=True)
class UserMessage(Message):
    """What a person says: text, or a list of text and image parts."""

    role: ClassVar[MessageRole] = MessageRole.USER

    content: UserContent

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            _check_content(self.content)

    @property
    def parts(self) -> list[UserContentPart]:
        """The content as parts."""
        return content_parts(self.content)

    @property
    def text(self) -> str:
        """The text parts, joined with newlines."""
        return content_text(self.content)


@dataclass(slots=True, kw_only=True)
class AssistantMessage(Message):
    """What the model says; ``replay_blocks`` is opaque data for the same provider and model only."""

    role: ClassVar[MessageRole] = MessageRole.ASSISTANT

    content: str = ""
    reasoning: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    provider: str | None = None
    model: str | None = None
    replay_blocks: Sequence[JsonValue] = field(default=(), repr=False)
    stop: StopInfo | None = None

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            instance("content", self.content, str)
        if self.reasoning is not None and type(self.reasoning) is not str:
            instance("reasoning", self.reasoning, str)
        if self.tool_calls:
            _check_calls(self.tool_calls)

    def raise_for_stop(self) -> Self:
        """Return the message, or raise AgentStopError when the model ended abnormally."""
        if self.stop is not None and not self.stop.ok:
            raise AgentStopError(self.stop, self)
        return self


@dataclass(slots=True, kw_only=True)
class ToolMessage(Message):
    """The result of one call."""

    role: ClassVar[MessageRole] = MessageRole.TOOL

    tool_call_id: str
    name: str
    content: UserContent
    success: bool = True

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            _check_content(self.content)

    @property
    def text(self) -> str:
        """The text parts, joined with newlines."""
        return content_text(self.content)


@dataclass(slots=True, kw_only=True)
class AgentMessage(Message):
    """A machine's message to the model (a notice, a nudge); providers receive it as user input."""

    role: ClassVar[MessageRole] = MessageRole.AGENT

    content: str

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            instance("content", self.content, str)


AnyMessage = TypeAliasType("AnyMessage", SystemMessage | UserMessage | AssistantMessage | ToolMessage | AgentMessage)


_KINDS = (SystemMessage, UserMessage, AssistantMessage, ToolMessage, AgentMessage)


def check_message(message: object) -> None:
    """TypeError unless it is a message that a provider can send: what it holds may have changed since it was made."""
    match message:
        case AssistantMessage():
            AssistantMessage.__post_init__(message)
        case UserMessage() | ToolMessage():
            _check_content(message.content)
        case SystemMessage() | AgentMessage():
            instance("content", message.content, str)
        case _:
            kinds = ", ".join(kind.__name__ for kind in _KINDS)
            raise TypeError(f"a message must be one of {kinds}, not {type(message).__name__}")


def _check_content(content: object) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        wanted = "a string or a list of TextContent and ImageContent"
        raise TypeError(f"content must be {wanted}, not {type(content).__name__}")
    for part in content:
        if not isinstance(part, (TextContent, ImageContent)):
            raise TypeError(f"content must hold TextContent and ImageContent, not {type(part).__name__}")


def _check_calls(calls: object) -> None:
    if type(calls) is not tuple and (isinstance(calls, str) or not isinstance(calls, Sequence)):
        raise TypeError(f"tool_calls must be a sequence of ToolCall, not {type(calls).__name__}")
    for call in calls:
        if type(call) is not ToolCall and not isinstance(call, ToolCall):
            raise TypeError(f"tool_calls must hold ToolCall objects, not {type(call).__name__}")


def content_parts(content: UserContent) -> list[UserContentPart]:
    """Content as a new list of parts."""
    return [TextContent(content)] if isinstance(content, str) else list(content)


def content_text(content: UserContent) -> str:
    """The text of content, parts joined with newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, TextContent))


def copy_assistant_message(
    message: AssistantMessage, tool_calls: Sequence[ToolCall], stop: StopInfo | None
) -> AssistantMessage:
    """A copy with these calls and this stop; it shares no mapping with ``message``."""
    if type(message) is not AssistantMessage:
        return replace(message, attributes=dict(message.attributes), tool_calls=tool_calls, stop=stop)
    return AssistantMessage(  # once per model step, and three times as fast as replace()
        attributes=dict(message.attributes),
        persist=message.persist,
        include_in_messages=message.include_in_messages,
        content=message.content,
        reasoning=message.reasoning,
        tool_calls=tool_calls,
        provider=message.provider,
        model=message.model,
        replay_blocks=message.replay_blocks,
        stop=stop,
    )


def copy_user_message(message: UserMessage) -> UserMessage:
    """A copy that shares nothing mutable with ``message``; content parts are immutable and shared.

    TypeError when it cannot be sent any more.
    """
    check_message(message)
    content = message.content if isinstance(message.content, str) else list(message.content)
    return replace(message, content=content, attributes=copy_json(message.attributes))


def copy_agent_message(message: AgentMessage) -> AgentMessage:
    """A copy that shares nothing mutable with ``message``."""
    return replace(message, attributes=copy_json(message.attributes))
