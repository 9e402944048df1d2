"""``zett_agent.extensions`` names every extension and loads none before it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT
from zett_agent import extensions
from zett_agent.extensions.base import AgentExtension

#: What is an extension but belongs to the agent or to its own module, not to the package's surface.
ELSEWHERE = {"InMemoryMessageAccumulator", "Evaluators"}


def _fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_the_package_loads_none_of_them() -> None:
    loaded = _fresh(
        "import sys, zett_agent.extensions; print([n for n in sys.modules if n.startswith('zett_agent.ext')])"
    )
    assert loaded.strip() == "['zett_agent.extensions']"


@pytest.mark.parametrize("name", extensions.__all__)
def test_each_can_be_imported_first(name: str) -> None:
    assert _fresh(f"from zett_agent.extensions import {name}; print({name}.__name__)").strip() == name


def test_each_name_is_an_extension_and_is_listed() -> None:
    for name in extensions.__all__:
        assert issubclass(getattr(extensions, name), AgentExtension)
    assert set(extensions.__all__) <= set(dir(extensions))
    assert tuple(sorted(extensions.__all__)) == extensions.__all__


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'zett_agent.extensions' has no attribute 'AskUser'"):
        extensions.AskUser  # type: ignore[attr-defined] # noqa: B018


def test_no_extension_of_the_package_is_forgotten() -> None:
    defined = {
        node.name
        for path in (ROOT / "extensions").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Extension") for base in node.bases)
    }
    assert defined - ELSEWHERE - {"AgentExtension"} == {*extensions.__all__} - {"AgentExtension"}
