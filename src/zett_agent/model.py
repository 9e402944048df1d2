"""What the runtime asks of a model, and what a model answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self, runtime_checkable

from zett_agent._checks import boolean, instance, is_finite, time_limit, whole_number
from zett_agent._wire_form import Convertible
from zett_agent.json_types import JsonValue
from zett_agent.messages import AnyMessage, AssistantMessage
from zett_agent.stop import StopInfo, classify_stop


def _nonblank(name: str, value: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must not be blank")


class ReasoningEffort(StrEnum):
    """How hard a model should think; providers map the levels to what they have."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"
    ULTRA = "ultra"


@dataclass(frozen=True, slots=True)
class ToolDefinition(Convertible):
    """A tool as the model sees it; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    deferred: bool = False
    local_tool_search: bool = False


@dataclass(frozen=True, slots=True)
class ServerToolDefinition(Convertible):
    """A tool that the provider itself runs."""

    type: str
    configuration: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _nonblank("type", self.type)
        if "type" in self.configuration:
            raise ValueError("configuration must not contain 'type'; it is a field of its own")


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """A provider-run call that started."""

    id: str
    name: str
    input: JsonValue = None

    def __post_init__(self) -> None:
        _nonblank("id", self.id)
        _nonblank("name", self.name)


@dataclass(frozen=True, slots=True)
class ServerToolInputDelta:
    """A piece of a provider-run call's input."""

    call_id: str
    delta: str

    def __post_init__(self) -> None:
        if not self.call_id or not self.delta:
            raise ValueError("call_id and delta must not be empty")


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """The end of a provider-run call; ``error_code`` is set when it failed."""

    call_id: str
    name: str
    output: JsonValue = None
    error_code: str | None = None

    def __post_init__(self) -> None:
        _nonblank("call_id", self.call_id)
        _nonblank("name", self.name)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. ``messages`` is an immutable view of the history; ``cache_key`` names its prefix."""

    messages: Sequence[AnyMessage]
    tools: Sequence[ToolDefinition] = ()
    server_tools: Sequence[ServerToolDefinition] = ()
    reasoning_effort: ReasoningEffort = ReasoningEffort.MEDIUM
    tool_choice: str | None = None
    parallel_tool_call: bool = True
    cache_key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parallel_tool_call, bool):
            raise ValueError("parallel_tool_call must be a bool")
        if self.cache_key is not None:
            _nonblank("cache_key", self.cache_key)


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Retries before visible output: delays in seconds, doubled each time up to ``max_delay``."""

    base_delay: float = 0.25
    max_delay: float = 8.0
    max_retries: int = 3

    def __post_init__(self) -> None:
        for name, value in (("base_delay", self.base_delay), ("max_delay", self.max_delay)):
            if not is_finite(value) or value < 0:
                raise ValueError(f"{name} must be a finite number of seconds, at least 0")
        whole_number("max_retries", self.max_retries, 0)


@dataclass(frozen=True, slots=True)
class TimeoutOptions:
    """Limits on silence in seconds; None means no limit."""

    connect: float | None = 5.0
    first_byte: float | None = 60.0
    idle: float | None = 600.0

    def __post_init__(self) -> None:
        for name, value in (("connect", self.connect), ("first_byte", self.first_byte), ("idle", self.idle)):
            time_limit(name, value)


