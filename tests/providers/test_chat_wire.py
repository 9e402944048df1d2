from __future__ import annotations

import copy
import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zett_agent.json_types import JsonValue
from zett_agent.messages import (
    AgentMessage,
    AnyMessage,
    AssistantMessage,
    ImageBytesSource,
    ImageContent,
    ImageDetail,
    ImageUrlSource,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from zett_agent.model import ModelRequest, ReasoningEffort, ServerToolDefinition, ToolDefinition
from zett_agent.providers.base import dump_json
from zett_agent.providers.chat_wire import ChatSettings, request_body, wire_name

GOLDEN = Path(__file__).parents[1] / "golden" / "wire" / "chat"
SETTINGS = ChatSettings(provider="openai", model="m-1", endpoint="http://here/v1")
ADD = ToolDefinition(
    "add",
    "Add two integers.",
    {
        "type": "object",
        "properties": {"right": {"type": "integer"}, "left": {"type": "integer"}},
        "required": ["left", "right"],
    },
)
PIXEL = ImageContent(ImageBytesSource(b"\x89PNG", " image/png "), ImageDetail.HIGH, "a pixel")
PHOTO = ImageContent(ImageUrlSource(" https://images.example/cat.jpg "))
HISTORY: list[AnyMessage] = [
    SystemMessage(content="Be brief."),
    UserMessage(content="Add 20 and 22, then 1 and 2."),
    AssistantMessage(
        reasoning="two calls",
        tool_calls=[ToolCall("c1", "add", {"right": 22, "left": 20}), ToolCall("c2", "add", {"left": 1, "right": 2})],
        provider="openai",
        model="m-1",
    ),
    ToolMessage(tool_call_id="c1", name="add", content="42"),
    ToolMessage(tool_call_id="c2", name="add", content="overflow", success=False),
    AgentMessage(content="A background task finished."),
    AssistantMessage(content="42; the second failed."),
    UserMessage(content=[TextContent("What is this?"), TextContent(" "), PIXEL, PHOTO]),
]
PICTURES: list[AnyMessage] = [
    UserMessage(content="Look."),
    AssistantMessage(tool_calls=[ToolCall(name, "view", {"path": f"{name}.png"}) for name in ("v1", "v2", "v3")]),
    ToolMessage(tool_call_id="v1", name="view", content=[TextContent("a file"), PIXEL]),
    ToolMessage(tool_call_id="v2", name="view", content="no such file", success=False),
    ToolMessage(tool_call_id="v3", name="view", content=[PHOTO, PIXEL]),
    AssistantMessage(tool_calls=[ToolCall("v4", "view", {"path": "4"})]),
    ToolMessage(tool_call_id="v4", name="view", content=[PHOTO]),
]
EMPTY: list[AnyMessage] = [
    UserMessage(content=[TextContent("")]),
    AssistantMessage(
        content=" \n", tool_calls=[ToolCall("e1", "now"), ToolCall("e2", "", error="broken"), ToolCall("e3", "x y")]
    ),
    ToolMessage(tool_call_id="e1", name="now", content=""),
    ToolMessage(tool_call_id="e2", name="", content=[], success=False),
    ToolMessage(tool_call_id="e3", name="x y", content=" \n"),
    AssistantMessage(content=""),
    UserMessage(content=""),
]
SIGNATURE: JsonValue = {"google": {"thought_signature": "QQ=="}}


def signed(provider: str, model: str, **block: JsonValue) -> AssistantMessage:
    """An assistant message whose first call carries a signature."""
    whole: dict[str, JsonValue] = {
        "type": "chat.extra_content",
        "endpoint": "http://here/v1",
        "call": 0,
        "extra_content": SIGNATURE,
        **block,
    }
    return AssistantMessage(
        tool_calls=[ToolCall("s", "add")], provider=provider, model=model, replay_blocks=[whole, "not ours"]
    )


CASES: dict[str, tuple[ModelRequest, ChatSettings]] = {
    "plain": (ModelRequest(HISTORY[:2]), SETTINGS),
    "history": (ModelRequest(HISTORY, [ADD], cache_key="session-1"), SETTINGS),
    "every_option": (
        ModelRequest(
            HISTORY,
            [ADD],
            [ServerToolDefinition("web_search", {"max_uses": 3})],
            reasoning_effort=ReasoningEffort.ULTRA,
            tool_choice="add",
            parallel_tool_call=False,
            cache_key="session-1",
        ),
        replace(
            SETTINGS,
            temperature=0.1,
            max_tokens=60,
            max_tokens_field="max_completion_tokens",
            stop=("###", "END"),
            send_reasoning_effort=True,
            send_prompt_cache_key=True,
            reasoning_field="reasoning_content",
            extra_body={"top_p": 0.5, "temperature": 0.2},
        ),
    ),
    "tool_images": (ModelRequest(PICTURES), SETTINGS),
    "nothing_to_say": (ModelRequest(EMPTY), SETTINGS),
    "signed_calls": (
        ModelRequest(
            [
                signed("openai", "m-1"),
                signed("google", "m-1"),
                signed("openai", "m-2"),
                signed("openai", "m-1", endpoint="http://there/v1"),
                signed("openai", "m-1", call="first"),
            ]
        ),
        SETTINGS,
    ),
}


def body(request: ModelRequest, settings: ChatSettings = SETTINGS) -> bytes:
    return request_body(request, settings)


def fields(request: ModelRequest, **settings: Any) -> dict[str, Any]:
    value = json.loads(body(request, replace(SETTINGS, **settings)))
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("name", CASES)
def test_net_04_a_request_is_the_recorded_one_key_by_key(name: str) -> None:
    sent = body(*CASES[name])
    readable = json.dumps(json.loads(sent), indent=1, ensure_ascii=False) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("ZETT_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(readable)
    assert path.read_text() == readable
    assert sent == json.dumps(json.loads(sent), ensure_ascii=False, separators=(",", ":")).encode()


def test_net_04_the_next_request_begins_with_the_bytes_of_the_one_before_it() -> None:
    sent = [body(ModelRequest(PICTURES[:size], [ADD])) for size in (1, 5, 7)]
    assert all(later.startswith(earlier[:-2]) for earlier, later in pairwise(sent))


def test_parallel_tool_calls_and_tool_choice_are_sent_with_tools_only() -> None:
    bare = fields(ModelRequest([], tool_choice="add", parallel_tool_call=False))
    assert not bare.keys() & {"parallel_tool_calls", "tool_choice", "tools"}
    assert "parallel_tool_calls" not in fields(ModelRequest([], [ADD]))
    assert fields(ModelRequest([], [ADD], parallel_tool_call=False))["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_that_is_no_tool_is_sent_as_it_is(choice: str) -> None:
    assert fields(ModelRequest([], [ADD], tool_choice=choice))["tool_choice"] == choice


@pytest.mark.parametrize(
    ("effort", "sent"),
    [
        (ReasoningEffort.OFF, None),
        (ReasoningEffort.MINIMAL, "minimal"),
        (ReasoningEffort.MEDIUM, "medium"),
        (ReasoningEffort.XHIGH, "xhigh"),
        (ReasoningEffort.MAX, "xhigh"),
        (ReasoningEffort.ULTRA, "xhigh"),
    ],
)
def test_c08_reasoning_effort_is_sent_on_demand_and_in_words_that_exist(
    effort: ReasoningEffort, sent: str | None
) -> None:
    request = ModelRequest([], reasoning_effort=effort)
    assert "reasoning_effort" not in fields(request)
    assert fields(request, send_reasoning_effort=True).get("reasoning_effort") == sent


def test_stream_13_reasoning_is_sent_back_on_demand_and_to_the_service_it_came_from() -> None:
    def replayed(provider: str | None, field: str | None) -> dict[str, Any]:
        message = AssistantMessage(content="a", reasoning="r", provider=provider)
        sent: dict[str, Any] = fields(ModelRequest([message]), reasoning_field=field)["messages"][0]
        return sent

    assert replayed("openai", "reasoning_content")["reasoning_content"] == "r"
    assert replayed(None, "reasoning")["reasoning"] == "r"
    for message in (replayed("openai", None), replayed("anthropic", "reasoning_content")):
        assert message == {"role": "assistant", "content": "a"}


def test_args_05_no_token_that_is_not_strict_json_is_sent() -> None:
    arguments = {"x": math.nan, "y": [math.inf, (1.5,)], "z": "\ud83d"}
    sent = body(ModelRequest([AssistantMessage(tool_calls=[ToolCall("a", "f", arguments)])]))
    call = json.loads(sent, parse_constant=pytest.fail)["messages"][0]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"], parse_constant=pytest.fail) == {
        "x": None,
        "y": [None, [1.5]],
        "z": "\ufffd",
    }


@given(st.text(max_size=200))
def test_every_name_goes_out_as_one_that_services_take(name: str) -> None:
    sent = wire_name(name)
    assert sent and len(sent) <= 128 and all(char.isascii() and (char.isalnum() or char in "_.-") for char in sent)
    assert wire_name(sent) == sent


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_json_is_strict_and_encodes_whatever_the_value(value: object) -> None:
    json.loads(dump_json(value).encode(), parse_constant=pytest.fail)


def test_net_04_a_history_of_2000_messages_costs_a_request_only_its_new_messages() -> None:
    history: list[AnyMessage] = [UserMessage(content=f"{number} {'word ' * 80}") for number in range(2000)]
    forms = []
    for _ in range(3):
        messages = [*history, UserMessage(content="new")]
        body(ModelRequest(messages))
        forms.append([id(message._wire_form[2]) for message in messages[:-1]])
    assert forms[0] == forms[1] == forms[2]


Change = Callable[[Any], object]

CHANGES: dict[str, tuple[AnyMessage, Change]] = {
    "text": (UserMessage(content="old"), lambda message: setattr(message, "content", "new")),
    "a part": (
        UserMessage(content=[TextContent("old")]),
        lambda message: message.content.__setitem__(0, TextContent("new")),
    ),
    "a further part": (UserMessage(content=[]), lambda message: message.content.append(TextContent("new"))),
    "a result": (
        ToolMessage(tool_call_id="c", name="t", content="x"),
        lambda message: setattr(message, "success", False),
    ),
    "an answer": (AssistantMessage(content="old"), lambda message: setattr(message, "content", "new")),
    "a call": (
        AssistantMessage(tool_calls=[ToolCall("c", "old")]),
        lambda message: setattr(message.tool_calls[0], "name", "new"),
    ),
    "an argument": (
        AssistantMessage(tool_calls=[ToolCall("c", "t", {"to": [{"password": "old"}]})]),
        lambda message: message.tool_calls[0].arguments["to"][0].clear(),
    ),
    "where a list ends": (
        AssistantMessage(tool_calls=[ToolCall("c", "t", {"to": [["a"], "b"]})]),
        lambda message: message.tool_calls[0].arguments.update(to=[["a", "b"]]),
    ),
    "a signed part": (
        signed("openai", "m-1"),
        lambda message: setattr(message, "replay_blocks", ()),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_message_that_is_changed_after_it_was_sent_is_sent_as_it_is(name: str) -> None:
    original, change = CHANGES[name]
    message = copy.deepcopy(original)
    before = body(ModelRequest([message]))
    assert body(ModelRequest([message])) == before
    change(message)
    after = body(ModelRequest([message]))
    assert after != before
    assert after == body(ModelRequest([copy.deepcopy(message)]))


def test_one_message_goes_out_in_the_form_of_each_provider() -> None:
    message = AssistantMessage(content="a", reasoning="because")
    plain, thinking = SETTINGS, replace(SETTINGS, reasoning_field="reasoning_content")
    for _ in range(2):
        assert b"because" not in body(ModelRequest([message]), plain)
        assert b"because" in body(ModelRequest([message]), thinking)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_what_a_message_became_on_the_wire_is_no_part_of_it(copied: Callable[[Any], Any]) -> None:
    picture = ImageContent(ImageUrlSource("https://a.test/b.png"))
    message = ToolMessage(tool_call_id="c", name="t", content=[picture])
    untouched = copied(message)
    body(ModelRequest([message], [ADD]))
    assert hasattr(message, "_wire_form") and hasattr(picture, "_wire_form") and hasattr(ADD, "_wire_form")
    for sent in (message, picture, ADD):
        assert not hasattr(copied(sent), "_wire_form") and copied(sent) == sent
        assert "wire" not in repr(sent) and "wire" not in str(asdict(sent))
    assert message == untouched and replace(message, name="u") == replace(untouched, name="u")
