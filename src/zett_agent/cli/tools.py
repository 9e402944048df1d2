"""Harmless tools for trying a model out."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from zett_agent.tools.base import AgentTool, tool


@tool
async def add(left: float, right: float) -> float:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.

    Snippet:
        add(left=20, right=22)

    Guidelines:
        - Use it for every sum, however easy.
    """
    total = left + right
    return int(total) if total.is_integer() else total


@tool
async def current_time(timezone: str = "UTC") -> str:
    """The current date and time.

    Args:
        timezone: An IANA name such as Europe/Berlin.

    Snippet:
        current_time(timezone="Asia/Tokyo")

    Guidelines:
        - Use it whenever an answer depends on today's date or the time of day.
    """
    try:
        zone = UTC if timezone.upper() == "UTC" else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"there is no time zone {timezone!r}, or this machine does not know it") from None
    return datetime.now(zone).isoformat(timespec="seconds")


BUILT_IN: tuple[AgentTool, ...] = (add, current_time)
