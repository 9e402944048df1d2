"""What the steering extension takes, and what it refuses. Where it takes effect: tests/engine/test_steering.py."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent._runtime.inbox import CAPACITY, Inbox
from zett_agent.config import AgentRunConfig
from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.events import ExtensionEvent, InternalMessageEvent, SteeringMessageEvent
from zett_agent.extensions.internal_message import InternalMessageExtension
from zett_agent.extensions.steering import SteeringExtension
from zett_agent.messages import ImageContent, ImageUrlSource, TextContent, UserMessage
from zett_agent.waits import ExternalEvent

CONFIG = AgentRunConfig("s")
PICTURE = ImageContent(ImageUrlSource("https://a/b.png"))


def opened() -> Inbox:
    inbox = Inbox()
    inbox.open()
    return inbox


def over(inbox: Inbox | None) -> SteeringExtension:
    return SteeringExtension(lambda config: inbox if config is not None else None)


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        ({"content": "stop"}, "stop"),
        ({"message": UserMessage(content="stop")}, "stop"),
        ({"message": UserMessage(content=[TextContent("see"), PICTURE])}, [TextContent("see"), PICTURE]),
        ({"message": UserMessage(content=[PICTURE])}, [PICTURE]),
    ],
)
def test_text_or_a_message_is_taken(payload: dict[str, Any], content: object) -> None:
    inbox = opened()
    assert over(inbox).accept(CONFIG, ExternalEvent("steering_message", payload))
    taken = inbox.take_steering()
    assert taken is not None and taken.content == content


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"content": ""},
        {"content": "  "},
        {"content": 3},
        {"message": "x"},
        {"message": UserMessage(content="")},
        {"message": UserMessage(content=" ")},
        {"message": UserMessage(content=[])},
        {"message": UserMessage(content=[TextContent(" "), TextContent("")])},
    ],
)
def test_core_23_what_says_nothing_is_refused(payload: dict[str, Any]) -> None:
    inbox = opened()
    assert not over(inbox).accept(CONFIG, ExternalEvent("steering_message", payload))
    assert not inbox.has_steering


async def test_other_events_are_left_to_others() -> None:
    context: Any = None
    await over(None).on_event(context, ExtensionEvent())
    await InternalMessageExtension(lambda config: None).on_event(context, ExtensionEvent())
    assert not over(opened()).accept(CONFIG, ExternalEvent("internal_message", {"content": "x"}))


@pytest.mark.parametrize("config", [None, CONFIG])
def test_without_a_request_that_takes_it_the_answer_is_no(config: AgentRunConfig | None) -> None:
    event = ExternalEvent("steering_message", {"content": "x"})
    assert not over(None).accept(config, event)
    assert not over(Inbox()).accept(config, event)
    assert not over(opened()).accept(None, event)


def test_a_full_inbox_is_an_error_not_a_no() -> None:
    inbox = opened()
    steering, event = over(inbox), ExternalEvent("steering_message", {"content": "x"})
    for _ in range(CAPACITY):
        assert steering.accept(CONFIG, event)
    with pytest.raises(InputRefusedError, match="wait already"):
        steering.accept(CONFIG, event)


def test_an_inbox_that_closes_meanwhile_is_a_no() -> None:
    class Closing(Inbox):
        def put_steering(self, message: UserMessage) -> None:
            self.close()
            super().put_steering(message)

    inbox = Closing()
    inbox.open()
    assert not over(inbox).accept(CONFIG, ExternalEvent("steering_message", {"content": "x"}))


@pytest.mark.parametrize("kind", [SteeringMessageEvent, InternalMessageEvent])
def test_a_notification_holds_a_message_of_its_kind(kind: Any) -> None:
    with pytest.raises(TypeError, match="message must be a"):
        kind("x")
