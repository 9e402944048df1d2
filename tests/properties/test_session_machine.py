"""Whatever is done to three sessions of one agent, in whatever order, they stay whole: pairing, waits, outcomes, ends.

``ZETT_EXAMPLES`` tries more examples than CI does. A failing one is printed as a program and with its blob
(``print_blob`` in conftest): ``@reproduce_failure`` with it on ``TestSessions`` repeats the example.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.properties.machine_checks import (
    check_always,
    check_asked,
    check_messages,
    check_nothing_is_left,
    check_settled,
)
from tests.properties.machine_ledger import SESSIONS
from tests.properties.machine_plans import PLANS
from tests.properties.machine_world import WITHOUT_END, Consumer, World, in_threads
from zett_agent.model import ModelRequest
from zett_agent.waits import Wait

EXAMPLES = int(os.environ.get("ZETT_EXAMPLES", "100"))

PLACES = st.integers(0, 11)
SOME = st.sampled_from(SESSIONS)
DECISIONS = st.sampled_from(("approve", "edit", "reject", "respond"))
#: What follows an act: everything that can, or a few steps of the loop only, so that the next act comes in the midst.
THEN = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 12))


def needs(found: Callable[[World], Any]) -> Callable[[Any], Any]:
    """A rule that makes sense only when the world has something it can be done to."""
    return precondition(lambda machine: bool(found(machine.world)))


class SessionMachine(RuleBasedStateMachine):
    """The acts. What they do is in ``World``, what must be in ``Ledger``, what is compared in ``machine_checks``."""

    world: World

    @initialize(pauses=st.booleans(), grumpy=st.booleans(), wake=st.booleans(), loud=st.booleans())
    def begin(self, *, pauses: bool, grumpy: bool, wake: bool, loud: bool) -> None:
        self.effects: dict[str, tuple[Consumer, int, int]] = {}
        self.world = World(self._check_request, pauses=pauses, grumpy=grumpy, wake=wake, loud=loud)

    # requests and who reads them

    @needs(World.idle)
    @rule(place=PLACES, kind=st.sampled_from(("fresh", "fresh", "fresh", "internal", "resume")), plan=PLANS, then=THEN,
          events=st.sampled_from((WITHOUT_END, WITHOUT_END, WITHOUT_END, 0, 1, 3, 8)))  # fmt: skip
    def start(self, place: int, kind: str, plan: list[Any], events: int, then: int | None) -> None:
        session_id = _one(self.world.idle(), place)
        if kind == "resume" and not self.world.memory.messages(session_id):
            kind = "fresh"
        self.world.consumers[session_id] = self.world.start(session_id, kind, plan, events)
        self._go_on(then)

    @needs(lambda world: world.settled and world.ledger.busy())
    @rule(place=PLACES, plan=PLANS)
    def start_a_second(self, place: int, plan: list[Any]) -> None:
        world = self.world
        second = world.start(_one(sorted(world.ledger.busy()), place), "fresh", plan, WITHOUT_END)
        world.refused.append(second)
        self._go_on(None)
        assert second.gone and second.error is not None

    @needs(lambda world: _idle_with_history(world))
    @rule(place=PLACES, act=st.sampled_from(("request", "request", "inspect", "compact", "forget")))
    def use_an_idle_session(self, place: int, act: str) -> None:
        world = self.world
        session_id = _one(_idle_with_history(world), place)
        if act == "request":
            assert session_id in world.request(session_id).content
        elif act == "forget":
            world.agent.forget(session_id)
            assert not world.memory.messages(session_id)
        else:
            world.look(session_id, compact=act == "compact")
        self._go_on(None)

    @needs(World.readers)
    @rule(place=PLACES, events=st.sampled_from((WITHOUT_END, 1, 2, 5, 20)), then=THEN)
    def read(self, place: int, events: int, then: int | None) -> None:
        _one(self.world.readers(), place).allow(events)
        self._go_on(then)

    @needs(World.readers)
    @rule(place=PLACES, then=THEN, how=st.sampled_from(("rest", "cancel", "leave", "now", "after_turn", "aclose")))
    def stop_reading(self, place: int, how: str, then: int | None) -> None:
        """Stay idle, cancel the reader, close the stream, stop the request, or close the whole agent."""
        world = self.world
        reader = _one(world.readers(), place)
        if how == "rest":
            reader.rest()
        elif how == "aclose":
            world.aclose()
            assert not world.waits() and not world.tasks()
        elif how in ("now", "after_turn"):
            world.stop(reader.session_id, how)
        elif how == "cancel" or reader.asking:  # a stream that is asked cannot be closed; whoever asks can be cancelled
            reader.cancel()
        else:
            reader.leave()
        self._go_on(then)

    # answers

    @needs(World.waits)
    @rule(place=PLACES, decision=DECISIONS, named=st.booleans(), then=THEN)
    def answer(self, place: int, decision: str, named: bool, then: int | None) -> None:
        wait = _one(self.world.waits(), place)
        assert self.world.answer(wait, decision, request_id=wait.request_id if named else None)
        self._go_on(then)

    @needs(World.waits)
    @rule(place=PLACES, decision=DECISIONS, then=THEN)
    def answer_twice(self, place: int, decision: str, then: int | None) -> None:
        wait = _one(self.world.waits(), place)
        assert self.world.answer(wait, decision)
        assert not self.world.answer(wait, decision)
        self._go_on(then)

    @needs(World.waits)
    @rule(place=PLACES, decisions=st.lists(DECISIONS, min_size=1, max_size=3), then=THEN)
    def answer_from_threads(self, place: int, decisions: list[str], then: int | None) -> None:
        world = self.world
        wait = _one(world.waits(), place)
        replies = [world.reply(wait, decision) for decision in decisions]
        work = [partial(world.emit, wait.session_id, name, **payload) for _, name, payload in replies]
        taken = [world.note(wait, reply[0], takers) for reply, takers in zip(replies, in_threads(*work), strict=True)]
        assert taken.count(True) == 1
        self._go_on(then)

    @needs(World.waits)
    @rule(place=PLACES, how=st.sampled_from(("id", "session", "request", "name", "no_id", "no_text", "shape", "loop")))
    def answer_wrongly(self, place: int, how: str) -> None:
        world = self.world
        wait = _one(world.waits(), place)
        answer, name, payload = world.reply(wait, "approve")
        session_id, request_id = wait.session_id, wait.request_id if how == "request" else None
        if how == "session":
            open_ones = {(other.session_id, other.id) for other in world.waits()}
            session_id = next((one for one in SESSIONS if (one, wait.id) not in open_ones), "nobody")
        wrong: dict[str, Any] = {
            "id": {"tool_call_id": "nobody"},
            "no_text": {"tool_call_id": 7},
            "loop": {"deep": payload},
            "shape": {"tool_call_id": [wait.id]},
        }
        payload.update(wrong.get(how, {}))
        if how == "no_id":
            del payload["tool_call_id"]
        name = "permission_answer" if how == "name" else name
        request_id = f"not {request_id}" if request_id else None
        assert not world.note(wait, answer, world.emit(session_id, name, request_id, **payload))
        if world.settled:
            assert wait in world.waits(), "a wrong answer ended a wait"

    @needs(lambda world: _closed(world))
    @rule(place=PLACES, decision=DECISIONS)
    def answer_late(self, place: int, decision: str) -> None:
        wait = _one(_closed(self.world), place)
        assert not self.world.answer(wait, decision)

    # everything else

    @needs(lambda world: world.consumers)
    @rule(session_id=SOME, name=st.sampled_from(("steering_message", "internal_message")), then=THEN)
    def say(self, session_id: str, name: str, then: int | None) -> None:
        taken = self.world.say(session_id, name)
        assert not taken or session_id in self.world.ledger.busy()
        self._go_on(then)

    @needs(lambda world: _stalled(world))
    @rule(place=PLACES, after=st.integers(0, 15), how=st.sampled_from(("cancel", "now")))
    def steer_and_stop(self, place: int, after: int, how: str) -> None:
        """What was accepted a moment before the end is not lost, wherever the request is by then."""
        world = self.world
        session_id = _one(_stalled(world), place)
        world.say(session_id, "steering_message")
        world.stage.stalls.pop(session_id).release()
        world.steps(after)
        reader = world.reader(session_id)
        if how == "cancel" and reader is not None:
            reader.cancel()
        else:
            world.stop(session_id, "now")
        self._go_on(None)

    @needs(lambda world: world.stage.gates)
    @rule(place=PLACES, then=THEN)
    def release(self, place: int, then: int | None) -> None:
        gates = self.world.stage.gates
        gates.pop(place % len(gates))()
        self._go_on(then)

    @needs(World.tasks)
    @rule(place=PLACES)
    def cancel_a_task(self, place: int) -> None:
        self.world.run(self.world.background.cancel(_one(self.world.tasks(), place)))
        self._go_on(None)

    @needs(lambda world: not world.settled)
    @rule(then=THEN)
    def go_on(self, then: int | None) -> None:
        self._go_on(then)

    # what must hold

    @invariant()
    def everything_is_whole(self) -> None:
        check_always(self.world)
        if self.world.settled:
            check_settled(self.world)
            self._check_effects()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        if sys.exc_info()[1] is not None:  # a rule failed, or the example is given up: nothing more is to be said
            self.world.scrap()
            return
        try:
            self._come_to_an_end()
        except BaseException:
            self.world.scrap()
            raise
        self.world.close()
        assert not self.world.complaints, self.world.complaints

    def _come_to_an_end(self) -> None:
        """Everybody reads on, every question is answered: everything ends, each session goes on, nothing is left."""
        world = self.world
        for _ in range(60):
            self._let_go()
            if not (world.ledger.active or world.readers() or world.waits() or world.tasks()):
                break
        else:
            raise AssertionError(f"no end: {world.ledger.busy()}, {world.waits()}, {world.tasks()}")
        for session_id in SESSIONS:
            assert session_id in world.request(session_id).content
        self._go_on(None)
        self.everything_is_whole()
        world.aclose()
        self.everything_is_whole()
        check_nothing_is_left(world)

    def _let_go(self) -> None:
        for reader in self.world.readers():
            reader.allow(WITHOUT_END)
        for wait in self.world.waits():
            assert self.world.answer(wait, "approve")
        self.world.stage.release_all()
        self._go_on(None)
        self.everything_is_whole()

    def _go_on(self, then: int | None) -> None:
        if then is None:
            self.world.settle()
        else:
            self.world.steps(then)

    def _check_request(self, session_id: str, request: ModelRequest) -> None:
        """Called by a model, where an error would only fail the request: it is kept for the invariant."""
        try:
            check_messages(self.world.ledger, session_id, request.messages)
            check_asked(self.world, session_id)
        except AssertionError as error:
            self.world.faults.append(error)

    def _check_effects(self) -> None:
        """Whoever has stopped between two events has stopped the request before its next effect."""
        for session_id in SESSIONS:
            reader = self.world.reader(session_id)
            if reader is None or reader.asking or not self.world.reads(reader):
                self.effects.pop(session_id, None)
                continue
            now = (reader, reader.asked, self.world.ledger.effects[session_id])
            before = self.effects.setdefault(session_id, now)
            assert before[:2] != now[:2] or before == now, f"{session_id} goes on though nobody asks"
            self.effects[session_id] = now


def _one(found: Any, place: int) -> Any:
    return found[place % len(found)]


def _idle_with_history(world: World) -> list[str]:
    return [session_id for session_id in world.idle() if world.settled and world.memory.messages(session_id)]


def _stalled(world: World) -> list[str]:
    return [session_id for session_id in sorted(world.ledger.busy()) if session_id in world.stage.stalls]


def _closed(world: World) -> list[Wait]:
    still = {(wait.session_id, wait.id) for wait in world.waits()}
    return [wait for wait in world.ledger.seen.values() if (wait.session_id, wait.id) not in still]


TestSessions = pytest.mark.timeout(60 + EXAMPLES)(SessionMachine.TestCase)
TestSessions.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    # An example is a whole life of an agent with three sessions, and drawing a plan takes many choices.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
