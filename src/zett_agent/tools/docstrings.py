"""What a tool's docstring says: Google sections, and two of our own, Snippet and Guidelines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from griffe import DocstringSection

_PARAMETERS = re.compile(r"(args|arguments|params|parameters):\s*$", re.IGNORECASE)
_READ = re.compile(rf"{_PARAMETERS.pattern}|(snippet|guidelines):\s*$", re.IGNORECASE)
_HEADING = re.compile(
    rf"{_READ.pattern}|(returns?|yields?|raises|exceptions|receives|warns|warnings?|attributes|examples?|notes?|tips?|todo"
    r"|(keyword|other) (args|arguments|parameters)|see also|references|usage|important|deprecated):\s*$",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"\s*[*`]*\w+[*`]*\s*(\(.*\))?\s*:")
_BULLET = re.compile(r"[-*]\s+|-")


@dataclass(frozen=True, slots=True)
class ToolDocstring:
    """The parts of a docstring that a model sees; what is not written is empty."""

    description: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    snippet: str = ""
    guidelines: tuple[str, ...] = ()


def parse_docstring(text: str | None) -> ToolDocstring:
    """Read a docstring.

    The description is the first paragraph. ``Args`` describes parameters, ``Snippet`` keeps its lines, and each item of
    ``Guidelines`` (with its continuation lines) is one guideline. Every other section is for people and is left out.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    parameters: list[tuple[str, str]] = []
    snippet: list[str] = []
    guidelines: list[str] = []
    for kind, content in _sections(lines):
        if kind == "snippet":
            snippet += [line.strip() for line in str(content).splitlines() if line.strip()]
        elif kind == "guidelines":
            guidelines += _entries(str(content))
        elif isinstance(content, list):
            parameters += content
    return ToolDocstring(_description(lines), tuple(parameters), "\n".join(snippet), tuple(guidelines))


def get_tool_snippet(function: Callable[..., Any]) -> str:
    """The Snippet section of a function that is not decorated yet; empty without one."""
    return parse_docstring(function.__doc__).snippet


def get_tool_guidelines(function: Callable[..., Any]) -> tuple[str, ...]:
    """The entries of the Guidelines section of a function that is not decorated yet."""
    return parse_docstring(function.__doc__).guidelines


def _entries(text: str) -> Iterator[str]:
    entry: list[str] = []
    listed = False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        continues = entry and not bullet and (listed or line.startswith(" "))
        if line.strip() and not continues:
            yield from _joined(entry)
            entry, listed = [], bullet is not None
        entry.append(line[bullet.end() :] if bullet else line)
        listed = listed and bool(line.strip())
    yield from _joined(entry)


def _joined(lines: list[str]) -> Iterator[str]:
    text = " ".join(line.strip() for line in lines if line.strip())
    if text:
        yield text


def _description(lines: list[str]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if not line.strip() or _HEADING.match(line):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _sections(lines: list[str]) -> Iterator[tuple[str, str | list[tuple[str, str]]]]:
    """The sections that matter, as (kind, content); the parser is loaded only for a docstring that has one."""
    if not any(_READ.match(line) for line in lines):
        return
    # 70 ms to import, and many programs decorate no tool with sections: so not at the top.
    from griffe import Docstring, DocstringSectionKind, parse_google  # noqa: PLC0415

    for section in parse_google(Docstring("\n".join(_regular(lines))), warnings=False):
        if section.kind is DocstringSectionKind.admonition:
            yield section.value.kind, section.value.contents
        elif section.kind is DocstringSectionKind.parameters:
            yield "parameters", list(_parameters(section))


def _parameters(section: DocstringSection) -> Iterator[tuple[str, str]]:
    for item in section.value:
        name = item.name.partition("(")[0].strip(" `*")
        yield name, " ".join(item.description.split())


def _regular(lines: list[str]) -> Iterator[str]:
    """Lay sections out as the parser wants them: a blank line, the heading, and directly below it the indented content.

    People also leave the blank line out, or put it below the heading, or do not indent a list.
    """
    for heading, body in _blocks(lines):
        if heading:
            yield from ("", heading)
        yield from _regular_body(heading, body)


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    heading = ""
    body: list[str] = []
    for line in lines:
        if _HEADING.match(line):
            yield heading, body
            heading, body = line, []
        elif line or body:
            body.append(line)
    yield heading, body


def _regular_body(heading: str, body: list[str]) -> Iterator[str]:
    indent = body[0][: len(body[0]) - len(body[0].lstrip())] if body else ""
    shift = "    " if not indent and _READ.match(heading) else ""
    for line in body:
        shift = shift if line else ""
        # In Args, what names no parameter goes on with the one above.
        goes_on = _PARAMETERS.match(heading) and line.startswith(indent) and not line[len(indent) :].startswith(" ")
        deeper = "    " if goes_on and line and not _PARAMETER.match(line) and (shift or indent) else ""
        yield f"{shift}{deeper}{line}" if line else line
