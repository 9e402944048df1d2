from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

import pytest

from zett_agent.exceptions import StoredFormatError
from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageUrlSource,
    Message,
    MessageRole,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.stop import StopInfo, StopReason
from zett_agent.storage.codec import decode_messages, encode_messages
from zett_agent.storage.messages import (
    MESSAGE_TYPES,
    MessageKind,
    decode_call,
    decode_message,
    encode_call,
    encode_message,
    register_message_type,
)

PICTURE = ImageContent(ImageBytesSource(b"\x89PNG\x00", "image/png"), ImageDetail.HIGH, "a chart")
LINKED = ImageContent(ImageUrlSource("https://example.org/a.png"))
STOP = StopInfo(
    StopReason.REFUSAL, "content_filter", "violence", "No.", "another-model", {"scores": [0.5, {"x": None}]}
)
EVERY: list[AnyMessage] = [
    SystemMessage(content="Be brief."),
    UserMessage(content="hi", attributes={"a": 1}, persist=False, include_in_messages=False),
    UserMessage(content=[TextContent("look"), PICTURE, LINKED]),
    UserMessage(content=[]),
    AssistantMessage(),
    AssistantMessage(
        content="Let me see.",
        reasoning="hm",
        tool_calls=(ToolCall("c1", "f", {"x": [1, None]}), ToolCall("c2", "g", {}, "no JSON")),
        provider="openai",
        model="m",
        replay_blocks=({"type": "thinking", "signature": "AbC=", "n": 2**70}, "opaque", None),
        stop=STOP,
    ),
    ToolMessage(tool_call_id="c1", name="f", content="done"),
    ToolMessage(tool_call_id="c1", name="f", content=[PICTURE], success=False),
    AgentMessage(content="A task ended."),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: message.role.value)
def test_every_message_comes_back_as_it_was(message: AnyMessage) -> None:
    restored = decode_message(cast("JsonValue", encode_message(message)))
    assert restored == message
    assert type(restored) is type(message)


def test_the_older_names_encode_a_list_of_messages_as_text() -> None:
    text = encode_messages(EVERY)
    assert decode_messages(text) == EVERY
    assert decode_messages(encode_messages([])) == []


def test_the_kinds_are_the_numbers_of_the_interface() -> None:
    assert {kind.name: kind.value for kind in MessageKind} == {
        "SYSTEM": 1, "USER": 2, "ASSISTANT": 3, "TOOL": 4, "CHECKPOINT": 5, "AGENT": 6
    }  # fmt: skip
    assert MESSAGE_TYPES[MessageKind.ASSISTANT] is AssistantMessage
    assert issubclass(MESSAGE_TYPES[MessageKind.CHECKPOINT], UserMessage)


def test_a_message_is_written_field_by_field() -> None:
    assert encode_message(ToolMessage(tool_call_id="c1", name="f", content=[TextContent("käse"), PICTURE])) == {
        "kind": 4,
        "data": {
            "tool_call_id": "c1",
            "name": "f",
            "content": [
                {"text": "käse"},
                {
                    "source": {"data": base64.b64encode(b"\x89PNG\x00").decode(), "media_type": "image/png"},
                    "detail": "high",
                    "alt_text": "a chart",
                },
            ],
            "success": True,
            "attributes": {},
            "persist": True,
            "include_in_messages": True,
        },
    }


def test_non_ascii_text_stays_readable() -> None:
    assert "käse 🙂" in encode_messages([UserMessage(content="käse 🙂")])


@pytest.mark.parametrize(
    "value",
    [
        {"__kcs_bytes__": "not base64"},
        {"__bytes__": "AAAA"},
        {"data": "AAAA", "media_type": "image/png"},
        {"source": {"data": "AAAA", "media_type": "image/png"}, "detail": "auto", "alt_text": None},
        {"kind": 2, "data": {}},
        {"text": "x"},
        {"": {"": {}}},
    ],
)
def test_core_32_user_data_that_looks_like_the_codec_comes_back_as_it_was(value: dict[str, Any]) -> None:
    call = ToolCall("c", "f", value)
    message = AssistantMessage(attributes=value, tool_calls=(call,), replay_blocks=(value,))
    assert decode_messages(encode_messages([message])) == [message]


