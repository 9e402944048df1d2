"""Goals: a request that goes on until an evaluator says that its goal is reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

from zett_agent._runtime.supervisor import start_task, stop_tasks
from zett_agent.config import AgentRunConfig
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType, CompactionEvent, ExtensionEvent
from zett_agent.exceptions import (
    AgentCancelledError,
    AgentIterationLimitError,
    AgentProtocolError,
    InputRefusedError,
)
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension, SubAgentTask
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import InternalMessageEvent, RunCancelledEvent
from zett_agent.extensions.goal_arming import Arming
from zett_agent.extensions.goal_evaluation import (
    MISSING_REPORT,
    REPORT_TOOL_NAME,
    RESULTS_ARE_IN,
    GoalEvaluation,
    continuation,
    evaluator_prompt,
    goal_content,
    reminder,
    report_tool,
)
