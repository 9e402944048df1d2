"""Which extension is called for which hook."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent._runtime.hooks import HookChain, each
from zett_agent.extensions.base import AgentExtension
from zett_agent.extensions.events import ExtensionEvent, MessageAppendedEvent, PhaseTransitionEvent


class Plain(AgentExtension):
    """Overrides nothing."""


class Turns(AgentExtension):
    async def before_turn(self, context: Any) -> None:
        """Do nothing."""


class Listens(AgentExtension):
    subscribes = (MessageAppendedEvent,)

    async def on_event(self, context: Any, event: ExtensionEvent) -> None:
        """Do nothing."""


class Late(Turns):
    priority = 200


def test_an_unused_hook_is_empty() -> None:
    chain = HookChain([Plain()])
    assert chain.before_turn == chain.on_tool == chain.on_error == chain.on_model_request == ()
    assert chain.listeners(PhaseTransitionEvent) == ()


def test_overridden_hooks_are_bound_in_order_of_priority() -> None:
    late, first, second = Late(), Turns(), Turns()
    chain = HookChain([late, first, Plain(), second])
    assert chain.before_turn == (first.before_turn, second.before_turn, late.before_turn)
    assert [type(extension) for extension in chain.extensions] == [Turns, Plain, Turns, Late]


def test_a_hook_may_be_set_on_the_instance() -> None:
    extension = AgentExtension()

    async def after_run(*arguments: Any) -> None:
        """Do nothing."""

    extension.after_run = after_run  # type: ignore[method-assign, assignment]
    assert HookChain([extension]).after_run == (after_run,)


def test_listeners_get_what_they_subscribe_to() -> None:
    listens = Listens()
    chain = HookChain([listens, Plain()])
    assert chain.listeners(MessageAppendedEvent) == (("Listens", listens.on_event),)
    assert chain.listeners(PhaseTransitionEvent) == ()
    assert chain.listeners(MessageAppendedEvent) is chain.listeners(MessageAppendedEvent)


def test_one_extension_is_found_by_its_name() -> None:
    plain = Plain()
    chain = HookChain([plain, Listens()])
    assert chain.named("Plain") is plain
    with pytest.raises(ValueError, match="'Nobody' names 0 extensions"):
        chain.named("Nobody")


async def test_hooks_run_one_after_another_and_the_first_error_stops_the_rest() -> None:
    log: list[str] = []

    async def first(word: str) -> None:
        log.append(f"first {word}")

    async def second(word: str) -> None:
        raise RuntimeError(word)

    with pytest.raises(RuntimeError, match="x"):
        await each((first, second, first), "x")
    assert log == ["first x"]
