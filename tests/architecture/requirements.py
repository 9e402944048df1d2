"""Which tests prove which requirement, read from the names of the tests, as a page that people can read.

``python -m tests.architecture.requirements --write`` writes it to docs/requirements.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.architecture.requirement_gaps import GAPS, MISSING
from tests.architecture.requirement_list import ALWAYS, AREAS, FAULTS, RULES
from tests.architecture.source import definitions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requirements.md"
UPDATE = "python -m tests.architecture.requirements --write"
SENTENCES = {**RULES, **FAULTS, **ALWAYS}

_AREAS = "|".join(sorted({name.partition("-")[0].lower() for name in RULES}))
# How an id is written in a name: two digits for a requirement, none too many for a fault of the core and for a rule.
_WORD = rf"(?:(?:{_AREAS})_\d\d|(?:core|rule)_[1-9]\d*|b\d\d)"
_AT_THE_FRONT = re.compile(rf"test_((?:{_WORD}_)*)")
_LOOKS_LIKE_ONE = re.compile(rf"(?:^|_)((?:{_AREAS}|core|rule)_?\d+|b\d\d|and_\d+)(?=_|$)")
_MENTION = re.compile(rf"\b((?:{_AREAS.upper()})-\d+|core-\d+)\b")
_NO_PROOF = re.compile(r"\bmark\.(skip|xfail)\b")

HEAD = f"""\
# Requirements and their proofs

`{UPDATE}` writes this page; do not edit it.

What users of such runtimes need, what went wrong in others and must not here (`core`, `b`), and what holds always
(`rule`). An id stands at the front of the names of the tests that prove it, so this page is what the tests say. What
cannot be proved yet says what is missing. Numbers only name: one that is missing stands for nothing. A test fails when
the page is stale, when an id has neither a proof nor a reason, and when a test names an id that does not exist. Paths
are below `tests/`.
"""
MISSING_HEAD = """
Many wait for the same:

| not yet: | what has to exist first |
|---|---|
"""


@dataclass
class Proofs:
    """The tests of each id, and what is wrong with the names of tests."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def proofs(root: Path = ROOT / "tests", sentences: Mapping[str, str] = SENTENCES) -> Proofs:
    """Read every test below ``root``."""
    found = Proofs()
    for path in sorted(root.rglob("test_*.py")):
        where = path.relative_to(root).as_posix()
        for name, ids in _tests(ast.parse(path.read_text(encoding="utf-8")), where, found.faults):
            for one in ids:
                found.tests.setdefault(one, []).append(f"{where}::{name}")
                if one not in sentences:
                    found.faults.append(f"{where}::{name}: there is no {one}")
    return found


def unknown_mentions(text: str, sentences: Mapping[str, str] = SENTENCES) -> list[str]:
    """Ids that a text mentions, and that do not exist."""
    return sorted({one for one in _MENTION.findall(text) if one not in sentences})


def unproved(
    tests: Mapping[str, list[str]], sentences: Mapping[str, str] = SENTENCES, gaps: Mapping[str, str] = GAPS
) -> list[str]:
    """Ids with neither a test nor a reason, and reasons for ids that do not exist."""
    missing = [f"{one}: neither a test nor a reason" for one in sentences if one not in tests and one not in gaps]
    return missing + [f"{one}: a reason for what does not exist" for one in gaps if one not in sentences]


def render(tests: Mapping[str, list[str]], gaps: Mapping[str, str] = GAPS) -> str:
    """The page's text."""
    groups = list(_groups())
    lines = [HEAD, "| area | ids | proved | in part | not yet | about |", "|---|---|---|---|---|---|"]
    for area, about, ids in groups:
        states = [_state(one, tests, gaps) for one in ids]
        counts = [states.count(state) for state in ("proved", "in part", "not yet")]
        lines.append(f"| {area} | {len(ids)} | {' | '.join(map(str, counts))} | {about} |")
    lines.append(MISSING_HEAD + "\n".join(f"| {word} | {what} |" for word, what in MISSING.items()))
    for area, about, ids in groups:
        lines += ["", f"## {area}: {about}", "", *(line for one in ids for line in _entry(one, tests, gaps))]
    return "\n".join(lines) + "\n"


def _tests(tree: ast.Module, where: str, faults: list[str]) -> Iterator[tuple[str, list[str]]]:
    for name, node in definitions(tree):
        if isinstance(node, ast.ClassDef) or not node.name.startswith("test_"):
            continue
        front = _AT_THE_FRONT.match(node.name)
        assert front is not None
        if stray := _LOOKS_LIKE_ONE.search(node.name[front.end() :]):
            faults.append(f"{where}::{name}: {stray[1]} is no id at the front; write args_06, core_13, rule_8, b07")
        if not any(_NO_PROOF.search(ast.unparse(mark)) for mark in node.decorator_list):
            yield name, [_id(word) for word in re.findall(_WORD, front[1])]


def _id(word: str) -> str:
    area, _, number = word.partition("_")
    if not number:
        return area
    return f"{area}-{number}" if area in ("core", "rule") else f"{area.upper()}-{number}"


def _groups() -> Iterator[tuple[str, str, list[str]]]:
    """Each area, what it is about, and its ids."""
    for area in dict.fromkeys(one.partition("-")[0] for one in RULES):
        yield area, AREAS[area], [one for one in RULES if one.startswith(f"{area}-")]
    mistakes = "mistakes that must not come back"
    yield "core", f"{mistakes}, in the core", [one for one in FAULTS if one.startswith("core-")]
    yield "b", f"{mistakes}, in questions, subagents and goals", [one for one in FAULTS if one.startswith("b")]
    yield "rule", "what holds always", list(ALWAYS)


def _state(one: str, tests: Mapping[str, list[str]], gaps: Mapping[str, str]) -> str:
    if one not in tests:
        return "not yet"
    return "in part" if one in gaps else "proved"


def _entry(one: str, tests: Mapping[str, list[str]], gaps: Mapping[str, str]) -> Iterator[str]:
    yield f"- **{one}** {SENTENCES[one]}"
    yield from (f"  - `{test}`" for test in tests.get(one, []))
    if one in gaps:
        word, colon, what = gaps[one].partition(": ")
        yield f"  - not yet: **{word}**, {what}" if colon else f"  - not yet: {word}"


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    page = render(proofs().tests)
    if arguments == ["--write"]:
        PAGE.write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
