"""What a docstring says to a model, and what of it stays with people."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from zett_agent.tools.docstrings import ToolDocstring, parse_docstring


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert parse_docstring(text) == ToolDocstring()


def test_the_description_is_the_first_paragraph_on_one_line() -> None:
    text = """Find files
    by name.

    Only people read this.
    """
    assert parse_docstring(text) == ToolDocstring("Find files by name.")


def test_a_docstring_that_begins_with_a_section_has_no_description() -> None:
    assert parse_docstring("Args:\n    a: first").description == ""


@pytest.mark.parametrize("heading", ["Args", "Arguments", "Parameters", "ARGS", "parameters"])
def test_parameters_are_read_under_each_name_of_the_section(heading: str) -> None:
    text = f"""Do it.

    {heading}:
        path (str | None): Where
            to look: here.
        *depth*: How deep.
            Second line.

            After a blank one.
    """
    assert parse_docstring(text).parameters == (
        ("path", "Where to look: here."),
        ("depth", "How deep. Second line. After a blank one."),
    )


def test_core_33_standard_sections_do_not_leak_into_parameters_or_guidelines() -> None:
    text = """Do it.

    Note: an inline remark
        with: a colon
    Args:
        a: First.
    Returns:
        dict: What came out.
    Raises:
        ValueError: If not.
    Yields:
        int: never
    Keyword Args:
        c: for people
    Guidelines:
        - Rule one.
    Note:
        b: not a parameter
    Example:
        - not a guideline
    Snippet:
        first line

        second line
    See Also:
        other: thing
    """
    assert parse_docstring(text) == ToolDocstring(
        "Do it.", (("a", "First."),), "first line\nsecond line", ("Rule one.",)
    )


def test_sections_may_be_laid_out_loosely() -> None:
    text = """Do it.
    Args:

        a: first
        goes on
        b (int): second
    Guidelines:
    - one
    - two

    Text after it.
    Snippet:
    call it

    """
    assert parse_docstring(text) == ToolDocstring(
        "Do it.", (("a", "first goes on"), ("b", "second")), "call it", ("one", "two")
    )


def test_parameters_without_indentation_are_read_until_a_blank_line() -> None:
    text = "Do it.\n\nArgs:\na: first\ngoes on\nb: second\n\ntext: after"
    assert parse_docstring(text).parameters == (("a", "first goes on"), ("b", "second"))


def test_text_after_a_section_belongs_to_nobody() -> None:
    text = "Do it.\n\nArgs:\n    a: first\n\nfor: people\n"
    assert parse_docstring(text).parameters == (("a", "first"),)


def test_an_empty_section_is_no_section() -> None:
    assert parse_docstring("Do it.\n\nGuidelines:\nArgs:\n") == ToolDocstring("Do it.")


@pytest.mark.parametrize(
    ("block", "entries"),
    [
        ("- one\n- two", ("one", "two")),
        ("* one\n* two", ("one", "two")),
        ("-one\n-\n- two", ("one", "two")),
        ("one\ntwo", ("one", "two")),
        ("one\n  wraps\ntwo", ("one wraps", "two")),
        ("- one\n  wraps\n- two", ("one wraps", "two")),
        ("- one\nwraps\n- two", ("one wraps", "two")),
        ("- one\n\nplain\n- two", ("one", "plain", "two")),
        ("- one\n\n  wraps", ("one wraps",)),
        ("- one\n  - below\n- two", ("one - below", "two")),
        ("intro\n- one", ("intro", "one")),
    ],
)
def test_core_35_a_wrapped_guideline_is_one_guideline(block: str, entries: tuple[str, ...]) -> None:
    indented = "\n".join(f"    {line}" if line else "" for line in block.splitlines())
    assert parse_docstring(f"Do it.\n\nGuidelines:\n{indented}\n").guidelines == entries


def test_the_parser_says_nothing_about_odd_docstrings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    parse_docstring("Do it.\n\nArgs:\n    a (int: first\n      odd\n    no colon\n")
    assert caplog.records == []


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_parser_is_loaded_only_for_a_docstring_with_sections() -> None:
    code = (
        "import sys, zett_agent.tools.base\n"
        "from zett_agent.tools.docstrings import parse_docstring as parse\n"
        "parse('Do it.'); print('griffe' in sys.modules)\n"
        "parse('Do it.\\n\\nArgs:\\n    a: b'); print('griffe' in sys.modules)"
    )
    assert run_python(code).split() == ["False", "True"]
