"""The lazy names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import zett_agent.tools as package
from zett_agent.tools import base


def test_every_listed_name_is_the_one_of_its_module() -> None:
    assert isinstance(package.__all__, tuple)
    for name in package.__all__:
        if name in vars(package):
            delattr(package, name)
        assert getattr(package, name) is getattr(base, name)
        assert name in vars(package)


def test_dir_lists_every_public_name() -> None:
    assert set(package.__all__) <= set(dir(package))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_and_starts_nothing() -> None:
    code = (
        "import sys, threading, zett_agent.tools\n"
        "print([name for name in ('pydantic', 'griffe', 'zett_agent.tools.base') if name in sys.modules])\n"
        "import zett_agent.tools.base\n"
        "print('griffe' in sys.modules, threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False 1"]
    assert done.stderr == ""
