"""Errors pass between processes and are copied as they are, the whole tree of them; and groups say what is in them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.attack.clumsy.clumsy_program import history, made, played
from zett_agent import exceptions
from zett_agent.messages import AssistantMessage, UserMessage
from zett_agent.model import ModelUsage
from zett_agent.providers.retry import AttemptFailed, Failure
from zett_agent.stop import StopInfo, StopReason
from zett_agent.testing import ScriptedModel, call, text
from zett_agent.tools.base import tool

STOP = StopInfo(StopReason.REFUSAL, "refusal", detail={"scores": [1]})
BUILD: dict[type[exceptions.AgentError], Callable[[], exceptions.AgentError]] = {
    exceptions.SessionBusyError: lambda: exceptions.SessionBusyError("s", "holder"),
    exceptions.AgentResumeError: lambda: exceptions.AgentResumeError("reason", "message"),
    exceptions.AgentStopError: lambda: exceptions.AgentStopError(STOP, AssistantMessage(content="x", stop=STOP)),
    exceptions.ProviderRefusalError: lambda: exceptions.ProviderRefusalError(STOP),
    exceptions.ProviderHTTPError: lambda: exceptions.ProviderHTTPError("message", status_code=500, preview="p"),
    exceptions.ProviderTimeoutError: lambda: exceptions.ProviderTimeoutError("message", phase="idle", seconds=1.0),
    exceptions.AgentDeadlineError: lambda: exceptions.AgentDeadlineError("late", limit="deadline", value=2.5).fill(
        [UserMessage(content="x")], ModelUsage(1, 2), "said"
    ),
}


def tree(root: type[exceptions.AgentError]) -> Iterator[type[exceptions.AgentError]]:
    if root.__module__ == exceptions.__name__:
        yield root
    for kind in root.__subclasses__():
        yield from tree(kind)


@pytest.mark.parametrize("kind", dict.fromkeys(tree(exceptions.AgentError)))
@pytest.mark.parametrize("passed", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_an_error_is_copied_and_passes_between_processes_as_it_is(
    kind: type[exceptions.AgentError], passed: Callable[[Any], Any]
) -> None:
    failure = BUILD[kind]() if kind in BUILD else kind("what went wrong")
    failure.add_note("and where")
    arrived = passed(failure)
    assert (type(arrived), str(arrived), vars(arrived)) == (type(failure), str(failure), vars(failure))
    assert arrived.__notes__ == ["and where"] and arrived.args == failure.args


def test_a_failed_attempt_of_a_provider_passes_too() -> None:
    failed = AttemptFailed(Failure(exceptions.ProviderHTTPError("busy", status_code=503), True, 2.0))
    arrived = pickle.loads(pickle.dumps(failed))
    assert arrived.failure.retry_after == 2.0 and arrived.failure.error.status_code == 503


async def test_rule_7_a_group_of_exceptions_tells_the_model_what_is_in_it() -> None:
    @tool
    async def groups() -> None:
        """Fail together."""
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("the real reason")]), KeyError("other")])

    agent = await made(ScriptedModel([call("groups")], [text("x")]), tools=[groups])
    await played(agent)
    said = history(agent)[-2].content
    assert "ValueError: the real reason; KeyError: 'other'" in said and said.startswith("ExceptionGroup: outer")


async def test_rule_7_a_group_of_many_exceptions_tells_of_a_few() -> None:
    @tool
    async def groups() -> None:
        """Fail together."""
        raise ExceptionGroup("all", [ValueError(str(number)) for number in range(1_000)])

    agent = await made(ScriptedModel([call("groups")], [text("x")]), tools=[groups])
    await played(agent)
    assert "ValueError: 4; and more" in history(agent)[-2].content and "ValueError: 5" not in history(agent)[-2].content
