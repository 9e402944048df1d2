"""A model that goes in circles: which calls came back without anything new between them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from zett_agent.messages import ToolCall


class RepeatGuard:
    """Counts the responses of one request in which a call came back.

    ``most`` times it may; then it is refused, and when it comes back even so, ``exhausted`` names its tool. A response
    with a call that was never made before is progress, and sets every count to nothing.
    """

    __slots__ = ("_counts", "_most", "_seen", "exhausted")

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[int] = set()
        self._counts: Counter[int] = Counter()
        self.exhausted: str | None = None

    def refused(self, calls: Sequence[ToolCall]) -> frozenset[str]:
        """Count the calls of one response, and return the ids of those that came back too often."""
        keys = {call.id: _key(call) for call in calls}
        made = set(keys.values())
        if not made <= self._seen:
            self._seen |= made
            self._counts.clear()
        self._counts.update(made)
        for call in calls:
            if self._counts[keys[call.id]] > self._most + 1:
                self.exhausted = call.name
        return frozenset(call_id for call_id, key in keys.items() if self._counts[key] > self._most)

    def begin(self) -> None:
        """There is a new input: what was done for the one before may be asked for again."""
        self._counts.clear()
        self.exhausted = None


def _key(call: ToolCall) -> int:
    """The same for the same name, arguments and fault of parsing, in whatever order the arguments come."""
    try:
        text = json.dumps(call.arguments, sort_keys=True, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):  # a model in this process may make calls that no wire could carry
        text = call.id
    return hash((call.name, call.error, text))
