"""What a model is drawn to do: a plan is a list of turns, and a turn is what one model call answers."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

#: Calls whose handler answers; the result must carry the call's own tag.
ANSWERING = ("work", "alone", "block", "stuck", "hold", "stubborn")
#: Calls that can only fail.
FAILING = ("fail", "cancels", "exits", "unknown", "bad", "garbled", "ask_nothing", "denied")
#: Calls that wait for an answer from outside.
ASKING = ("ask", "danger")
#: Calls that make a hook fail, and so the request.
BREAKING = ("hexed", "cursed")
#: Calls that hand work to a child, in front or behind.
CHILDREN = ("plain", "asker", "failing", "nester")
DELEGATING = tuple(f"{tool}:{child}" for tool in ("task", "task_start") for child in CHILDREN)
#: Calls that look after background tasks; whether there is such a task is drawn by chance.
TENDING = ("task_list", "task_output", "task_cancel")

#: How a turn without calls may go.
ENDINGS = (
    "text",
    "pause",
    "cut_text",
    "refusal",
    "stall",
    "fails_first",
    "fails_late",
    "no_response",
    "cancels_itself",
    "spoils_run",
    "spoils_success",
)


@dataclass(frozen=True)
class Turn:
    """One answer of the model: its ending, and the kinds of its calls."""

    ending: str
    calls: tuple[str, ...] = ()


#: Questions and children come often; what breaks the whole request is rare, or little else would be seen.
KINDS = st.sampled_from((*ASKING * 8, *ANSWERING * 2, *FAILING, *DELEGATING * 2, *TENDING, *BREAKING))
BATCHES = st.builds(
    Turn,
    st.sampled_from(("calls", "calls", "calls_after_a_stall", "calls_after_text", "cut_calls")),
    st.lists(KINDS, min_size=1, max_size=4).map(tuple),
)
TURNS = st.one_of(BATCHES, BATCHES, st.builds(Turn, st.sampled_from(ENDINGS)))
PLANS = st.lists(TURNS, max_size=4)
