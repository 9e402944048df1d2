"""Chat Completions, incoming: the chunks of one answer as events and one response. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zett_agent.json_types import JsonValue, utf8_text
from zett_agent.messages import AssistantMessage
from zett_agent.model import ModelEvent, ModelResponse, ModelUsage, ToolCallDelta
from zett_agent.providers.base import dump_json
from zett_agent.providers.chat_wire import EXTRA_CONTENT, ChatSettings
from zett_agent.stop import StopInfo, StopReason, classify_stop
from zett_agent.tools.arguments import tool_call_from_arguments

_REASONING_KEYS = ("reasoning_content", "reasoning")
_CACHE_READ = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
_CACHE_WRITE = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")


class _Halves:
    """Joins characters that a service cut in two, as those do that count in UTF-16; one that stays half is U+FFFD."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[str, str] = {}

    def joined(self, channel: str, text: str) -> str:
        """``text`` with what ``channel`` held back, but for a first half at its end."""
        if not text or (text.isascii() and not self._held):
            return text
        text = self._held.pop(channel, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._held[channel], text = text[-1], text[:-1]
        return utf8_text(text)


@dataclass(slots=True)
class _Call:
    """A call while it arrives; ``position`` is its place in the response, ``wire_id`` the id the service gave it."""

    position: int
    wire_id: str = ""
    duplicate: bool = False
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: JsonValue = None
    halves: _Halves = field(default_factory=lambda: _Halves())

    def is_complete(self) -> bool:
        """True when the arguments so far are a whole JSON value."""
        if not self.arguments[-1].rstrip().endswith("}"):  # most fragments: all of them are looked at for few
            return False
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class CallRouter:
    """Gives each fragment to its call: by id, else by index, else to the call being streamed."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}

    def add(self, fragment: Mapping[str, Any]) -> ToolCallDelta | None:
        """Take one element of ``delta.tool_calls``; None when it says nothing new."""
        function = _mapping(fragment.get("function"))
        wire_id, name = utf8_text(_text(fragment.get("id"))), utf8_text(_text(function.get("name")))
        raw = function.get("arguments")
        arguments = dump_json(raw) if isinstance(raw, Mapping) else _text(raw)
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        call = self._route(wire_id, index, name, arguments) or self._open()
        if index is not None:
            self._by_index[index] = call
        id_delta = ""
        if wire_id and not call.wire_id:
            call.wire_id = wire_id
            call.duplicate = wire_id in self._by_id
            id_delta = "" if call.duplicate else wire_id
            self._by_id.setdefault(wire_id, call)
        name_delta = _new_part(call.name, name)
        call.name += name_delta
        arguments = call.halves.joined("arguments", arguments)
        if arguments:
            call.arguments.append(arguments)
        if (extra := fragment.get("extra_content")) is not None:
            call.extra = extra
        if not (id_delta or name_delta or arguments):
            return None
        return ToolCallDelta(call.position, id_delta, name_delta, arguments)

    def _route(self, wire_id: str, index: int | None, name: str, arguments: str) -> _Call | None:
        """The call that a fragment continues, or None if it starts one."""
        at_index = self._by_index.get(index) if index is not None else None
        if wire_id:
            if at_index is not None and at_index.wire_id in ("", wire_id):
                return at_index
            seen = self._by_id.get(wire_id)
            if seen is None:
                return None if name or index is not None else self._unnumbered()
            return None if name and index is not None and self._has_other_index(seen, index) else seen
        call = at_index if index is not None else (self.calls[-1] if self.calls else None)
        if call is None or not (name and call.name and call.arguments):
            return call
        # A name after arguments begins the next call, unless the service repeats it with every fragment.
        return None if name != call.name or (arguments and call.is_complete()) else call

    def _has_other_index(self, call: _Call, index: int) -> bool:
        """The id of ``call`` comes with an unused index: a second call, whose id the service used twice."""
        return index not in self._by_index and any(known is call for known in self._by_index.values())

    def _unnumbered(self) -> _Call | None:
        """The call being streamed, if it still has no id."""
        return self.calls[-1] if self.calls and not self.calls[-1].wire_id else None

    def _open(self) -> _Call:
        call = _Call(len(self.calls))
        self.calls.append(call)
        return call


class ChatStream:
    """Reads the chunks of one answer: ``feed`` each, then ``finish``.

    ``finished`` says that a finish reason or [DONE] was seen; without one the answer was cut. ``done`` says that it was
    [DONE], which nothing follows.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal = ""
        self._halves = _Halves()
        self._router = CallRouter()
        self._usage: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._native_reason: str | None = None
        self.finished = False
        self.done = False
        self.is_empty = True

    def feed(self, chunk: Mapping[str, Any]) -> list[ModelEvent]:
        """Take one chunk and return what it adds; a chunk without choices is legal anywhere."""
        self.is_empty = False
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._usage = _merge(self._usage, usage)
        choice = _first_choice(chunk.get("choices"))
        if choice is None:
            return []
        if reason := _text(choice.get("finish_reason")):
            self._finish_reason = reason
            self._native_reason = _text(choice.get("native_finish_reason")) or None
            self.finished = True
        if isinstance(usage := choice.get("usage"), Mapping):
            self._usage = _merge(self._usage, usage)
        return self._delta(_mapping(choice.get("delta")))

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        join = self._halves.joined
        reasoning = next((text for key in _REASONING_KEYS if (text := _text(delta.get(key)))), "")
        if reasoning := join("reasoning", reasoning):
            self._reasoning.append(reasoning)
            events.append(ModelEvent.reasoning(reasoning))
        refusal = join("refusal", _text(delta.get("refusal")))
        self._refusal += refusal
        for text in (join("content", _content(delta.get("content"))), refusal):
            if text:
                self._text.append(text)
                events.append(ModelEvent.text(text))
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, Mapping) and (call_delta := self._router.add(fragment)) is not None:
                events.append(ModelEvent.tool_call(call_delta))
        return events

    def finish(self) -> ModelResponse:
        """The whole response."""
        calls = [
            tool_call_from_arguments("" if call.duplicate else call.wire_id, call.name, "".join(call.arguments))
            for call in self._router.calls
        ]
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning) or None,
            tool_calls=calls,
            provider=self._settings.provider,
            model=self._settings.model,
            replay_blocks=self._replay_blocks(),
        )
        usage = read_usage(self._usage)
        return ModelResponse(message, self._finish_reason, usage, self._stop(bool(calls)))

    def _stop(self, has_calls: bool) -> StopInfo:
        detail: dict[str, JsonValue] = {"native_finish_reason": self._native_reason} if self._native_reason else {}
        stop = classify_stop(self._finish_reason, has_tool_calls=has_calls, detail=detail)
        if self._refusal and stop.ok:
            return StopInfo(StopReason.REFUSAL, stop.raw, "refusal", self._refusal, detail=detail)
        return stop

    def _replay_blocks(self) -> tuple[JsonValue, ...]:
        return tuple(
            {
                "type": EXTRA_CONTENT,
                "endpoint": self._settings.endpoint,
                "call": call.position,
                "extra_content": call.extra,
            }
            for call in self._router.calls
            if call.extra is not None
        )


