"""What an import loads, and that every public name can be imported first in a fresh process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import zett_agent
from tests.architecture.public_api import surface
from tests.architecture.source import ROOT, File, read

HEAVY = {"openai", "httpx", "httpx2", "sqlalchemy", "griffe", "rich", "mcp"}
LAZY = [file for file in read(ROOT) if file.name.endswith("__init__") and "def __getattr__" in file.text]
HOMES = sorted({*zett_agent._MODULES.values()})


def _fresh(code: str) -> list[str]:
    """Run ``code`` in a new interpreter and return the modules that it loaded."""
    program = (
        f"import json, sys\nbefore = set(sys.modules)\n{code}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout)
    return loaded


def _roots(modules: list[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_the_package_alone_loads_nothing_but_itself() -> None:
    loaded = _fresh("import zett_agent")
    assert [module for module in loaded if module.startswith("zett_agent")] == ["zett_agent"]
    assert not _roots(loaded) & {*HEAVY, "pydantic", "pydantic_core", "asyncio", "typing_extensions"}


def test_what_an_agent_needs_loads_no_heavy_library() -> None:
    loaded = _fresh("from zett_agent import Agent, AgentExtension, create_agent, tool")
    assert "zett_agent.agent" in loaded
    assert not _roots(loaded) & HEAVY


@pytest.mark.parametrize("home", HOMES)
def test_each_public_module_can_be_imported_first(home: str) -> None:
    names = ", ".join(name for name, module in zett_agent._MODULES.items() if module == home)
    loaded = _fresh(f"from zett_agent import {names}")
    assert home in loaded


@pytest.mark.parametrize("file", LAZY, ids=lambda file: file.module)
def test_a_lazy_package_keeps_every_promise(file: File) -> None:
    package = import_module(file.module)
    assert isinstance(package.__all__, tuple)
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{file.module}' has no attribute 'Agnet'"):
        package.Agnet  # noqa: B018


@pytest.mark.parametrize("file", LAZY, ids=lambda file: file.module)
def test_type_checkers_see_what_a_lazy_package_loads_and_nothing_else(file: File) -> None:
    package = import_module(file.module)
    seen = {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zett_agent")
        for alias in node.names
    }
    assert {*package.__all__} - {"__version__"} == {*seen}
    assert [
        name for name, home in seen.items() if getattr(package, name) is not getattr(import_module(home), name)
    ] == []
    # At the top of a module it would make type checkers accept any name: it belongs into the else of TYPE_CHECKING.
    functions = [node.name for node in file.tree.body if isinstance(node, ast.FunctionDef)]
    assert "__getattr__" not in functions


def test_every_error_of_the_package_is_public_at_its_root() -> None:
    errors = surface(ROOT)["zett_agent.exceptions"]
    assert isinstance(errors, dict)
    assert set(errors) <= set(zett_agent.__all__)


def test_the_package_is_typed_for_its_users() -> None:
    assert (Path(zett_agent.__file__).parent / "py.typed").exists()
