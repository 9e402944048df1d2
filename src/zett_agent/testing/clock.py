"""A clock that stands still until it is told to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


class ManualClock:
    """Time for tests. Pass it where a ``clock=`` is taken: calling it is the same as ``now()``."""

    def __init__(self, start: datetime = _START) -> None:
        if start.tzinfo is None:
            raise ValueError("start must be an aware time")
        self._start = start.astimezone(UTC)
        self._seconds = 0.0

    def __call__(self) -> datetime:
        """The same as ``now()``."""
        return self.now()

    def now(self) -> datetime:
        """The time of day, aware UTC."""
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._seconds

    def advance(self, seconds: float) -> datetime:
        """Move on and return the new time; ValueError for a step backwards."""
        if seconds < 0:
            raise ValueError("a clock does not go backwards")
        self._seconds += seconds
        return self.now()
