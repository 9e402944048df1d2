"""Checks of options that several parts share; each names the option in its ValueError or TypeError."""

from __future__ import annotations

import math
from typing import TypeVar

from typing_extensions import TypeIs

T = TypeVar("T")


def whole_number(name: str, value: object, least: int) -> int:
    """``value`` as it is, if it is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return value


def time_limit(name: str, value: object) -> float | None:
    """``value`` as it is, if it is a number of seconds above 0, or None for no limit."""
    if value is None or (is_finite(value) and value > 0):
        return value
    raise ValueError(f"{name} must be None or a finite number of seconds above 0, not {value!r}")


def boolean(name: str, value: object) -> bool:
    """``value`` as it is, if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return value


def instance(name: str, value: object, kind: type[T]) -> T:
    """``value`` as it is, if it is a ``kind``; else TypeError."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__}, not {type(value).__name__}")
    return value


def has_method(name: str, value: object, method: str, protocol: str) -> None:
    """TypeError unless ``value`` has that method; ``protocol`` names what it should be."""
    if not callable(getattr(value, method, None)):
        raise TypeError(f"{name} must have the method {method}(), see {protocol}; {type(value).__name__} has none")


def is_finite(value: object) -> TypeIs[int | float]:
    """Is it a number that a float can hold? True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
