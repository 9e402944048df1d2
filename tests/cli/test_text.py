from __future__ import annotations

import pytest

from zett_agent.cli.text import Flow, brief, one_line, visible


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ntext", "plain\ntext"),
        ("a\r\nb", "a\nb"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("bell\x07 del\x7f c1\x9b", "bell␇ del␡ c1�"),
        ("tab\there", "tab    here"),
        ("lone \ud800", "lone �"),
    ],
)
def test_what_a_model_says_cannot_drive_the_terminal(given: str, shown: str) -> None:
    assert visible(given) == shown


def test_one_line_joins_and_bounds() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("x" * 600) == "x" * 499 + "…"


def test_brief_says_how_much_it_left_out() -> None:
    assert brief("short") == "short"
    assert brief("1\n2\n3", lines=2) == "1\n2 … (2 more characters)"
    assert brief("x" * 50, limit=10) == "x" * 10 + " … (40 more characters)"


def flow(width: int = 10, indent: str = "") -> tuple[Flow, list[str]]:
    written: list[str] = []
    return Flow(
        written.append, lambda text: sum(2 if ord(c) > 0x2E80 else 1 for c in text), width=width, indent=indent
    ), written


def test_a_flow_wraps_between_words_whatever_the_pieces_are() -> None:
    for size in (1, 2, 3, 7, 100):
        made, written = flow()
        text = "one two three four  five"
        for start in range(0, len(text), size):
            made.feed(text[start : start + size])
        made.end_line()
        assert "".join(written) == "one two \nthree four\nfive\n", size


def test_a_flow_indents_every_line_and_keeps_the_breaks_of_the_text() -> None:
    made, written = flow(indent="> ")
    made.feed("ab\n\n  cd efgh ij")
    assert made.mid_line
    made.end_line()
    assert "".join(written) == "> ab\n\n>   cd \n> efgh ij\n"
    assert not made.mid_line


def test_a_flow_shows_text_without_spaces_at_once() -> None:
    made, written = flow()
    made.feed("漢字漢字漢字")
    assert "".join(written) == "漢字漢字漢"
    made.flush()
    assert "".join(written) == "漢字漢字漢\n字"
    made.feed("x" * 45)
    assert "".join(written).endswith("x" * 45)


def test_ending_a_line_that_is_empty_writes_nothing() -> None:
    made, written = flow()
    made.end_line()
    made.feed(" ")
    made.end_line()
    assert written == []
