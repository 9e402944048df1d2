"""The checks of options that many parts share, and the text of failures."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent._checks import boolean, has_method, instance, is_finite, time_limit, whole_number
from zett_agent._failures import failure_text
from zett_agent.exceptions import ToolError


@pytest.mark.parametrize("value", [1, 2.0, True, "2", None, -1])
def test_a_count_is_an_integer_of_at_least_its_bound(value: object) -> None:
    with pytest.raises(ValueError, match=rf"^max_tasks must be an integer of at least 2, not {value!r}$"):
        whole_number("max_tasks", value, 2)
    assert whole_number("max_tasks", 2, 2) == 2


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "1"])
def test_a_time_limit_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(ValueError, match="^timeout must be None or a finite number of seconds above 0, not "):
        time_limit("timeout", seconds)
    assert time_limit("timeout", None) is None
    assert time_limit("timeout", 1.5) == 1.5


@pytest.mark.parametrize("value", [1, 0, None, "true"])
def test_a_switch_is_true_or_false(value: object) -> None:
    with pytest.raises(ValueError, match=rf"^strict must be True or False, not {value!r}$"):
        boolean("strict", value)
    assert boolean("strict", False) is False


def test_an_instance_is_told_from_what_it_should_be() -> None:
    assert instance("error", error := ToolError("x"), ToolError) is error
    with pytest.raises(TypeError, match=r"^error must be a ToolError, not str$"):
        instance("error", "x", ToolError)
    with pytest.raises(TypeError, match=r"^error must be an OSError, not NoneType$"):
        instance("error", None, OSError)


def test_what_lacks_its_method_is_told_what_it_should_be() -> None:
    has_method("text", "x", "join", "str")
    with pytest.raises(TypeError, match=r"^store must have the method append\(\), see SessionStore; object has none$"):
        has_method("store", object(), "append", "SessionStore")


def test_true_is_no_number() -> None:
    assert is_finite(0)
    assert not is_finite(True)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(), "ValueError"),
        (ValueError("\ud83d"), "ValueError: \ufffd"),
        (ToolError("no such file"), "no such file"),
        (ToolError(" "), "ToolError"),
        (Mute(), "Mute"),
        (ExceptionGroup("g", [ValueError("a"), Mute()]), "ExceptionGroup: g (2 sub-exceptions): ValueError: a; Mute"),
    ],
)
def test_a_failure_always_says_something_that_can_be_sent(error: BaseException, text: str) -> None:
    assert failure_text(error) == text
