from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from email.utils import formatdate

import pytest

from zett_agent.exceptions import ProviderError, ProviderResponseError
from zett_agent.model import ModelEvent, RetryOptions
from zett_agent.providers.retry import (
    RETRY_AFTER_LIMIT,
    AttemptFailed,
    Failure,
    retry_after_seconds,
    retry_delay,
    with_retries,
)

AT_ONCE = RetryOptions(base_delay=0, max_delay=0, max_retries=2)
BROKEN = Failure(ProviderResponseError("broken"), retryable=True)


class Attempts:
    """Attempts that each yield some texts and then end or fail."""

    def __init__(self, *scripts: tuple[Sequence[str], Failure | None]) -> None:
        self.scripts = list(scripts)
        self.started = 0
        self.first = asyncio.Event()

    async def __call__(self) -> AsyncGenerator[ModelEvent]:
        texts, failure = self.scripts[self.started]
        self.started += 1
        self.first.set()
        for text in texts:
            yield ModelEvent.text(text)
        if failure is not None:
            raise AttemptFailed(failure)


async def texts(attempts: Attempts, options: RetryOptions = AT_ONCE) -> list[str]:
    return [event.delta async for event in with_retries(attempts, options)]


async def test_net_01_an_attempt_that_failed_before_its_first_event_is_repeated() -> None:
    attempts = Attempts(((), BROKEN), ((), BROKEN), (("a", "b"), None))
    assert await texts(attempts) == ["a", "b"] and attempts.started == 3


async def test_net_01_retries_end() -> None:
    attempts = Attempts(*[((), BROKEN)] * 3)
    with pytest.raises(ProviderResponseError, match="broken"):
        await texts(attempts)
    assert attempts.started == 3


async def test_stream_09_nothing_is_repeated_after_visible_output() -> None:
    attempts = Attempts((("a",), BROKEN), (("b",), None))
    seen: list[str] = []
    with pytest.raises(ProviderResponseError):
        async with aclosing(with_retries(attempts, AT_ONCE)) as events:
            async for event in events:
                seen.append(event.delta)
    assert seen == ["a"] and attempts.started == 1


async def test_a_failure_that_is_not_retryable_is_raised_as_it_is() -> None:
    error = ProviderError("no")
    attempts = Attempts(((), Failure(error)))
    with pytest.raises(ProviderError) as caught:
        await texts(attempts)
    assert caught.value is error and error.__context__ is None and error.__cause__ is None and attempts.started == 1


async def test_net_01_cancelling_works_during_the_wait() -> None:
    attempts = Attempts(*[((), BROKEN)] * 2)
    task = asyncio.ensure_future(texts(attempts, RetryOptions(base_delay=60, max_delay=60)))
    await attempts.first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task  # the delay is longer than a test may take
    assert attempts.started == 1


def test_net_01_delays_double_are_capped_and_spread() -> None:
    options = RetryOptions(base_delay=1, max_delay=4)
    for attempt, longest in enumerate((1, 2, 4, 4, 4)):
        delays = [retry_delay(attempt, options) for _ in range(200)]
        assert longest / 2 <= min(delays) < max(delays) <= longest
    assert retry_delay(10_000, options) <= 4


def test_net_01_what_the_server_asks_for_is_a_floor_and_is_capped() -> None:
    options = RetryOptions(base_delay=1, max_delay=4)
    assert retry_delay(0, options, 20) == 20
    assert 2 <= retry_delay(9, options, 0.001) <= 4
    assert retry_delay(0, options, 999_999) == RETRY_AFTER_LIMIT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "999999"}, 999_999),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 999999 07:28:00 GMT"}, None),
    ],
)
def test_net_01_retry_after_is_read_as_milliseconds_seconds_or_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers) == seconds


def test_net_01_retry_after_as_a_date_is_counted_from_now() -> None:
    seconds = retry_after_seconds({"retry-after": formatdate(time.time() + 30, usegmt=True)})
    assert seconds is not None and 28 <= seconds <= 30
