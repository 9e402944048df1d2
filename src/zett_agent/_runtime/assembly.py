"""Putting a request together: its parts, from what the agent has and what the caller asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from zett_agent._checks import boolean, time_limit, whole_number
from zett_agent._runtime.channel import Channel
from zett_agent._runtime.equipment import checked_model
from zett_agent._runtime.hooks import HookChain
from zett_agent._runtime.inbox import Inbox
from zett_agent._runtime.opening import FreshInput, Start
from zett_agent._runtime.phase import PhaseMachine
from zett_agent._runtime.repeats import RepeatGuard
from zett_agent._runtime.run import Limits, ModelSettings, Run
from zett_agent._runtime.transcript import Transcript
from zett_agent._runtime.waitbook import Waitbook
from zett_agent.config import AgentRunConfig, checked_config
from zett_agent.context import AgentPort, AgentRunContext, AgentState
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.events import MessageAppendedEvent
from zett_agent.ids import new_uuid7
from zett_agent.json_types import json_object
from zett_agent.messages import SystemMessage
from zett_agent.model import AgentModel, ReasoningEffort
from zett_agent.tools.base import AgentTool


class Maker(AgentPort, Protocol):
    """What an agent lends to its requests."""

    model: AgentModel | None
    system_prompt: str
    reasoning_effort: ReasoningEffort
    parallel_tool_call: bool
    tools: dict[str, AgentTool]
    max_iterations: int
    max_total_iterations: int
    max_internal_messages: int
    max_pause_continuations: int
    max_parallel_calls: int
    max_repeats: int | None
    max_result_chars: int
    deadline: float | None
    deadline_counts_waits: bool
    final_turn: bool
    #: True when ``max_total_iterations`` was not given.
    _total_follows: bool

    @property
    def hooks(self) -> HookChain:
        """Its extensions, bound."""
        ...


@dataclass(slots=True)
class RequestOptions:
    """The keyword options of a request; None comes from the agent."""

    config: AgentRunConfig | None = None
    model: AgentModel | None = None
    reasoning_effort: ReasoningEffort | None = None
    parallel_tool_call: bool | None = None
    metadata: Mapping[str, Any] | None = None
    tags: Mapping[str, Any] | None = None
    on_wait: str = "hold"
    max_iterations: int | None = None
    max_total_iterations: int | None = None
    deadline: float | None = None
    deadline_counts_waits: bool | None = None
    final_turn: bool | None = None

    def __post_init__(self) -> None:
        checked_config(self.config)
        checked_model(self.model)
        if self.on_wait != "hold":
            raise ValueError(f"on_wait must be 'hold', not {self.on_wait!r}")
        for name in ("max_iterations", "max_total_iterations"):
            if (count := getattr(self, name)) is not None:
                whole_number(name, count, 1)
        for name in ("deadline_counts_waits", "final_turn"):
            if (flag := getattr(self, name)) is not None:
                boolean(name, flag)
        if self.deadline != math.inf:
            time_limit("deadline (math.inf lifts the agent's)", self.deadline)


def assemble(maker: Maker, config: AgentRunConfig, start: Start, options: RequestOptions) -> Run:
    """Check the options and build the request; nothing is changed when something is wrong."""
    limits = _limits(maker, options)
    run = Run(
        session_id=config.session_id or "",
        limits=limits,
        settings=_settings(maker, config, options),
        hooks=maker.hooks,
        transcript=Transcript(),
        inbox=Inbox(internal_allowed=limits.max_internal_messages > 0),
        waitbook=Waitbook(),
        channel=Channel(),
        phase=PhaseMachine(),
        records_messages=bool(maker.hooks.listeners(MessageAppendedEvent)),
        repeats=None if limits.max_repeats is None else RepeatGuard(limits.max_repeats),
    )
    run.context = AgentRunContext(
        config=_with_request_id(config),
        state=AgentState(run.transcript, run.phase, config.parent_session_id),
        tools=dict(maker.tools),
        extensions=maker.hooks.extensions,
        model=_model(maker, options),
        metadata=json_object(options.metadata, field_name="metadata"),
        tags=json_object(options.tags, field_name="tags", nonempty_keys=True),
        input_message=start.message if isinstance(start, FreshInput) else None,
        server_tools={},
        event_queue=run.channel,
        agent=maker,
        transcript=run.transcript,
        inbox=run.inbox,
        waitbook=run.waitbook,
        kind=start.kind,
        _port=run,
    )
    if maker.system_prompt:
        run.context.add_message(SystemMessage(content=maker.system_prompt))
    return run


def _limits(maker: Maker, options: RequestOptions) -> Limits:
    """The bounds of the agent, but for those that the request sets; an infinite deadline is none."""
    total = None if maker._total_follows else maker.max_total_iterations
    seconds = maker.deadline if options.deadline is None else options.deadline
    counts, final = options.deadline_counts_waits, options.final_turn
    return Limits(
        max_iterations=options.max_iterations or maker.max_iterations,
        max_total_iterations=options.max_total_iterations or total,
        max_internal_messages=maker.max_internal_messages,
        max_pause_continuations=maker.max_pause_continuations,
        max_parallel_calls=maker.max_parallel_calls,
        max_repeats=maker.max_repeats,
        max_result_chars=maker.max_result_chars,
        deadline=None if seconds == math.inf else seconds,
        deadline_counts_waits=maker.deadline_counts_waits if counts is None else counts,
        final_turn=maker.final_turn if final is None else final,
    )


def _settings(maker: Maker, config: AgentRunConfig, options: RequestOptions) -> ModelSettings:
    parallel = maker.parallel_tool_call if options.parallel_tool_call is None else options.parallel_tool_call
    return ModelSettings(
        ReasoningEffort(options.reasoning_effort or maker.reasoning_effort),
        boolean("parallel_tool_call", parallel),
        config.cache_key or config.session_id,
    )


def _with_request_id(config: AgentRunConfig) -> AgentRunConfig:
    if config.request_id:
        return config
    return AgentRunConfig(config.session_id, new_uuid7(), config.parent_session_id, config.cache_key)


def _model(maker: Maker, options: RequestOptions) -> AgentModel:
    model = options.model or maker.model
    if model is None:
        raise AgentProtocolError("there is no model: the agent has none and the request names none")
    return model
