"""The event loops that tests run on: asyncio's, asyncio's with eager tasks, and uvloop's; see ``--loop``."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

LOOPS = ("asyncio", "eager", "uvloop")

#: Tests of the time between the start of an asyncio task and its first step, or of how many turns of the loop something
#: takes: an eager task has no such time, and saves a turn.
NOT_EAGER = frozenset(
    {
        "test_a_request_that_has_not_begun_is_cancelled_too",
        "test_b07_a_cancel_before_the_first_step_takes_effect_and_frees_the_place",
        "test_b07_a_waker_that_is_cancelled_before_its_first_step_is_in_nobodys_way",
        "test_tasks_that_finish_together_wake_their_parent_once",
        "test_a_parent_that_turns_busy_before_it_is_woken_hears_it_in_the_users_request",
        "test_close_stops_a_request_that_wakes",
        "test_loop_07_nothing_of_an_ended_request_or_child_is_kept",
        "test_rule_1_a_call_that_somebody_cancels_before_its_first_step_fails_the_request_and_is_closed",
        "test_rule_7_a_generator_exit_that_comes_from_an_asyncio_task_fails_the_request_once",
        "test_rule_8_a_request_whose_asyncio_task_is_cancelled_before_its_first_step_says_so",
    }
)

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def missing(name: str) -> str | None:
    """Why the loop ``name`` cannot be had here; None when it can."""
    if name == "eager" and sys.version_info < (3, 12):
        return f"asyncio.eager_task_factory needs Python 3.12, this is {sys.version.split()[0]}"
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        return "uvloop is not installed: there is none for this platform or interpreter"
    return None


def unfit(name: str, item: pytest.Item) -> str | None:
    """Why the test ``item`` cannot be run on the loop ``name``; None when it can."""
    if name == "eager" and getattr(item, "originalname", item.name) in NOT_EAGER:
        return "eager asyncio tasks begin at once"
    if name == "uvloop" and "leap" in getattr(item, "fixturenames", ()):
        return "the clock of uvloop cannot be moved: its timers are libuv's"
    return None


def base(name: str) -> type[asyncio.AbstractEventLoop]:
    """The class of the loop ``name``, for those who want to look into its steps."""
    if name == "uvloop":
        uvloop: Any = importlib.import_module("uvloop")  # not for every platform
        kind: type[asyncio.AbstractEventLoop] = uvloop.Loop
        return kind
    return asyncio.SelectorEventLoop


def prepared(name: str, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """``loop`` with what makes it the loop ``name``."""
    if name == "eager":
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - the oldest Python has none
    return loop


@contextmanager
def every_new_loop(name: str) -> Iterator[None]:
    """Meanwhile ``asyncio.run()``, a portal, a thread and a test get the loop ``name``.

    By the policy, as nothing else reaches loops that the code under test makes; Python 3.14 warns of it and keeps it.
    """
    if name == "asyncio":
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        before = asyncio.get_event_loop_policy()
        asyncio.set_event_loop_policy(_policy(lambda: prepared(name, base(name)())))
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_event_loop_policy(before)


def _policy(make: MakeLoop) -> asyncio.AbstractEventLoopPolicy:
    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return make()

    return Policy()
