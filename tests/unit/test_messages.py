"""Messages: what they hold, what they refuse, what is copied."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.exceptions import AgentStopError
from zett_agent.messages import (
    AgentMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserContentPart,
    UserMessage,
    content_parts,
    content_text,
    copy_user_message,
)
from zett_agent.stop import StopInfo, StopReason

PICTURE = ImageContent(ImageBytesSource(b"x", "image/png"))


@pytest.mark.parametrize("url", ["https://a/b.png", "http://a", "data:image/png;base64,AA", "  https://padded "])
def test_an_image_url_is_kept_as_it_is(url: str) -> None:
    assert ImageUrlSource(url).url == url


@pytest.mark.parametrize("url", ["", "  ", "ftp://a", "/etc/passwd", "data:text/plain,x"])
def test_other_image_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must start with"):
        ImageUrlSource(url)


@pytest.mark.parametrize(("data", "media_type"), [(b"", "image/png"), (b"x", "text/plain"), (b"x", "")])
def test_image_bytes_need_data_and_an_image_type(data: bytes, media_type: str) -> None:
    with pytest.raises(ValueError, match="must"):
        ImageBytesSource(data, media_type)


def test_the_bytes_of_an_image_are_not_in_its_repr() -> None:
    assert "secret" not in repr(ImageContent(ImageBytesSource(b"secret", "IMAGE/PNG ")))
    assert PICTURE.detail is ImageDetail.AUTO


def test_text_content_and_parts_are_views_of_each_other() -> None:
    parts: list[UserContentPart] = [TextContent("a"), PICTURE, TextContent("b")]
    user = UserMessage(content=list(parts))
    assert user.text == "a\nb" and user.parts == parts
    assert UserMessage(content="x").parts == [TextContent("x")]
    assert ToolMessage(tool_call_id="1", name="t", content=list(parts)).text == "a\nb"
    assert content_text("x") == "x" and content_parts("x") == [TextContent("x")]


def test_the_parts_are_a_new_list() -> None:
    user = UserMessage(content=[TextContent("a")])
    user.parts.clear()
    assert user.text == "a"


def test_messages_are_keyword_only_and_compare_by_value() -> None:
    make: Any = UserMessage
    with pytest.raises(TypeError):
        make("x")
    assert UserMessage(content="x") == UserMessage(content="x")
    with pytest.raises(TypeError):
        hash(UserMessage(content="x"))


@pytest.mark.parametrize(
    ("message", "role", "replayed"),
    [
        (SystemMessage(content="x"), "system", False),
        (UserMessage(content="x"), "user", True),
        (AssistantMessage(), "assistant", True),
        (ToolMessage(tool_call_id="1", name="t", content="x"), "tool", True),
        (AgentMessage(content="x"), "agent", True),
    ],
)
def test_only_system_messages_are_not_replayed_by_default(message: Any, role: str, replayed: bool) -> None:
    assert message.role == role
    assert message.include_in_messages is replayed
    assert message.persist is True and message.attributes == {}


def test_raising_for_a_stop() -> None:
    for stop in (None, StopInfo(StopReason.END_TURN), StopInfo(StopReason.TOOL_USE)):
        fine = AssistantMessage(content="x", stop=stop)
        assert fine.raise_for_stop() is fine
    cut = AssistantMessage(content="x", stop=StopInfo(StopReason.MAX_OUTPUT, "length"))
    with pytest.raises(AgentStopError, match=r"the model stopped: max_output \(length\)") as error:
        cut.raise_for_stop()
    assert error.value.stop is cut.stop and error.value.message is cut


def test_a_tool_call_takes_its_fields_by_position() -> None:
    call = ToolCall("1", "add", {"a": 1})
    assert (call.id, call.name, call.arguments, call.error) == ("1", "add", {"a": 1}, None)


def test_the_copy_of_a_user_message_shares_nothing_mutable() -> None:
    own = UserMessage(content=[TextContent("a")], attributes={"k": 1})
    copy = copy_user_message(own)
    assert copy == own
    own.attributes["k"] = 2
    assert isinstance(own.content, list)
    own.content.append(PICTURE)
    assert copy == UserMessage(content=[TextContent("a")], attributes={"k": 1})
    assert copy_user_message(UserMessage(content="x")) == UserMessage(content="x")


def test_opaque_provider_data_is_not_in_the_repr() -> None:
    assert "signature" not in repr(AssistantMessage(replay_blocks=({"signature": "s"},)))
