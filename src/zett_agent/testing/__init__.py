"""What tests of agents are made of: models that play scripts, recorders, clocks, checks. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zett_agent._lazy import lazy_names

__all__ = (
    "EXTENSION_CHECKS",
    "MODEL_CHECKS",
    "STORE_CHECKS",
    "EventRecorder",
    "FunctionModel",
    "HookEntry",
    "HookRecorder",
    "ManualClock",
    "ModelSubject",
    "ScriptError",
    "ScriptedModel",
    "call",
    "check_event_order",
    "check_extension",
    "check_model",
    "check_session_store",
    "check_transcript",
    "deltas",
    "end",
    "error",
    "raw_call",
    "reasoning",
    "stall",
    "stop",
    "text",
    "usage",
)

_NAMES = {
    "clock": "ManualClock",
    "extensions": "EXTENSION_CHECKS check_extension",
    "function_model": "FunctionModel",
    "models": "MODEL_CHECKS ModelSubject check_model",
    "recorder": "EventRecorder HookEntry HookRecorder",
    "scripted": "ScriptError ScriptedModel call deltas end error raw_call reasoning stall stop text usage",
    "stores": "STORE_CHECKS check_session_store",
    "transcripts": "check_event_order check_transcript",
}

if TYPE_CHECKING:
    from zett_agent.testing.clock import ManualClock
    from zett_agent.testing.extensions import EXTENSION_CHECKS, check_extension
    from zett_agent.testing.function_model import FunctionModel
    from zett_agent.testing.models import MODEL_CHECKS, ModelSubject, check_model
    from zett_agent.testing.recorder import EventRecorder, HookEntry, HookRecorder
    from zett_agent.testing.scripted import (
        ScriptedModel,
        ScriptError,
        call,
        deltas,
        end,
        error,
        raw_call,
        reasoning,
        stall,
        stop,
        text,
        usage,
    )
    from zett_agent.testing.stores import STORE_CHECKS, check_session_store
    from zett_agent.testing.transcripts import check_event_order, check_transcript
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
