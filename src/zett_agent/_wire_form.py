"""What a value became on a provider's wire, kept with it: converted once, and anew when it has changed."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any


class Convertible:
    """Base of what providers convert. It keeps its last wire form, which is no part of its value.

    The form is not compared, shown, copied or pickled, and it dies with the value.
    """

    __slots__ = ("_wire_form",)

    _wire_form: tuple[object, tuple[object, ...], bytes]

    def __getstate__(self) -> object:
        state: Any = object.__getstate__(self)
        if isinstance(state, tuple):
            state[1].pop("_wire_form", None)
        return state


def wire_form(value: Convertible, owner: object, made_of: tuple[object, ...], convert: Callable[[], bytes]) -> bytes:
    """Return ``convert()``, or what it returned for the same ``owner`` and the same objects in ``made_of``.

    ``made_of`` holds whatever the form is made of, down to what cannot change in place. It is compared by identity:
    this is quick, and an equal object that took the place of another one is only converted once more.
    """
    known = getattr(value, "_wire_form", None)
    if known is not None and known[0] is owner and len(known[1]) == len(made_of) and all(map(is_, known[1], made_of)):
        data: bytes = known[2]
        return data
    data = convert()
    object.__setattr__(value, "_wire_form", (owner, made_of, data))  # some are frozen
    return data
