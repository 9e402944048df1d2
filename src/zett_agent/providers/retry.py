"""Retries before the first visible event."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from zett_agent.exceptions import ProviderError
from zett_agent.model import ModelEvent, RetryOptions

RETRY_AFTER_LIMIT = 60.0
"""The longest wait, in seconds, that a server's Retry-After can ask for."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, and whether another one may succeed."""

    error: ProviderError
    retryable: bool = False
    retry_after: float | None = None


class AttemptFailed(Exception):
    """Carries a Failure from an attempt to the retry loop; it never leaves this package."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What the server asks for: ``retry-after-ms``, or ``retry-after`` as seconds or as an HTTP date; else None."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def retry_delay(attempt: int, options: RetryOptions, retry_after: float | None = None) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 0).

    Between half and all of the doubled, capped base delay, so that clients spread; what the server asked for is a
    floor, itself capped.
    """
    backoff = min(options.max_delay, options.base_delay * 2.0 ** min(attempt, 64)) * random.uniform(0.5, 1.0)
    return max(backoff, min(retry_after or 0.0, RETRY_AFTER_LIMIT))


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ModelEvent]], options: RetryOptions
) -> AsyncGenerator[ModelEvent]:
    """Yield the events of ``attempt()``; while it fails before its first event and may be repeated, start it again."""
    retries = 0
    while True:
        visible = False
        async with aclosing(attempt()) as events:
            try:
                async for event in events:
                    visible = True
                    yield event
                return
            except AttemptFailed as failed:
                failure = failed.failure
        # Raised outside of the handler: what the SDK raised is the cause or nothing, never an unasked-for context.
        if visible or not failure.retryable or retries == options.max_retries:
            raise failure.error
        delay = retry_delay(retries, options, failure.retry_after)
        retries += 1
        _logger.info("%s; retry %d of %d in %.2f s", failure.error, retries, options.max_retries, delay)
        await asyncio.sleep(delay)
