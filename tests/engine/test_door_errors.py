"""Bad input at the door gets an error that names the field and the fix, before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.agent import Agent
from zett_agent.client import create_agent
from zett_agent.config import AgentRunConfig
from zett_agent.extensions.ask_user import AskUserExtension
from zett_agent.testing import ScriptedModel, text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "gpt-4"}, r"model must have the method stream\(\), see AgentModel; str has none"),
        ({"extensions": AskUserExtension()}, "extensions must be a list, not a single AskUserExtension"),
        ({"extensions": [AskUserExtension]}, "not the class AskUserExtension"),
        ({"extensions": ["ask_user"]}, "extensions must hold AgentExtension objects, not str"),
    ],
)
def test_what_is_no_model_and_no_extension_is_named(options: dict[str, Any], says: str) -> None:
    model = options.pop("model", None)
    with pytest.raises(TypeError, match=says):
        Agent(model, **options)


async def test_an_unknown_option_of_a_request_is_named_with_those_that_there_are() -> None:
    agent = await create_agent(ScriptedModel([text("done")]))
    with pytest.raises(TypeError, match="no option session_id; it takes config, model"):
        await agent.run("hello", session_id="s")  # type: ignore[call-arg]  # the mistake that is tested
    assert (await agent.run("hello")).content == "done"


async def test_the_client_forgets_a_session_and_tells_whether_it_is_busy() -> None:
    agent = await create_agent(ScriptedModel([text("one")], [text("two")]), config=AgentRunConfig(session_id="mine"))
    await agent.run("hello")
    session_id = "mine"
    assert agent.get_state(session_id) is not None
    assert not agent.is_conflict(session_id)
    agent.forget(session_id)
    assert agent.get_state(session_id) is None
    await agent.run("again")
    state = agent.get_state(session_id)
    assert state is not None
    assert [message.role.value for message in state.messages] == ["system", "user", "assistant"]
