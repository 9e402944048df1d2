"""The page of requirements says what the tests say, and every id has a proof or a reason."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.architecture.requirement_gaps import GAPS, MISSING
from tests.architecture.requirements import PAGE, ROOT, UPDATE, proofs, render, unknown_mentions, unproved


def test_the_page_is_what_the_tests_say() -> None:
    if not PAGE.exists():
        pytest.fail(f"{PAGE} is missing; write it with `{UPDATE}` and commit it")
    page, now = PAGE.read_text(encoding="utf-8"), render(proofs().tests)
    diff = difflib.unified_diff(page.splitlines(), now.splitlines(), "page", "tests", lineterm="", n=0)
    changed = "\n".join(diff)
    assert not changed, f"docs/requirements.md is stale: `{UPDATE}`\n{changed}"


def test_every_id_has_a_proof_or_a_reason() -> None:
    assert unproved(proofs().tests) == []


def test_every_id_in_the_name_of_a_test_is_one_and_stands_at_its_front() -> None:
    assert proofs().faults == []


def test_every_id_that_is_mentioned_anywhere_exists() -> None:
    files = [path for folder in ("src", "tests", "docs") for path in sorted((ROOT / folder).rglob("*.[pm][yd]"))]
    found = {path.name: unknown_mentions(path.read_text(encoding="utf-8")) for path in files if path != Path(__file__)}
    assert len(files) > 200
    assert {name: ids for name, ids in found.items() if ids} == {}


SENTENCES = {"ARGS-06": "x", "core-13": "y", "rule-8": "z", "b07": "w"}


def faults_of(tmp_path: Path, source: str) -> list[str]:
    (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
    return proofs(tmp_path, SENTENCES).faults


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_args_06_null", ["ARGS-06"]),
        ("test_core_13_args_06_both", ["core-13", "ARGS-06"]),
        ("test_rule_8_b07_both", ["rule-8", "b07"]),
        ("test_bytes_and_a_status_of_130", []),
    ],
)
def test_ids_are_read_from_the_front_of_a_name(tmp_path: Path, name: str, ids: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(f"class T:\n    async def {name}(self): ...\n", encoding="utf-8")
    found = proofs(tmp_path, SENTENCES)
    assert found.faults == []
    assert {one: tests for one, tests in found.tests.items()} == {one: [f"test_it.py::T.{name}"] for one in ids}


@pytest.mark.parametrize(
    "name",
    [
        "test_args_07_null",
        "test_args_6_null",
        "test_args06_null",
        "test_args_006_null",
        "test_core_013_x",
        "test_null_is_args_06",
        "test_core_13_and_14_x",
        "test_x_b07_y",
        "test_x_rule_8",
        "test_core_99_x",
        "test_rule_14_x",
    ],
)
def test_an_id_that_is_unknown_misspelt_or_misplaced_is_a_fault(tmp_path: Path, name: str) -> None:
    assert len(faults_of(tmp_path, f"def {name}(): ...\n")) == 1


@pytest.mark.parametrize("mark", ["pytest.mark.skip", "pytest.mark.skip('x')", "pytest.mark.xfail(strict=True)"])
def test_a_test_that_is_skipped_or_expected_to_fail_proves_nothing(tmp_path: Path, mark: str) -> None:
    (tmp_path / "test_it.py").write_text(f"@{mark}\ndef test_args_06_x(): ...\n", encoding="utf-8")
    assert proofs(tmp_path, SENTENCES).tests == {}


def test_an_id_needs_a_test_or_a_reason_and_a_reason_an_id() -> None:
    tests = {"ARGS-06": ["t"], "core-13": ["t"]}
    assert unproved(tests, SENTENCES, {"b07": "needs a store", "core-99": "?"}) == [
        "rule-8: neither a test nor a reason",
        "core-99: a reason for what does not exist",
    ]


def test_what_many_wait_for_has_one_word_that_somebody_waits_for() -> None:
    words = [gap.partition(": ")[0] for gap in GAPS.values()]
    assert {word for word, gap in zip(words, GAPS.values(), strict=True) if word != gap} <= set(MISSING)
    assert set(MISSING) <= set(words)


def test_the_page_tells_proved_in_part_and_not_yet_apart() -> None:
    page = render(
        {"ARGS-01": ["a.py::t"], "ARGS-02": ["a.py::u"]}, {"ARGS-02": "needs a store", "ARGS-03": "needs mcp"}
    )
    assert "| ARGS | 7 | 1 | 1 | 5 |" in page
    assert "  - `a.py::u`\n  - not yet: needs a store\n- **ARGS-03**" in page


def test_a_mention_of_what_does_not_exist_is_found() -> None:
    assert unknown_mentions("HITL-02 and core-13, but neither HITL-99 nor core-99") == ["HITL-99", "core-99"]