def read_usage(usage: Mapping[str, Any]) -> ModelUsage:
    """Tokens as reported, in our meaning: input includes what the cache gave, output includes reasoning.

    Counts that contradict each other are brought within their totals, never raised about.
    """
    into, out_of = (_mapping(usage.get(name)) for name in ("prompt_tokens_details", "completion_tokens_details"))
    into = {**_mapping(usage.get("input_tokens_details")), **into}
    out_of = {**_mapping(usage.get("output_tokens_details")), **out_of}
    given = _count(usage, ("prompt_tokens", "input_tokens")) or 0
    made = _count(usage, ("completion_tokens", "output_tokens")) or 0
    reasoning = _count(out_of, ("reasoning_tokens",)) or _count(usage, ("reasoning_tokens",)) or 0
    if reasoning and given + made + reasoning == _count(usage, ("total_tokens",)):
        made += reasoning  # this service counts reasoning beside the output, not in it
    read = _first(_count(into, _CACHE_READ), _count(usage, _CACHE_READ))
    written = _first(_count(into, _CACHE_WRITE), _count(usage, _CACHE_WRITE))
    return ModelUsage(
        input_tokens=given,
        output_tokens=made,
        cache_read_tokens=min(read or 0, given),
        cache_write_tokens=min(written or 0, given),
        cache_reported=read is not None or written is not None,
        reasoning_tokens=min(reasoning, made),
    )


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Later values replace earlier ones field by field; what is missing or null keeps the old value."""
    merged = dict(old)
    for key, value in new.items():
        if isinstance(value, Mapping):
            merged[key] = _merge(_mapping(merged.get(key)), value)
        elif value is not None:
            merged[key] = value
    return merged


def _count(values: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _first_choice(choices: object) -> Mapping[str, Any] | None:
    """The answer at index 0; we never ask for another one."""
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, Mapping) and choice.get("index") in (0, None):
                return choice
    return None


def _new_part(known: str, text: str) -> str:
    """What ``text`` adds: a repeated whole adds nothing, a longer whole its end, a fragment itself."""
    return text[len(known) :] if text.startswith(known) else text


def _content(value: object) -> str:
    """Text, or the text parts of a list."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
