"""How many subagents there may be: deep, at once, and altogether (BG-07)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.extensions.subagents import Meeting, echo, kind, parent, results, work
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.subagent import SubAgentExtension
from zett_agent.messages import AnyMessage, UserMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import FunctionModel, ScriptedModel, call
from zett_agent.tools.base import tool


@tool
async def note() -> str:
    """Takes a note."""
    return "noted"


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


async def test_bg_07_more_children_than_may_run_at_once_wait_their_turn_and_others_are_not_held_up() -> None:
    running = most = 0
    order: list[str] = []

    async def answer(request: ModelRequest) -> str:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        asked = request.messages[-1]
        assert isinstance(asked, UserMessage)
        order.append(asked.text)
        await asyncio.sleep(0)
        running -= 1
        return "done"

    prompts = [f"part {number}" for number in range(7)]
    with ScriptedModel([*(call("task", **work(prompt)) for prompt in prompts), call("note")], "ok") as model:
        extension = SubAgentExtension([kind(FunctionModel(answer))], max_children=2)
        agent = await parent(model, extension, tools=[note])
        await agent.run("go")
    assert [message.success for message in results(agent.state.messages)] == [True] * 8
    assert (most, order) == (2, prompts)
    assert extension.nursery.empty


async def test_bg_07_who_is_cancelled_in_the_queue_holds_up_nobody() -> None:
    meeting = Meeting()
    with ScriptedModel([call("task", **work()) for _ in range(5)]) as model:
        extension = SubAgentExtension([kind(meeting.model)], max_children=2)
        agent = await parent(model, extension)
        request = asyncio.create_task(agent.run("go"))
        await meeting.reached(2)
        request.cancel()
        await asyncio.wait({request})
    assert extension.nursery.empty
    assert [message.success for message in results(agent.state.messages)] == [False] * 5


async def test_bg_07_a_child_that_cannot_be_made_gives_its_place_to_the_next() -> None:
    made = 0

    class Failing(SubAgentExtension):
        async def _create_child(self, definition: Any, child_session_id: str, context: Any) -> Any:
            nonlocal made
            made += 1
            if made == 2:
                raise OSError("no room")
            return await super()._create_child(definition, child_session_id, context)

    with ScriptedModel([call("task", **work()) for _ in range(4)], "ok") as model:
        agent = await parent(model, extension := Failing([kind(echo())], max_children=1))
        await agent.run("go")
    assert [message.success for message in results(agent.state.messages)] == [True, False, True, True]
    assert extension.nursery.empty


async def test_bg_07_more_background_tasks_at_once_than_allowed_are_refused() -> None:
    meeting = Meeting()
    with ScriptedModel([call("task_start", **work()) for _ in range(3)], "ok") as model:
        background = AsyncSubAgentExtension([kind(meeting.model)], max_concurrent=2, notify_parent=False)
        agent = await parent(model, background)
        await agent.run("go")
        told = results(agent.state.messages)
        assert sorted(message.success for message in told) == [False, True, True]
        await agent.aclose()


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
