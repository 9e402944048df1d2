"""What an error that is not ours tells a model, a person or a log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from zett_agent.exceptions import ToolError
from zett_agent.json_types import utf8_text

#: Errors of a group that are told.
_SHOWN = 5


def failure_text(error: BaseException) -> str:
    """Its type and what it says: never empty, always encodable, and it never fails itself.

    A ToolError is written for whoever reads it, so its type is left out.
    """
    text = utf8_text(_said(error)).strip()
    if isinstance(error, ToolError) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return ""
    if isinstance(error, BaseExceptionGroup):
        return f"{text}: {'; '.join(_inner(error))}"  # the group's own text says only how many there are
    return text


def _inner(group: BaseExceptionGroup[BaseException]) -> Iterator[str]:
    """What is in a group, at any depth."""
    shown = list(islice(_leaves(group), _SHOWN + 1))
    for error in shown[:_SHOWN]:
        yield failure_text(error)
    if len(shown) > _SHOWN:
        yield "and more"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting[:0] = error.exceptions
        else:
            yield error
