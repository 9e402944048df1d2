"""What the internal message extension takes. Where it takes effect: tests/engine/test_internal_messages.py."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent._runtime.inbox import CAPACITY, Inbox
from zett_agent.config import AgentRunConfig
from zett_agent.exceptions import InputRefusedError
from zett_agent.extensions.internal_message import InternalMessageExtension
from zett_agent.messages import AgentMessage
from zett_agent.waits import ExternalEvent

CONFIG = AgentRunConfig("s")
EVENT = ExternalEvent("internal_message", {"content": "x"})


def opened() -> Inbox:
    inbox = Inbox()
    inbox.open()
    return inbox


@pytest.mark.parametrize("payload", [{}, {"content": ""}, {"content": " "}, {"content": 3}])
def test_an_internal_message_needs_text(payload: dict[str, Any]) -> None:
    extension = InternalMessageExtension(lambda config: opened())
    assert not extension.accept(CONFIG, ExternalEvent("internal_message", payload))
    assert not extension.accept(CONFIG, ExternalEvent("other", {"content": "x"}))


def test_core_27_the_request_is_named_by_the_config_beside_the_event() -> None:
    asked: list[AgentRunConfig | None] = []
    inbox = opened()

    def find(config: AgentRunConfig | None) -> Inbox:
        asked.append(config)
        return inbox

    event = ExternalEvent("internal_message", {"content": "x", "session_id": "another"})
    assert InternalMessageExtension(find).accept(CONFIG, event)
    assert asked == [CONFIG]
    assert inbox.close() == (AgentMessage(content="x"),)


def test_without_a_request_that_takes_it_the_answer_is_no() -> None:
    disabled = Inbox(internal_allowed=False)
    disabled.open()
    for inbox in (None, Inbox(), disabled):
        assert not InternalMessageExtension(lambda config, inbox=inbox: inbox).accept(CONFIG, EVENT)  # type: ignore[misc]


def test_a_full_inbox_is_an_error_not_a_no() -> None:
    inbox = opened()
    extension = InternalMessageExtension(lambda config: inbox)
    for _ in range(CAPACITY):
        assert extension.accept(CONFIG, EVENT)
    with pytest.raises(InputRefusedError, match="wait already"):
        extension.accept(CONFIG, EVENT)