def test_core_32_what_is_not_json_is_refused_by_name() -> None:
    for message, name in [
        (UserMessage(content="", attributes={"when": datetime.now(UTC)}), r"attributes\['when'\]"),
        (AssistantMessage(tool_calls=[ToolCall("c", "f", {"x": {1}})]), r"tool_calls\[0\]\.arguments\['x'\]"),
        (AssistantMessage(replay_blocks=cast("Any", [{"x": b""}])), r"replay_blocks\[0\]\['x'\]"),
        (AssistantMessage(stop=StopInfo(StopReason.OTHER, detail={"x": cast("Any", ())})), r"stop\.detail\['x'\]"),
    ]:
        with pytest.raises(StoredFormatError, match=f"^{name} must be JSON, not "):
            encode_message(message)


def edited(message: AnyMessage, **fields: object) -> AnyMessage:
    """A message that somebody has changed since it was made."""
    for name, value in fields.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (edited(UserMessage(content=""), content=None), "content must be a string or a list of parts, not NoneType"),
        (edited(UserMessage(content=""), content=["x"]), r"content\[0\] must be TextContent or ImageContent, not str"),
        (edited(SystemMessage(content=""), content=b""), "content must be a string, not bytes"),
        (AssistantMessage(model=cast("Any", 1)), "model must be a string, not int"),
        (AgentMessage(content="", persist=cast("Any", 1)), "persist must be True or False, not int"),
        (AgentMessage(content="", attributes=cast("Any", [])), "attributes must be an object, not list"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name(message: AnyMessage, problem: str) -> None:
    with pytest.raises(StoredFormatError, match=f"^{problem}$"):
        encode_message(message)


def test_an_encoded_message_shares_nothing_with_the_message() -> None:
    message = AssistantMessage(attributes={"a": [1]}, tool_calls=[ToolCall("c", "f", {"x": [1]})], replay_blocks=[[1]])
    encoded = encode_message(message)
    restored = decode_message(cast("JsonValue", encoded))
    assert isinstance(restored, AssistantMessage)
    message.attributes["a"].append(2)
    message.tool_calls[0].arguments["x"].append(2)
    restored.attributes["a"].append(3)
    again = decode_message(cast("JsonValue", encoded))
    assert isinstance(again, AssistantMessage)
    assert (again.attributes, again.tool_calls[0].arguments, again.replay_blocks) == ({"a": [1]}, {"x": [1]}, ([1],))


def test_sequences_come_back_as_tuples() -> None:
    message = AssistantMessage(tool_calls=[ToolCall("c", "f")], replay_blocks=[1])
    (restored,) = decode_messages(encode_messages([message]))
    assert restored == AssistantMessage(tool_calls=(ToolCall("c", "f"),), replay_blocks=(1,))


def test_lone_surrogates_are_replaced_in_text_and_kept_in_replay_blocks() -> None:
    call = ToolCall("c", "f", {"\ud800": "\udc00"})
    message = AssistantMessage(content="a\ud800", tool_calls=(call,), replay_blocks=({"raw": "\ud800"},))
    (restored,) = decode_messages(encode_messages([message]))
    clean = ToolCall("c", "f", {"\ufffd": "\ufffd"})
    assert restored == AssistantMessage(content="a\ufffd", tool_calls=(clean,), replay_blocks=({"raw": "\ud800"},))


def test_a_call_stands_alone_too() -> None:
    call = ToolCall("c", "f", {"x": 1}, "bad")
    assert decode_call(cast("JsonValue", encode_call(call))) == call


class Shouted(UserMessage):
    """Not registered, no dataclass of its own."""


@dataclass(slots=True, kw_only=True)
class Noted(UserMessage):
    notes: dict[str, Any] = field(default_factory=dict)
    level: int

    def __post_init__(self) -> None:
        if self.level < 0:
            raise ValueError("level must not be negative")


@dataclass(slots=True, kw_only=True)
class Starred(Noted):
    stars: int = 0


class Private(Message):
    role: ClassVar[MessageRole] = MessageRole.USER


def test_core_32_a_subclass_is_stored_as_its_nearest_known_base() -> None:
    assert decode_messages(encode_messages([Shouted(content="HI")])) == [UserMessage(content="HI")]


def test_a_registered_subclass_comes_back_as_itself_with_the_fields_it_adds() -> None:
    register_message_type(1001, Noted)
    register_message_type(1002, Starred)
    register_message_type(1001, Noted)
    noted, starred = Noted(content="x", notes={"a": [1]}, level=2), Starred(content="y", level=1, stars=5)
    assert decode_messages(encode_messages([noted, starred])) == [noted, starred]
    assert MESSAGE_TYPES[1001] is Noted
    data = cast("dict[str, Any]", encode_message(starred)["data"])
    del data["stars"]
    assert decode_message({"kind": 1002, "data": data}) == Starred(content="y", level=1)
    with pytest.raises(StoredFormatError, match=r"^level must be a finite number$"):
        encode_message(Noted(content="", level=cast("Any", float("nan"))))
    without = {key: value for key, value in data.items() if key != "level"}
    for broken in (without, {**data, "level": -1}):
        with pytest.raises(StoredFormatError, match=r"^message\.data makes no Starred: .*level"):
            decode_message({"kind": 1002, "data": broken})


def test_a_kind_or_class_that_is_taken_is_not_registered_again() -> None:
    for kind, cls in ((2, Shouted), (1003, UserMessage), (1, AssistantMessage)):
        with pytest.raises(ValueError, match=f"^kind {kind} or {cls.__name__} is already registered$"):
            register_message_type(kind, cls)
    register_message_type(MessageKind.USER, UserMessage)


def test_a_class_that_is_no_kind_of_message_is_refused() -> None:
    with pytest.raises(StoredFormatError, match="^Private is not a kind of message that can be stored$"):
        encode_message(Private())
    with pytest.raises(StoredFormatError, match="^Private is not a kind of message that can be stored$"):
        register_message_type(1004, Private)


def test_a_checkpoint_is_read_as_the_user_message_that_it_is() -> None:
    data = encode_message(UserMessage(content="summary"))["data"]
    restored = decode_message({"kind": 5, "data": data})
    assert isinstance(restored, UserMessage)
    assert restored.content == "summary"


def test_unknown_keys_are_ignored() -> None:
    encoded = encode_message(UserMessage(content=[TextContent("x")]))
    data = cast("dict[str, Any]", encoded["data"])
    data["content"][0]["later"] = 1
    assert decode_message({**encoded, "later": 1, "data": {**data, "later": 1}}) == UserMessage(
        content=[TextContent("x")]
    )


def changed(message: AnyMessage, **data: object) -> JsonValue:
    encoded = encode_message(message)
    return cast("JsonValue", {"kind": encoded["kind"], "data": {**cast("dict[str, Any]", encoded["data"]), **data}})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "message must be an object, not list"),
        ({}, "message.kind is missing; it must be an integer"),
        ({"kind": 99, "data": {}}, "message.kind 99 is unknown to this version"),
        ({"kind": 2}, "message.data must be an object, not NoneType"),
        ({"kind": 2, "data": {}}, "message.data.content is missing; it must be a string or a list of parts"),
        (changed(EVERY[1], content=1), "message.data.content must be a string or a list of parts, not int"),
        (changed(EVERY[1], content=["x"]), "content[0] must be an object, not str"),
        (changed(EVERY[1], content=[{"text": 1}]), "content[0].text must be a string, not int"),
        (changed(EVERY[1], content=[{}]), "content[0].source must be an object, not NoneType"),
        (changed(EVERY[1], attributes=1), "message.data.attributes must be an object, not int"),
        (changed(EVERY[5], stop=1), "message.data.stop must be an object, not int"),
        (changed(EVERY[5], stop={"reason": "tired"}), "message.data.stop.reason must be a known stop reason, not str"),
        (changed(EVERY[5], tool_calls=[{"id": "c"}]), "tool_calls[0].name is missing; it must be a string"),
    ],
)
def test_a_broken_message_is_refused_by_the_name_of_the_field(value: JsonValue, problem: str) -> None:
    with pytest.raises(StoredFormatError) as caught:
        decode_message(value)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"url": "file:///etc/passwd"}},
        {"source": {"data": "no base64!", "media_type": "image/png"}},
        {"source": {"data": "ä", "media_type": "image/png"}},
        {"source": {"data": "", "media_type": "image/png"}},
        {"source": {"data": "AAAA", "media_type": "text/plain"}},
        {"detail": "huge"},
    ],
)
def test_a_broken_image_is_refused(change: dict[str, Any]) -> None:
    image = {"source": {"url": "https://example.org"}, "detail": "auto", "alt_text": None, **change}
    with pytest.raises(StoredFormatError, match=r"^content\[0\] is not an image: "):
        decode_message(changed(EVERY[1], content=[image]))


def test_decoding_what_is_not_a_list_of_messages_is_refused() -> None:
    with pytest.raises(StoredFormatError, match="^messages must be a list, not dict$"):
        decode_messages("{}")
    with pytest.raises(StoredFormatError, match="^broken JSON: "):
        decode_messages("[")
