"""Text on its way to a terminal: made harmless, shortened, wrapped while it streams."""

from __future__ import annotations

import re
from collections.abc import Callable

from zett_agent.json_types import utf8_text

# Characters that take two cells and may be wrapped anywhere: East Asian scripts and emoji.
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\U0001f300-\U0001faff"
)
_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: A piece that grows beyond this is shown before its end is known.
_LONGEST = 40


def visible(text: str) -> str:
    """``text`` with control characters made visible, so that nothing a model or a tool says can drive the terminal."""
    return _CONTROL.sub(_picture, utf8_text(text.replace("\r\n", "\n").replace("\t", "    ")))


def one_line(text: str, *, limit: int = 500) -> str:
    """``text`` as one harmless line of at most ``limit`` characters."""
    joined = " ".join(visible(text).split())
    return joined if len(joined) <= limit else joined[: limit - 1].rstrip() + "…"


def brief(text: str, *, lines: int = 3, limit: int = 200) -> str:
    """The beginning of ``text``, with a note of how much was left out."""
    text = visible(text).strip()
    kept = "\n".join(text[:limit].split("\n")[:lines]).rstrip()
    left = len(text) - len(kept)
    return kept if left <= 0 else f"{kept} … ({left:,} more characters)"


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


class Flow:
    """Streams text and wraps it between words.

    A word is written when its end is known; ``measure`` gives the cells that a text takes.
    """

    def __init__(
        self, write: Callable[[str], None], measure: Callable[[str], int], *, width: int, indent: str = ""
    ) -> None:
        self._write = write
        self._measure = measure
        self._width = width
        self._indent = indent
        self._column = 0
        self._held = ""

    @property
    def mid_line(self) -> bool:
        """True when something stands on the current line."""
        return self._column > 0

    def feed(self, text: str) -> None:
        """Write what is complete of the text so far."""
        pieces = _PIECE.findall(self._held + text)
        self._held = pieces.pop() if pieces and len(pieces[-1]) < _LONGEST and pieces[-1] != "\n" else ""
        for piece in pieces:
            self._put(piece)

    def flush(self) -> None:
        """Write what was held back."""
        held, self._held = self._held, ""
        if held.strip():
            self._put(held)

    def end_line(self) -> None:
        """Write what was held back and end the line, if there is one."""
        self.flush()
        if self.mid_line:
            self._put("\n")

    def _put(self, piece: str) -> None:
        if piece == "\n":
            self._write("\n")
            self._column = 0
            return
        cells = self._measure(piece)
        if self._column and self._column + cells > self._width:
            self._write("\n")
            self._column = 0
            if piece.isspace():
                return
        if not self._column:
            self._write(self._indent)
            self._column = self._measure(self._indent)
        self._write(piece)
        self._column += cells
