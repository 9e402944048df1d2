from __future__ import annotations

import subprocess
import sys

import pytest

import zett_agent.storage
from zett_agent.storage import memory


def test_every_public_name_loads_on_first_use() -> None:
    for name in zett_agent.storage.__all__:
        assert getattr(zett_agent.storage, name) is not None
    assert set(zett_agent.storage.__all__) <= set(dir(zett_agent.storage))
    assert zett_agent.storage.MemorySessionStore is memory.MemorySessionStore
    assert "MemorySessionStore" in vars(zett_agent.storage)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'zett_agent\.storage' has no attribute 'nothing'$"):
        getattr(zett_agent.storage, "nothing")  # noqa: B009


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = (
        "import sys, zett_agent.storage;print([name for name in sys.modules if name.startswith('zett_agent.storage.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
