"""What an error that is not ours tells a model, a person or a log."""

from __future__ import annotations

from zett_agent.exceptions import ToolError
from zett_agent.json_types import utf8_text


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
        return str(error)
    except Exception:
        return ""
