"""The inbox: two queues, bounded, closed in one step with finding them empty."""

from __future__ import annotations

import threading

import pytest

from zett_agent._runtime.inbox import CAPACITY, Inbox
from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.events import InternalMessageEvent
from zett_agent.messages import AgentMessage, ImageContent, ImageUrlSource, TextContent, UserMessage


def steering(content: str) -> UserMessage:
    return UserMessage(content=content)


def internal(content: str) -> InternalMessageEvent:
    return InternalMessageEvent(AgentMessage(content=content))


def opened() -> Inbox:
    inbox = Inbox()
    inbox.open()
    return inbox


def test_steering_is_taken_before_internal_messages_each_in_order() -> None:
    inbox = opened()
    first, second = internal("i1"), internal("i2")
    inbox.put_internal(first)
    inbox.put_steering(steering("s1"))
    inbox.put_internal(second)
    inbox.put_steering(steering("s2"))
    assert inbox.has_steering
    taken = [inbox.take_next() for _ in range(4)]
    assert taken == [steering("s1"), steering("s2"), first, second]
    assert not inbox.closed
    assert inbox.take_next() is None
    assert inbox.closed


def test_taking_steering_leaves_the_rest() -> None:
    inbox = opened()
    inbox.put_internal(internal("i"))
    assert inbox.take_steering() is None
    inbox.put_steering(steering("s"))
    assert inbox.take_steering() == steering("s")
    assert not inbox.has_steering


def test_a_closed_inbox_refuses() -> None:
    inbox = Inbox()
    assert inbox.closed
    with pytest.raises(InputRefusedError, match="no request of this session takes steering messages now"):
        inbox.put_steering(steering("x"))
    with pytest.raises(InputRefusedError, match="takes internal messages now"):
        inbox.put_internal(internal("x"))


def test_closing_hands_back_what_was_never_taken() -> None:
    inbox = opened()
    inbox.put_internal(internal("i"))
    inbox.put_steering(steering("s"))
    assert inbox.close() == (steering("s"), AgentMessage(content="i"))
    assert inbox.closed and inbox.close() == ()


def test_each_queue_is_bounded() -> None:
    inbox = opened()
    for n in range(CAPACITY):
        inbox.put_steering(steering(str(n)))
        inbox.put_internal(internal(str(n)))
    with pytest.raises(InputRefusedError, match=f"{CAPACITY} messages wait already"):
        inbox.put_steering(steering("x"))
    with pytest.raises(InputRefusedError, match=f"{CAPACITY} messages wait already"):
        inbox.put_internal(internal("x"))


@pytest.mark.parametrize("message", [steering(""), steering("  "), UserMessage(content=[TextContent(" ")])])
def test_core_23_empty_steering_is_refused(message: UserMessage) -> None:
    with pytest.raises(InputRefusedError, match="must have text or an image"):
        opened().put_steering(message)


def test_steering_may_be_an_image() -> None:
    inbox = opened()
    inbox.put_steering(UserMessage(content=[ImageContent(ImageUrlSource("https://a/b.png"))]))
    assert inbox.has_steering


def test_internal_messages_can_be_disabled() -> None:
    inbox = Inbox(internal_allowed=False)
    inbox.open()
    assert not inbox.takes_internal
    with pytest.raises(InputRefusedError, match="max_internal_messages is 0"):
        inbox.put_internal(internal("x"))


def test_what_is_accepted_from_many_threads_is_taken_or_handed_back_and_never_lost() -> None:
    inbox, accepted = opened(), []
    go = threading.Barrier(5)

    def send(name: str) -> None:
        go.wait()
        for n in range(60):
            try:
                inbox.put_steering(steering(f"{name}{n}"))
            except InputRefusedError:
                return
            accepted.append(f"{name}{n}")

    threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    go.wait()
    got: list[object] = []
    while (message := inbox.take_next()) is not None:
        got.append(message)
    for thread in threads:
        thread.join()
    assert sorted(message.content for message in got if isinstance(message, UserMessage)) == sorted(accepted)
