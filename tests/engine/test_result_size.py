"""One cap for the text of every tool result (core-39)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import named
from zett_agent.agent import Agent
from zett_agent.context import AgentRunContext
from zett_agent.extensions.base import AgentExtension
from zett_agent.messages import ToolCall, ToolMessage
from zett_agent.testing import ScriptedModel, call

MEGABYTES = 10_000_000


async def endless() -> str:
    """Returns much too much."""
    return "a" * MEGABYTES


async def failing() -> str:
    """Fails with much too much."""
    raise ValueError("a" * MEGABYTES)


class Full(AgentExtension):
    """Sees whole results, and may put its own in their place."""

    seen = 0

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        self.seen = len(result.content)


async def sent(tool: Any, extension: AgentExtension | None = None, **options: Any) -> ToolMessage:
    model = ScriptedModel([call(tool.name, id="c")], "done")
    agent = await Agent.create(model, tools=[tool], extensions=[extension] if extension else [], **options)
    await agent.run("hi")
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    return result


@pytest.mark.parametrize("work", [endless, failing])
async def test_core_39_a_result_or_an_error_of_ten_megabytes_is_cut(work: Any) -> None:
    result = await sent(named("big", work))
    assert len(result.text) < 200_200
    assert "9,800,0" in result.text
    assert result.text.endswith("aaa")


async def test_core_39_the_limit_of_the_tool_goes_before_that_of_the_agent() -> None:
    assert len((await sent(named("big", endless), max_result_chars=500)).text) < 700
    assert len((await sent(named("big", endless, max_result_chars=900), max_result_chars=500)).text) > 900


async def test_core_39_a_hook_sees_the_whole_result_before_it_is_cut() -> None:
    full = Full()
    assert len((await sent(named("big", endless), full)).text) < 200_200
    assert full.seen == MEGABYTES


async def test_core_39_a_call_without_a_tool_is_cut_too() -> None:
    model = ScriptedModel([call("b" * 1_000, id="c")], "done")
    await (await Agent.create(model, max_result_chars=100)).run("hi")
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert "characters are left out" in result.text


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, None, "9"])
def test_core_39_a_limit_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="max_result_chars must be an integer of at least 1"):
        Agent(None, max_result_chars=wrong)
    if wrong is not None:
        with pytest.raises(ValueError, match="max_result_chars must be an integer of at least 1"):
            named("big", endless, max_result_chars=wrong)
