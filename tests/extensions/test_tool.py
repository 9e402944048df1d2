"""``ToolExtension``: tools that come and go with an extension."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.scenario import add, scene
from zett_agent import AgentTool, tool
from zett_agent.extensions.tool import ToolExtension
from zett_agent.testing import EXTENSION_CHECKS, call
from zett_agent.testing.extensions import ExtensionCheck


@tool
async def subtract(left: int, right: int) -> int:
    """Take one number from another."""
    return left - right


@pytest.mark.parametrize("check", EXTENSION_CHECKS)
async def test_it_keeps_what_every_extension_must_keep(check: ExtensionCheck) -> None:
    await check(lambda: ToolExtension(subtract))


@pytest.mark.parametrize("registered", [subtract, [subtract], (subtract, add)])
async def test_its_tools_are_offered_and_run(registered: Any) -> None:
    extension = ToolExtension(registered)
    stage = await scene([call("subtract", id="c", left=3, right=1)], "done", extensions=[extension])
    outcome = await stage.play()
    assert outcome.story[-2:] == ["tool c ok: 2", "assistant done"]
    assert [definition.name for definition in stage.model.requests[0].tools] == [each.name for each in extension.tools]
    assert extension.tool is subtract
    assert stage.agent.tools == {}


async def test_several_instances_need_names_of_their_own() -> None:
    first, second = ToolExtension(subtract), ToolExtension(add)
    with pytest.raises(ValueError, match="named 'ToolExtension'"):
        await scene(extensions=[first, second])
    second.name = "adding"
    stage = await scene("done", extensions=[first, second])
    await stage.play()
    assert [definition.name for definition in stage.model.requests[0].tools] == ["subtract", "add"]


async def test_a_name_that_is_taken_fails_the_request() -> None:
    stage = await scene(tools=[subtract], extensions=[ToolExtension(subtract)])
    outcome = await stage.play()
    assert isinstance(outcome.error, ValueError)


@pytest.mark.parametrize(
    ("registered", "error", "says"),
    [
        ([], ValueError, "at least one"),
        ([len], TypeError, "not builtin_function_or_method"),
        (len, TypeError, "not builtin_function_or_method"),
        ("ab", TypeError, "not str"),
        ([subtract, subtract], ValueError, "subtract, subtract"),
    ],
)
def test_what_is_no_set_of_tools_is_refused(registered: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ToolExtension(registered)


def test_a_subclass_is_an_extension_of_its_own() -> None:
    class Subtracting(ToolExtension):
        """Subtracts."""

        def __init__(self) -> None:
            super().__init__(subtract)

    extension = Subtracting()
    assert (extension.name, extension.tools) == ("Subtracting", (subtract,))
    assert isinstance(extension.tool, AgentTool)
