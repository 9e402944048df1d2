"""The event loops that tests run on: asyncio's, asyncio's with eager tasks, and uvloop's; see ``--loop``."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LOOPS = ("asyncio", "eager", "uvloop")

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def missing(name: str) -> str | None:
    """Why the loop ``name`` cannot be had here; None when it can."""
    if name == "eager" and sys.version_info < (3, 12):
        return f"asyncio.eager_task_factory needs Python 3.12, this is {sys.version.split()[0]}"
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        return "uvloop is not installed: there is none for this platform or interpreter"
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
