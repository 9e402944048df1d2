"""The base of all extensions: a name, a state of business, and hooks that do nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from tests.engine.scenario import add, scene, spin
from zett_agent.agent import Agent
from zett_agent.extensions.base import AgentExtension
from zett_agent.testing import ScriptedModel, call, error, stall, text


class Named(AgentExtension):
    """Its name is its class until it is set."""


async def test_the_name_is_the_class_until_it_is_set() -> None:
    extension = Named()
    assert extension.name == "Named"
    extension.name = "other"
    assert extension.name == "other"


async def test_the_name_may_be_a_class_attribute() -> None:
    class Fixed(AgentExtension):
        name = "fixed"  # pyright: ignore

    assert Agent(None, extensions=[Fixed()]).extensions[0].name == "fixed"


async def test_pending_follows_all_agents_that_use_the_instance() -> None:
    shared = Named()
    assert not shared.pending
    one = await scene([text("x"), first := stall()], extensions=[shared])
    two = await scene([text("x"), second := stall()], extensions=[shared])
    assert not shared.pending
    requests = [asyncio.ensure_future(stage.agent.run("hi")) for stage in (one, two)]
    await spin()
    for held in (first, second):
        assert shared.pending
        held.release()
        await spin()
    assert not shared.pending
    await asyncio.gather(*requests)


async def test_an_instance_does_not_keep_its_agents() -> None:
    shared = Named()
    await Agent.create(ScriptedModel(), extensions=[shared])
    gc.collect()
    assert not shared.pending and len(shared._agents or ()) == 0


async def test_every_hook_of_the_base_does_nothing_and_may_be_called_by_a_subclass() -> None:
    class Calls(AgentExtension):
        """Overrides everything and asks the base each time."""

    def through(name: str) -> Any:
        if name == "on_model_request":

            async def stream(self: Any, *arguments: Any) -> Any:
                async for event in AgentExtension.on_model_request(self, *arguments):
                    yield event

            return stream

        async def hook(self: Any, *arguments: Any) -> Any:
            return await getattr(AgentExtension, name)(self, *arguments)

        return hook

    for name in vars(AgentExtension):
        if name.startswith(("on_", "before_", "after_", "authorize_")):
            setattr(Calls, name, through(name))
    stage = await scene(
        [call("add", left=1, right=1)], "done", [error(ConnectionError())], tools=[add], extensions=[Calls()]
    )
    assert (await stage.play()).story[-1] == "assistant done"
    assert (await stage.play()).lines[-1] == "run_failed ConnectionError"
    async for _ in stage.agent.compact():
        pass
    extension = Named()
    assert extension.for_child() is None and extension.open_waits("s") == ()
    await extension.close()
