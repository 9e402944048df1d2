"""Packages whose names load on first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of ``package``.

    ``homes`` maps a module, of the package or by its whole name, to the names that come from it, separated by blanks.
    An unknown name raises AttributeError.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        value: object = getattr(import_module(home if home.startswith("zett_agent.") else f"{package}.{home}"), name)
        namespace[name] = value  # the next access finds it without coming here
        return value

    return load, lambda: sorted({*namespace, *home_of})