DEFAULT_RETRY_OPTIONS = RetryOptions()
DEFAULT_TIMEOUT_OPTIONS = TimeoutOptions()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one model call: input includes what the cache gave and took, output includes reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_reported: bool = True
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        if min(self.input_tokens, self.output_tokens, self.reasoning_tokens) < 0:
            raise ValueError("token counts must not be negative")
        if not 0 <= self.cache_read_tokens <= self.input_tokens:
            raise ValueError("cache_read_tokens must be between 0 and input_tokens")
        if not 0 <= self.cache_write_tokens <= self.input_tokens:
            raise ValueError("cache_write_tokens must be between 0 and input_tokens")
        if self.reasoning_tokens > self.output_tokens:
            raise ValueError("reasoning_tokens must not exceed output_tokens")

    @classmethod
    def total(cls, usages: Iterable[ModelUsage]) -> ModelUsage:
        """What several model calls used together; ``cache_reported`` when all of them told."""
        told = [usage for usage in usages if isinstance(usage, ModelUsage)]
        return cls(
            sum(usage.input_tokens for usage in told),
            sum(usage.output_tokens for usage in told),
            sum(usage.cache_read_tokens for usage in told),
            sum(usage.cache_write_tokens for usage in told),
            all(usage.cache_reported for usage in told),
            sum(usage.reasoning_tokens for usage in told),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def cache_hit_rate(self) -> float | None:
        """The share of input read from the cache, or None when it is not known."""
        if not self.cache_reported or not self.input_tokens:
            return None
        return self.cache_read_tokens / self.input_tokens


_NO_USAGE = ModelUsage()


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A whole model step; ``stop`` is derived from ``finish_reason`` when it is not given."""

    message: AssistantMessage
    finish_reason: str | None = None
    usage: ModelUsage = _NO_USAGE
    stop: StopInfo | None = None

    def __post_init__(self) -> None:
        if type(self.message) is not AssistantMessage:
            instance("message", self.message, AssistantMessage)
        if self.finish_reason is not None and type(self.finish_reason) is not str:
            instance("finish_reason", self.finish_reason, str)
        if self.stop is not None:
            instance("stop", self.stop, StopInfo)
        else:
            stop = classify_stop(self.finish_reason, has_tool_calls=bool(self.message.tool_calls))
            object.__setattr__(self, "stop", stop)


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of the call at position ``index`` of the response."""

    index: int
    id_delta: str = ""
    name_delta: str = ""
    arguments_delta: str = ""

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError("index must be at least 0")
        if not (self.id_delta or self.name_delta or self.arguments_delta):
            raise ValueError("a tool call delta needs at least one fragment")


class ModelEventType(StrEnum):
    """What a model stream yields; exactly one RESPONSE, last."""

    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    SERVER_TOOL_STARTED = "server_tool_started"
    SERVER_TOOL_INPUT_DELTA = "server_tool_input_delta"
    SERVER_TOOL_COMPLETED = "server_tool_completed"
    SERVER_TOOL_FAILED = "server_tool_failed"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """One event of a model stream; use the constructors below."""

    type: ModelEventType
    delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    server_tool_call: ServerToolCall | None = None
    server_tool_input_delta: ServerToolInputDelta | None = None
    server_tool_result: ServerToolResult | None = None
    response: ModelResponse | None = None

    @classmethod
    def text(cls, delta: str) -> Self:
        """A piece of the answer."""
        return cls(ModelEventType.TEXT_DELTA, delta)

    @classmethod
    def reasoning(cls, delta: str) -> Self:
        """A piece of the model's thinking."""
        return cls(ModelEventType.REASONING_DELTA, delta)

    @classmethod
    def tool_call(cls, delta: ToolCallDelta) -> Self:
        """A piece of a call."""
        return cls(ModelEventType.TOOL_CALL_DELTA, tool_call_delta=delta)

    @classmethod
    def server_tool_started(cls, call: ServerToolCall) -> Self:
        """A provider-run call started."""
        return cls(ModelEventType.SERVER_TOOL_STARTED, server_tool_call=call)

    @classmethod
    def server_tool_input(cls, delta: ServerToolInputDelta) -> Self:
        """A piece of a provider-run call's input."""
        return cls(ModelEventType.SERVER_TOOL_INPUT_DELTA, server_tool_input_delta=delta)

    @classmethod
    def server_tool_completed(cls, result: ServerToolResult) -> Self:
        """A provider-run call succeeded."""
        return cls(ModelEventType.SERVER_TOOL_COMPLETED, server_tool_result=result)

    @classmethod
    def server_tool_failed(cls, result: ServerToolResult) -> Self:
        """A provider-run call failed."""
        return cls(ModelEventType.SERVER_TOOL_FAILED, server_tool_result=result)

    @classmethod
    def completed(cls, response: ModelResponse) -> Self:
        """The whole step; always the last event."""
        return cls(ModelEventType.RESPONSE, response=response)


@runtime_checkable
class AgentModel(Protocol):
    """Anything that can answer a ModelRequest.

    ``stream`` is normally an async generator: the runtime closes what it returns. Retries are the model's own business,
    before its first event; the runtime never repeats a call.
    """

    retry: RetryOptions

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer ``request``; the last event, and only that, is a RESPONSE."""
        ...


@runtime_checkable
class NativeDeferredToolsModel(AgentModel, Protocol):
    """A model whose provider can search deferred tools itself."""

    native_deferred_tools: bool


def validate_retry(value: object) -> RetryOptions:
    """Return ``value`` if it is RetryOptions, else raise ValueError."""
    if not isinstance(value, RetryOptions):
        raise ValueError(f"retry must be RetryOptions, not {type(value).__name__}")
    return value


def validate_timeout(value: object) -> TimeoutOptions:
    """Return ``value`` if it is TimeoutOptions, else raise ValueError."""
    if not isinstance(value, TimeoutOptions):
        raise ValueError(f"timeout must be TimeoutOptions, not {type(value).__name__}")
    return value


def validate_response(value: object) -> bool:
    """Return ``value`` if it is a bool, else raise ValueError."""
    return boolean("response", value)
