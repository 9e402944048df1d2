"""A decision of ``PermissionExtension`` is bound to the call that it was made on; no change of the call escapes it.

Each bypass that was thought of is a test: arguments, name, id and error changed by a hook before or behind the gate or
by a layer around the handler, the tool replaced, several gates of unlike strictness.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.scenario import Scene
from tests.extensions.questions import decide, held, reply, results, scene, settle
from zett_agent import AgentExtension, AgentRunContext
from zett_agent.exceptions import ToolRejectedError
from zett_agent.extensions.base import ToolCallNext
from zett_agent.extensions.permission import PermissionAnswer, PermissionExtension, PermissionRequest, PermissionRule
from zett_agent.messages import ToolCall
from zett_agent.testing import EventRecorder, call
from zett_agent.tools.base import AgentTool, ToolResult, tool

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def safe(path: str = "") -> str:
    """Do something harmless."""
    ran.append(("safe", path))
    return "safe"


@tool
async def wipe(path: str = "", tags: list[str] | None = None) -> str:
    """Do something harmful."""
    ran.append(("wipe", path))
    return f"wiped {path} {tags}"


Change = Callable[[AgentRunContext, ToolCall], None]


class Early(AgentExtension):
    """Changes a call in ``before_tool``, ahead of the gate."""

    def __init__(self, change: Change) -> None:
        self.change = change

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        self.change(context, call)


class Late(Early):
    """The same, behind every gate."""

    priority = 10**12


class Layer(AgentExtension):
    """Changes a call in a layer around its handler."""

    def __init__(self, change: Change, priority: int) -> None:
        self.change, self.priority = change, priority

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
        self.change(context, call)
        return await call_next()


def _path(path: str) -> Change:
    return lambda context, call: call.arguments.__setitem__("path", path)


def _arguments(**arguments: Any) -> Change:
    return lambda context, call: setattr(call, "arguments", arguments)


def _name(name: str) -> Change:
    return lambda context, call: setattr(call, "name", name)


CHANGES: Sequence[Callable[[Change], AgentExtension]] = (
    Late,
    lambda change: Layer(change, -(10**12)),
    lambda change: Layer(change, 100),
    lambda change: Layer(change, 10**12),
)
AFTER = pytest.mark.parametrize("place", CHANGES, ids=["before_tool", "outermost", "middle", "innermost"])

ONLY_TMP = [
    PermissionRule("wipe", "allow", when=lambda arguments: arguments["path"] == "/tmp"),
    PermissionRule("wipe", "deny", "outside of /tmp"),
    PermissionRule("safe", "allow"),
]


async def play(*extensions: AgentExtension, name: str = "wipe", answer: dict[str, Any] | None = None) -> Scene:
    """One call with path /tmp, to its end; ``answer`` decides on whatever is asked."""
    stage = await scene([call(name, id="c", path="/tmp")], "done", tools=[safe, wipe], extensions=extensions)
    recorder = EventRecorder()
    if answer is not None:
        recorder.when("custom", reply(stage.agent, **answer))
    await stage.play(recorder=recorder)
    return stage


def text(stage: Scene) -> str:
    return results(stage)["c"].text


# --- changed arguments ----------------------------------------------------------------------------------------------


async def test_arguments_that_are_changed_ahead_of_the_gate_are_what_it_judges() -> None:
    await play(Early(_path("/home")), PermissionExtension(ONLY_TMP))
    assert ran == []


async def test_a_person_sees_the_arguments_that_hooks_ahead_of_the_gate_left() -> None:
    seen: list[Any] = []

    async def approve(request: PermissionRequest) -> bool:
        seen.append(request.sent)
        return True

    await play(Early(_path("/x")), PermissionExtension(approve=approve))
    assert seen == [{"path": "/x"}]
    assert ran == [("wipe", "/x")]


async def test_arguments_that_are_spoilt_ahead_of_the_gate_are_not_asked_about() -> None:
    stage = await play(Early(_arguments(path=["/"])), PermissionExtension())
    assert (ran, results(stage)["c"].success) == ([], False)
    assert "path" in text(stage)


async def test_arguments_that_are_spoilt_ahead_of_the_gate_and_mended_behind_it_are_judged() -> None:
    stage = await play(Early(_arguments(path=["/"])), PermissionExtension(ONLY_TMP), Late(_path("/home")))
    assert "outside of /tmp" in text(stage)
    assert ran == []


@AFTER
@pytest.mark.parametrize("change", [_path("/home"), _arguments(path="/home")], ids=["in place", "replaced"])
async def test_arguments_that_are_changed_after_the_decision_are_judged_again(
    place: Callable[[Change], AgentExtension], change: Change
) -> None:
    stage = await play(place(change), PermissionExtension(ONLY_TMP))
    assert ran == []
    assert "outside of /tmp" in text(stage) and "changed after it was decided on" in text(stage)
    assert not results(stage)["c"].success


@AFTER
async def test_a_change_that_the_policy_allows_runs(place: Callable[[Change], AgentExtension]) -> None:
    await play(place(_path("/tmp/b")), PermissionExtension(lambda request: "allow"))
    assert ran == [("wipe", "/tmp/b")]


@AFTER
async def test_hitl_18_what_a_person_approved_is_not_changed_behind_their_back(
    place: Callable[[Change], AgentExtension],
) -> None:
    stage = await play(place(_path("/home")), PermissionExtension(), answer={"decision": "approve"})
    assert ran == []
    assert text(stage).startswith("Refused by the permission policy.")


@AFTER
async def test_what_a_person_edited_is_not_changed_behind_their_back(place: Callable[[Change], AgentExtension]) -> None:
    answer = {"decision": "approve", "arguments": {"path": "/tmp/mine"}}
    stage = await play(place(_path("/home")), PermissionExtension(), answer=answer)
    assert ran == []
    assert text(stage).startswith("[A person changed the arguments")


@AFTER
async def test_changed_arguments_that_do_not_fit_the_tool_never_run(place: Callable[[Change], AgentExtension]) -> None:
    stage = await play(place(_arguments(path=["/"])), PermissionExtension(lambda request: "allow"))
    assert ran == []
    assert not results(stage)["c"].success


async def test_arguments_that_are_equal_only_to_python_are_changed_ones() -> None:
    flags: list[Any] = []

    @tool
    async def flag(value: int | bool) -> str:
        """Set something."""
        flags.append(value)
        return "set"

    stage = await scene(
        [call("flag", id="c", value=1)],
        "done",
        tools=[flag],
        extensions=[Layer(_arguments(value=True), 10**12), PermissionExtension()],
    )
    await stage.play(recorder=EventRecorder().when("custom", reply(stage.agent, decision="approve")))
    assert flags == []


async def test_what_a_layer_does_after_the_last_look_changes_nothing() -> None:
    class Sneaky(AgentExtension):
        priority = 10**12

        async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
            call.arguments["path"] = "/home"
            call.name = "safe"

    await play(Sneaky(), PermissionExtension(ONLY_TMP))
    await play(PermissionExtension(ONLY_TMP), Sneaky())
    assert ran == [("wipe", "/tmp")] * 2


# --- changed names, ids and errors ----------------------------------------------------------------------------------


@AFTER
async def test_a_call_that_is_renamed_is_judged_by_its_new_name(place: Callable[[Change], AgentExtension]) -> None:
    rules = [PermissionRule("safe", "allow"), PermissionRule("*", "deny")]
    await play(place(_name("wipe")), PermissionExtension(rules), name="safe")
    assert ran == []


@AFTER
@pytest.mark.parametrize("name", ["safe", "nothing"])
async def test_a_harmful_call_is_not_let_through_under_a_harmless_name(
    place: Callable[[Change], AgentExtension], name: str
) -> None:
    rules = [PermissionRule("wipe", "ask"), PermissionRule("*", "allow")]
    await play(place(_name(name)), PermissionExtension(rules), answer={"decision": "reject"})
    assert ("wipe", "/tmp") not in ran


async def test_an_error_that_is_wiped_away_does_not_bring_a_refused_call_back() -> None:
    forget: Change = lambda context, call: setattr(call, "error", None)  # noqa: E731 - one of the changes above
    await play(Late(forget), PermissionExtension(default="deny"))
    await play(Late(forget), PermissionExtension(), answer={"decision": "reject"})
    await play(Late(forget), PermissionExtension(timeout=0.005))
    await play(Late(forget), PermissionExtension(approve=lambda request: False))
    await play(Late(forget), PermissionExtension(), answer={"decision": "approve", "arguments": {"path": 7}})
    assert ran == []


async def test_a_call_that_is_renamed_ahead_of_the_gate_to_nothing_gains_nothing() -> None:
    rules = [PermissionRule("wipe", "deny"), PermissionRule("*", "ask")]
    edit = {"decision": "approve", "arguments": {"path": "/x"}}
    await play(Early(_name("nothing")), PermissionExtension(rules), answer=edit)
    await play(Early(_name("nothing")), PermissionExtension(rules, default="allow"), answer={"decision": "approve"})
    assert ran == []


@AFTER
async def test_a_call_cannot_borrow_the_approval_of_another(place: Callable[[Change], AgentExtension]) -> None:
    change: Change = lambda context, call: setattr(call, "id", "approved")  # noqa: E731 - one of the changes above
    stage = await scene(
        [call("wipe", id="approved", path="/a"), call("wipe", id="c", path="/b")],
        "done",
        tools=[wipe],
        extensions=[place(change), PermissionExtension()],
    )
    request, _ = await held(stage, "permission_request", count=2)
    decide(stage.agent, "c", "reject")
    decide(stage.agent, "approved")
    await request
    assert ("wipe", "/b") not in ran


# --- replaced tools -------------------------------------------------------------------------------------------------


async def _wiped(path: str = "") -> str:
    ran.append(("replaced", path))
    return "replaced"


async def test_a_tool_that_is_replaced_is_judged_by_its_name() -> None:
    def swap(context: AgentRunContext, call: ToolCall) -> None:
        context.tools["wipe"] = replace(safe, name="other", handler=_wiped)

    await play(Early(swap), PermissionExtension([PermissionRule("wipe", "deny")], default="allow"))
    assert ran == []
    await play(Early(swap), PermissionExtension([PermissionRule("wipe", "allow")], default="deny"))
    assert ran == [("replaced", "/tmp")]


async def test_a_plain_agent_tool_is_judged_by_its_arguments_as_they_are() -> None:
    plain = AgentTool("plain", "Do it.", {"type": "object", "properties": {}}, _wiped)
    rules = [PermissionRule("plain", "deny", when=lambda arguments: arguments == {"path": "/"})]
    stage = await scene(
        [call("plain", id="c", path="/"), call("plain", id="d", path="/tmp")],
        "done",
        tools=[plain],
        extensions=[PermissionExtension(rules, default="allow")],
    )
    await stage.play()
    assert ran == [("replaced", "/tmp")]


# --- several gates --------------------------------------------------------------------------------------------------


def gates(*made: PermissionExtension) -> list[PermissionExtension]:
    """The gates, each under a name of its own."""
    for number, gate in enumerate(made):
        gate.name = f"gate {number}"
    return list(made)


@pytest.mark.parametrize(
    ("first", "second", "runs"),
    [
        ("allow", "allow", True),
        ("allow", "deny", False),
        ("deny", "allow", False),
        ("ask", "deny", False),
        ("deny", "ask", False),
    ],
)
async def test_the_strictest_of_several_gates_wins(first: str, second: str, runs: bool) -> None:
    both = gates(PermissionExtension(default=first), PermissionExtension(default=second))
    await play(*both, answer={"decision": "approve"} if first == "ask" else None)
    assert bool(ran) is runs


async def test_two_gates_that_ask_people_ask_them_once() -> None:
    stage = await scene(
        [call("wipe", id="c", path="/tmp")],
        "done",
        tools=[wipe],
        extensions=gates(PermissionExtension(), PermissionExtension()),
    )
    request, recorder = await held(stage, "permission_request")
    assert decide(stage.agent, "c") == ["gate 0"]
    await settle()
    assert decide(stage.agent, "c") == []  # a second click answers no second question
    await request
    assert len(recorder.custom("permission_request")) == 1
    assert ran == [("wipe", "/tmp")]


async def test_hitl_23_an_approver_in_code_does_not_answer_for_people() -> None:
    both = gates(PermissionExtension(approve=lambda request: True), PermissionExtension())
    await play(*both, answer={"decision": "reject"})
    await play(*reversed(both), answer={"decision": "reject"})
    assert ran == []


async def test_people_do_not_answer_for_an_approver_in_code() -> None:
    both = gates(PermissionExtension(), PermissionExtension(approve=lambda request: False))
    await play(*both, answer={"decision": "approve"})
    assert ran == []


async def test_an_edit_at_one_gate_is_judged_by_the_others() -> None:
    edit = {"decision": "approve", "arguments": {"path": "/home"}}
    await play(*gates(PermissionExtension(), PermissionExtension(ONLY_TMP)), answer=edit)
    await play(*gates(PermissionExtension(ONLY_TMP), PermissionExtension()), answer=edit)
    assert ran == []
    asks_elsewhere = [PermissionRule("*", "allow", when=lambda arguments: arguments["path"] == "/tmp")]
    await play(*gates(PermissionExtension(asks_elsewhere), PermissionExtension()), answer=edit)
    assert ran == [("wipe", "/home")]  # the first gate would ask people, and people have decided on exactly this


async def test_an_edit_in_code_is_asked_about_again_where_people_must_decide() -> None:
    def approve(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer("approve", arguments={"path": "/home"})

    await play(*gates(PermissionExtension(), PermissionExtension(approve=approve)), answer={"decision": "approve"})
    assert ran == []


async def test_a_result_that_a_person_gave_is_not_asked_about_again() -> None:
    both = gates(PermissionExtension(), PermissionExtension(default="deny"))
    stage = await play(*both, answer={"decision": "respond", "result": "by hand"})
    assert (text(stage), ran) == ("by hand", [])


# --- what else is promised ------------------------------------------------------------------------------------------


async def test_a_layer_that_answers_without_running_the_tool_gives_no_answer_to_a_denied_call() -> None:
    class Cache(AgentExtension):
        async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
            return "from the cache"

    stage = await play(Cache(), PermissionExtension(default="deny"))
    assert text(stage) == "Refused by the permission policy."


async def test_a_refusal_behind_the_layers_is_a_rejection() -> None:
    stage = await scene(
        [call("wipe", id="c", path="/tmp")],
        "done",
        tools=[wipe],
        extensions=[Layer(_path("/"), 1), PermissionExtension(ONLY_TMP)],
    )
    outcome = await stage.play()
    assert isinstance(outcome.recorder.of("tool_failed")[0].error, ToolRejectedError)


async def test_arguments_are_told_as_json_in_the_note_of_an_edit() -> None:
    answer = {"decision": "approve", "arguments": {"path": "/ü", "tags": ["a"]}}
    stage = await play(PermissionExtension(), answer=answer)
    first = text(stage).splitlines()[0]
    assert json.loads(first[first.index("{") : -1]) == {"path": "/ü", "tags": ["a"]}
