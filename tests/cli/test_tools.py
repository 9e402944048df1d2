from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from zett_agent.cli.tools import BUILT_IN


async def use(name: str, **arguments: object) -> object:
    tool = next(tool for tool in BUILT_IN if tool.name == name)
    return await tool.invoke(arguments)


@pytest.mark.parametrize(("left", "right", "total"), [(20, 22, "42"), (0.5, 0.25, "0.75"), (0.5, 1.5, "2")])
async def test_add_adds(left: float, right: float, total: str) -> None:
    assert str(await use("add", left=left, right=right)) == total


@pytest.mark.parametrize(("zone", "offset"), [("UTC", 0), ("utc", 0), ("Asia/Tokyo", 9)])
async def test_the_time_is_that_of_the_zone(zone: str, offset: int) -> None:
    told = datetime.fromisoformat(str(await use("current_time", timezone=zone)))
    assert told.utcoffset() == timedelta(hours=offset)
    assert abs(datetime.now(UTC) - told) < timedelta(seconds=5)


async def test_an_unknown_zone_is_an_error_for_the_model() -> None:
    for zone in ("Atlantis", "../etc/passwd"):
        with pytest.raises(ValueError, match="there is no time zone"):
            await use("current_time", timezone=zone)
