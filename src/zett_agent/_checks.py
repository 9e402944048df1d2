"""Checks of numbers that constructors of several parts share; each names the field in its ValueError."""

from __future__ import annotations

import math

from typing_extensions import TypeIs


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


def is_finite(value: object) -> TypeIs[int | float]:
    """Is it a number that JSON can hold? True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
