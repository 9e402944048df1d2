"""Errors of code that is not ours: what they say, and what a request makes of them."""

from __future__ import annotations

from zett_agent.exceptions import AgentProtocolError, ToolError
from zett_agent.json_types import utf8_text


def failure_text(error: BaseException) -> str:
    """What a failure tells a model or a log: never empty, always encodable, and it never fails itself."""
    text = utf8_text(_said(error)).strip()
    if isinstance(error, ToolError) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def request_failure(raised: BaseException) -> BaseException:
    """What a request fails with when a hook or the model raised this.

    A CancelledError that nobody ordered, SystemExit and their like come in an AgentProtocolError: raised as they are
    they would pass every handler, and end an event loop that serves other sessions. Ctrl-C stays what it is.
    """
    if isinstance(raised, Exception | KeyboardInterrupt):
        return raised
    failure = AgentProtocolError(
        f"a hook or the model raised {failure_text(raised)}, though nobody stopped the request"
    )
    failure.__cause__ = raised
    return failure


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
