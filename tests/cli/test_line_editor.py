from __future__ import annotations

import pytest

from zett_agent.cli.line_editor import LineEditor


@pytest.mark.parametrize(
    ("keys", "lines", "left"),
    [
        ("hello\r", ["hello"], ""),
        ("a\nb\r\nc", ["a", "b"], "c"),
        ("\r\r", ["", ""], ""),
        ("helo\x7flo\r", ["hello"], ""),
        ("\x08x", [], "x"),
        ("one two\x17", [], "one "),
        ("one\x17", [], ""),
        ("one two\x15three", [], "three"),
        ("a\tb\x01\x1b[Dc\x1bOPd\x1bx", [], "a bcd"),
        ("\x1b[200~pasted\x1b[201~", [], "pasted"),
        ("größe 漢\r", ["größe 漢"], ""),
    ],
)
def test_keys_become_lines(keys: str, lines: list[str], left: str) -> None:
    for size in (1, 2, len(keys)):
        editor = LineEditor()
        found = [line for at in range(0, len(keys), size) for line in editor.feed(keys[at : at + size])]
        assert (found, editor.text) == (lines, left), size


def test_control_d_ends_the_input_only_on_an_empty_line() -> None:
    editor = LineEditor()
    editor.feed("x\x04")
    assert not editor.ended
    editor.clear()
    editor.feed("\x04")
    assert editor.ended
