"""Two thousand sessions wait in one process, and are answered in random order from another thread."""

from __future__ import annotations

import random

import pytest

from tests.attack.crowd import Crowd, Family

SESSIONS, FAMILIES = 2_000, 500


@pytest.mark.timeout(90)  # four seconds, when nothing else runs
@pytest.mark.parametrize(("kind", "size"), [(Crowd, SESSIONS), (Family, FAMILIES)])
async def test_rule_6_no_answer_is_lost_or_crossed_among_sessions_that_all_wait(kind: type[Crowd], size: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    crowd = kind(size, seed)
    await crowd.play()
    crowd.check_nothing_is_left()
