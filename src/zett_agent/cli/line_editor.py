"""What a person types, key by key, as lines."""

from __future__ import annotations

import re

# Arrow keys, function keys, Alt with a key, marks of pasted text: none of them edits anything here.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_ENTER = "\r\n"
_ERASE = "\x7f\x08"
_END_OF_INPUT = "\x04"
_KILL = "\x15"
_KILL_WORD = "\x17"


class LineEditor:
    """The line that is being typed: printable keys, Backspace, Ctrl-U, Ctrl-W, Enter, and Ctrl-D on an empty line."""

    def __init__(self) -> None:
        self.text = ""
        #: True after Ctrl-D on an empty line.
        self.ended = False
        self._escape = ""
        self._after_return = False

    def feed(self, keys: str) -> list[str]:
        """Take what was typed and return the lines that it completed."""
        keys = _ESCAPE.sub("", self._escape + keys)
        keys, mark, rest = keys.partition("\x1b")
        self._escape = mark + rest
        return [line for key in keys if (line := self._press(key)) is not None]

    def clear(self) -> None:
        """Forget the line that is being typed."""
        self.text = ""

    def _press(self, key: str) -> str | None:
        second_of_pair = self._after_return and key == "\n"
        self._after_return = key == "\r"
        if key in _ENTER:
            line, self.text = self.text, ""
            return None if second_of_pair else line
        if key in _ERASE:
            self.text = self.text[:-1]
        elif key == _KILL:
            self.text = ""
        elif key == _KILL_WORD:
            self.text = self.text.rstrip().rpartition(" ")[0]
            self.text += " " if self.text else ""
        elif key == _END_OF_INPUT:
            self.ended = self.ended or not self.text
        elif key == "\t" or key.isprintable():
            self.text += " " if key == "\t" else key
        return None
