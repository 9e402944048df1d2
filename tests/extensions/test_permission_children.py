"""The permission policy of a parent holds for its subagents, at every depth (HITL-22, HITL-23)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.extensions.questions import decide, settle
from tests.extensions.subagents import asked, kind, parent, results, work
from zett_agent.agent import Agent
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent
from zett_agent.extensions.async_subagent import AsyncSubAgentExtension
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.permission import PermissionAnswer, PermissionExtension, PermissionRequest, PermissionRule
from zett_agent.extensions.subagent import SubAgentDefinition, SubAgentExtension
from zett_agent.messages import ToolMessage
from zett_agent.model import ModelRequest
from zett_agent.testing import EventRecorder, FunctionModel, ScriptedModel, call
from zett_agent.tools.base import tool

ran: list[str] = []

POLICY = [PermissionRule("sh", "ask"), PermissionRule("*", "allow")]


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def sh(line: str) -> str:
    """Run a command."""
    ran.append(line)
    return f"ran {line}"


def runner() -> FunctionModel:
    """A child that runs its prompt with ``sh`` and reports what came of it."""

    def answer(request: ModelRequest) -> Any:
        done = results(request.messages)
        return f"{done[-1].success}: {done[-1].text}" if done else [call("sh", id="same", line=asked(request))]

    return FunctionModel(answer)


def worker(*extensions: AgentExtension) -> SubAgentDefinition:
    return kind(runner(), "worker", tools=[sh], extensions=extensions)


def team(*extensions: AgentExtension, depth: int = 1) -> SubAgentExtension:
    """Workers, ``depth`` levels below the root; those between hand their prompt on."""
    below = worker(*extensions)
    for level in range(depth - 1):

        def hand_on(request: ModelRequest, name: str = below.name) -> Any:
            done = results(request.messages)
            content = json.loads(done[-1].text)["content"] if done else ""
            return content or [call("task", **work(asked(request), subagent_type=name))]

        below = kind(FunctionModel(hand_on), f"lead{level}", extensions=[SubAgentExtension([below])])
    return SubAgentExtension([below])


def delegated(*lines: str, depth: int = 1) -> ScriptedModel:
    name = "worker" if depth == 1 else f"lead{depth - 2}"
    return ScriptedModel([call("task", id=line, **work(line, subagent_type=name)) for line in lines], "ok")


def reports(model: ScriptedModel) -> list[str]:
    """What the children reported, in the order of the calls."""
    return [
        json.loads(message.text)["content"]
        for message in model.requests[-1].messages
        if isinstance(message, ToolMessage)
    ]


class Desk:
    """Decides, by the line of the call, as soon as every question of a batch is shown."""

    def __init__(self, agent: Agent, decisions: dict[str, dict[str, Any]]) -> None:
        self.agent = agent
        self.decisions = decisions
        self.questions: list[dict[str, Any]] = []
        self.ran_before: list[str] = []

    async def note(self, event: AgentEvent) -> None:
        assert event.payload is not None and event.name == "permission_request"
        self.questions.append(dict(event.payload))
        if len(self.questions) == len(self.decisions):
            await settle()
            self.ran_before = list(ran)
            for question in self.questions:
                decision = self.decisions[question["arguments"]["line"]]
                assert decide(self.agent, question["tool_call_id"], session_id=question["session_id"], **decision)

    async def play(self) -> EventRecorder:
        recorder = EventRecorder()
        for _ in self.decisions:
            recorder.when("custom", self.note)
        return await recorder.record(self.agent.stream("go"))


APPROVE: dict[str, Any] = {"decision": "approve"}


async def test_hitl_23_several_children_ask_at_once_and_each_question_names_its_path() -> None:
    model = delegated("a", "b", "c")
    agent = await parent(model, PermissionExtension(POLICY), team())
    desk = Desk(agent, dict.fromkeys("abc", APPROVE))
    await desk.play()
    assert desk.ran_before == []
    assert sorted(ran) == ["a", "b", "c"]
    assert [question["subagent"] for question in desk.questions] == [["worker"]] * 3
    assert [question["path"] for question in desk.questions] == [["s"]] * 3
    assert len({question["session_id"] for question in desk.questions} | {"s"}) == 4
    assert {question["tool_call_id"] for question in desk.questions} == {"same"}
    assert sorted(reports(model)) == [f"True: ran {line}" for line in "abc"]
    model.assert_done()


@pytest.mark.parametrize("depth", [1, 2])
async def test_hitl_22_every_decision_works_at_every_depth(depth: int) -> None:
    model = delegated("approve", "edit", "reject", "respond", depth=depth)
    agent = await parent(model, PermissionExtension(POLICY), team(depth=depth))
    desk = Desk(
        agent,
        {
            "approve": APPROVE,
            "edit": {"decision": "approve", "arguments": {"line": "edited"}},
            "reject": {"decision": "reject", "message": "no"},
            "respond": {"decision": "respond", "result": "by hand"},
        },
    )
    await desk.play()
    assert sorted(ran) == ["approve", "edited"]
    assert reports(model) == [
        "True: ran approve",
        'True: [A person changed the arguments of this call to {"line": "edited"}]\nran edited',
        "False: Rejected: no",
        "True: by hand",
    ]
    assert [len(question["path"]) for question in desk.questions] == [depth] * 4


async def test_hitl_23_a_question_of_a_child_is_not_answered_under_another_session() -> None:
    agent = await parent(delegated("a"), PermissionExtension(POLICY), team())
    asked_by: list[str] = []

    def act(event: AgentEvent) -> None:
        assert event.payload is not None
        assert decide(agent, "same") == decide(agent, "same", session_id="other") == []
        asked_by.append(event.payload["session_id"])
        (wait,) = agent.pending_waits(config=AgentRunConfig("s"))
        assert (wait.session_id, wait.id, wait.tool) == (asked_by[0], "same", "sh")
        assert len(decide(agent, "same", "reject", session_id=asked_by[0])) == 1
        assert decide(agent, "same", session_id=asked_by[0]) == []

    await EventRecorder().when("custom", act).record(agent.stream("go"))
    assert ran == []


@pytest.mark.parametrize(
    ("above", "own", "runs"),
    [
        ("deny", [PermissionExtension(default="allow")], False),
        ("allow", [PermissionExtension(default="deny")], False),
        ("allow", [PermissionExtension(default="allow")], True),
        ("deny", [], False),
        ("allow", [], True),
    ],
)
async def test_hitl_23_a_childs_own_policy_can_only_be_stricter(
    above: str, own: Sequence[PermissionExtension], runs: bool
) -> None:
    rules = [PermissionRule("sh", above), PermissionRule("*", "allow")]
    agent = await parent(delegated("a", depth=2), PermissionExtension(rules), team(*own, depth=2))
    await EventRecorder().record(agent.stream("go"))
    assert bool(ran) is runs


async def test_hitl_23_a_childs_own_approver_does_not_answer_for_the_people_of_the_parent() -> None:
    own = PermissionExtension(approve=lambda request: True)
    agent = await parent(delegated("a"), PermissionExtension(POLICY), team(own))
    desk = Desk(agent, {"a": {"decision": "reject"}})
    await desk.play()
    assert (len(desk.questions), ran) == (1, [])


async def test_hitl_23_a_gate_of_the_child_and_one_of_the_parent_ask_people_once() -> None:
    agent = await parent(delegated("a"), PermissionExtension(POLICY), team(PermissionExtension()))
    desk = Desk(agent, {"a": APPROVE})
    recorder = await desk.play()
    assert len(recorder.custom("permission_request")) == 1
    assert ran == ["a"]


async def test_hitl_22_an_approver_in_code_is_asked_on_behalf_of_children_and_sees_their_path() -> None:
    asked_for: list[tuple[str, ...]] = []

    def approve(request: PermissionRequest) -> PermissionAnswer:
        asked_for.append((*request.path, request.session_id))
        return PermissionAnswer("approve", arguments={"line": "edited"})

    agent = await parent(delegated("a", depth=2), PermissionExtension(POLICY, approve=approve), team(depth=2))
    await EventRecorder().record(agent.stream("go"))
    assert ran == ["edited"]
    assert [(path[0], len(path)) for path in asked_for] == [("s", 3)]


async def test_hitl_23_background_children_are_gated_too() -> None:
    background = AsyncSubAgentExtension([worker()])
    model = ScriptedModel([call("task_start", **work("a", subagent_type="worker"))], "later")
    agent = await parent(model, PermissionExtension(POLICY), background)
    await EventRecorder().record(agent.stream("go"))
    (task,) = background.tasks("s")
    await settle()
    (wait,) = agent.pending_waits()
    assert (wait.id, wait.session_id, ran) == ("same", task.session_id, [])
    assert decide(agent, "same", session_id=task.session_id)
    await background.wait(task)
    assert (ran, task.content) == (["a"], "True: ran a")
    await agent.aclose()


async def test_stopping_the_parent_leaves_no_question_of_a_child() -> None:
    agent = await parent(delegated("a"), PermissionExtension(POLICY), team())
    recorder = await EventRecorder().record(agent.stream("go"), until="custom")
    (question,) = recorder.custom("permission_request")
    assert question.payload is not None
    assert agent.pending_waits() == ()
    assert decide(agent, "same", session_id=question.payload["session_id"]) == []
    assert ran == []
