"""What an import loads, and that every public name can be imported first in a fresh process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import zett_agent
from tests.architecture.public_api import surface
from tests.architecture.source import ROOT

HEAVY = {"openai", "httpx", "httpx2", "sqlalchemy", "griffe", "rich", "mcp"}
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


def test_every_name_that_is_promised_can_be_loaded() -> None:
    for name in zett_agent.__all__:
        assert getattr(zett_agent, name) is not None
    assert set(zett_agent.__all__) <= set(dir(zett_agent))


def test_the_lazy_names_the_list_and_the_imports_for_type_checkers_agree() -> None:
    typed = {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse((ROOT / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zett_agent")
        for alias in node.names
    }
    assert typed == zett_agent._MODULES
    assert {*zett_agent.__all__} == {*zett_agent._MODULES, "__version__"}


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'zett_agent' has no attribute 'Agnet'"):
        zett_agent.Agnet  # type: ignore[attr-defined] # noqa: B018


def test_every_error_of_the_package_is_public_at_its_root() -> None:
    errors = surface(ROOT)["zett_agent.exceptions"]
    assert isinstance(errors, dict)
    assert set(errors) <= set(zett_agent.__all__)


def test_the_package_is_typed_for_its_users() -> None:
    assert (Path(zett_agent.__file__).parent / "py.typed").exists()
