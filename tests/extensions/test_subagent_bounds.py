"""How many subagents there may be: deep, at once, and altogether (BG-07)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.extensions.subagents import Meeting, echo, kind, parent, results, work
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AnyMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call


def spawning(count: int, log: list[tuple[AnyMessage, ...]]) -> FunctionModel:
    """A model that starts ``count`` subagents in its first answer, whatever it is asked."""

    def answer(request: ModelRequest) -> Any:
        log.append(tuple(request.messages))
        return "done" if results(request.messages) else [call("task", **work()) for _ in range(count)]

    return FunctionModel(answer)


async def test_bg_07_a_model_that_always_spawns_is_held_by_depth_and_total_and_the_request_ends() -> None:
    log: list[tuple[AnyMessage, ...]] = []
    model = spawning(5, log)
    # One extension object at every level: the children's definition holds the parent's own extension.
    extension = SubAgentExtension(max_depth=2, max_total=10)
    extension._offer._given = {"helper": kind(model, extensions=[extension])}
    agent = await parent(model, extension)
    answer = await agent.run("go")
    assert answer.content == "done"
    children = len({message.text for messages in log for message in results(messages) if message.success})
    assert children == 10
    refused = {
        message.text.split(": ", 1)[1] for messages in log for message in results(messages) if not message.success
    }
    assert refused <= {
        "all 10 subagents that may be started have been: go on without more of them",
        "this is level 2 of at most 2 levels of subagents: do the work yourself",
    }
    assert len(refused) == 2


async def test_bg_07_a_childs_own_extension_has_at_most_what_the_parent_has_left() -> None:
    log: list[tuple[AnyMessage, ...]] = []
    inner = SubAgentExtension([kind(echo())], max_total=50, max_depth=9)
    child = kind(spawning(5, log), extensions=[inner])
    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([child], max_total=3))
        await agent.run("go")
    assert [message.success for message in results(log[-1])] == [True, True, False, False, False]
    assert "all 3 subagents" in results(log[-1])[-1].text


async def test_bg_07_a_childs_own_extension_may_be_stricter_for_what_is_below_it() -> None:
    log: list[tuple[AnyMessage, ...]] = []
    inner = SubAgentExtension([kind(echo())], max_total=1)
    child = kind(spawning(2, log), extensions=[inner])
    with ScriptedModel([call("task", **work()), call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([child]))
        await agent.run("go")
    assert [[m.success for m in results(messages)] for messages in log if results(messages)] == [[True, False]] * 2


async def test_bg_07_the_bounds_of_a_request_begin_anew_with_the_next_one() -> None:
    def answer(request: ModelRequest) -> Any:
        return "ok" if results(request.messages[-1:]) else [call("task", **work())]

    agent = await parent(FunctionModel(answer), SubAgentExtension([kind(echo())], max_total=1))
    await agent.run("1")
    await agent.run("2")
    assert [message.success for message in results(agent.state.messages)] == [True, True]


async def test_bg_07_foreground_and_background_subagents_of_a_request_share_its_total() -> None:
    background = AsyncSubAgentExtension([kind(echo())], max_total=2)
    with ScriptedModel(
        [call("task", **work())], [call("task_start", **work())], [call("task", **work())], "ok", "ok"
    ) as model:
        agent = await parent(model, SubAgentExtension([kind(echo())], max_total=2), background)
        await agent.run("go")
        assert "all 2 subagents" in results(agent.state.messages)[2].text
        await background.close()
        await agent.run("again")


async def test_bg_07_more_children_at_once_than_allowed_are_refused_and_others_not_held_up() -> None:
    meeting = Meeting()
    calls = [call("task", **work()) for _ in range(3)]
    with ScriptedModel(calls, [call("task", **work())], "ok") as model:
        agent = await parent(model, SubAgentExtension([kind(meeting.model)], max_children=2))
        request = asyncio.create_task(agent.run("go"))
        await meeting.reached(2)
        meeting.release()
        await request
    told = results(agent.state.messages)
    assert [message.success for message in told] == [True, True, False, True]
    assert "2 subagents of this session run already" in told[2].text


async def test_bg_07_the_depth_is_counted_from_the_root_and_the_strictest_bound_on_the_way_holds() -> None:
    log: list[tuple[AnyMessage, ...]] = []
    bottom = SubAgentExtension([kind(echo())], max_depth=9)
    middle = SubAgentExtension([kind(spawning(1, log), extensions=[bottom])], max_depth=2)
    top = SubAgentExtension([kind(spawning(1, log), extensions=[middle])], max_depth=9)
    with ScriptedModel([call("task", **work())], "ok") as model:
        agent = await parent(model, top)
        await agent.run("go")
    refusals = [m.text for messages in log for m in results(messages) if not m.success]
    assert refusals == ["ValueError: this is level 2 of at most 2 levels of subagents: do the work yourself"]
