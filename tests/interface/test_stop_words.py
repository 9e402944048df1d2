"""Every word with which a provider says why it stopped."""

from __future__ import annotations

import pytest

from zett_agent.stop import StopReason, classify_stop

WORDS = {
    StopReason.END_TURN: "stop end_turn stop_sequence completed",
    StopReason.TOOL_USE: "tool_calls tool_use function_call",
    StopReason.MAX_OUTPUT: "length max_tokens max_output_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded model_length context_length_exceeded",
    StopReason.REFUSAL: (
        "refusal content_filter sensitive safety recitation blocklist prohibited_content spii image_safety"
        " image_prohibited_content image_recitation jailbreak model_armor"
    ),
    StopReason.PAUSED: "pause_turn",
    StopReason.INTERRUPTED: "error network_error insufficient_system_resource aborted",
    StopReason.OTHER: "unheard_of",
}
CASES = [(word, reason) for reason, words in WORDS.items() for word in words.split()]


@pytest.mark.parametrize(("word", "reason"), CASES)
def test_each_word_has_one_reason_whatever_its_case_and_the_space_around_it(word: str, reason: StopReason) -> None:
    for written in (word, word.upper(), f" {word}\n"):
        stop = classify_stop(written)
        assert stop.reason is reason and stop.raw == written
        named = reason in (StopReason.REFUSAL, StopReason.INTERRUPTED)
        assert stop.category == (written if named else None)


@pytest.mark.parametrize(("word", "reason"), CASES)
def test_calls_turn_a_normal_end_into_tool_use_and_nothing_else(word: str, reason: StopReason) -> None:
    expected = StopReason.TOOL_USE if reason is StopReason.END_TURN else reason
    assert classify_stop(word, has_tool_calls=True).reason is expected
