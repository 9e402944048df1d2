"""Each file imports only what its floor lets it import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.floors import floor_faults
from tests.architecture.layers import LAYERS, Kind
from tests.architecture.source import ROOT, imports, read
from tests.architecture.trees import plant


def test_the_source_keeps_its_floors() -> None:
    faults = floor_faults(ROOT)
    assert not faults, "\n" + "\n".join(faults)


def test_the_check_reads_a_source_that_is_there() -> None:
    assert len(imports(read(ROOT))) > 50


def test_no_file_stands_twice_in_the_table() -> None:
    names = [name for layer in LAYERS.values() if layer.kind is Kind.FLOOR for name in layer.files.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("context", "messages"),  # a lower floor
        ("exceptions", "stop"),  # earlier in its own line
        ("providers/openai", "tools/base"),
        ("providers/openai", "providers/sse"),
        ("extensions/todo", "context"),
        ("extensions/async_subagent", "agent"),
        ("extensions/async_subagent", "extensions/todo"),
        ("resume", "_runtime/run"),
        ("event_queue", "extensions/todo"),
        ("testing/model", "agent"),
        ("cli/demo", "testing/model"),
        ("cli/demo", "__init__"),
        ("cli/__init__", "cli/demo"),
    ],
)
def test_an_import_downwards_is_allowed(tmp_path: Path, importer: str, imported: str) -> None:
    root = plant(tmp_path, {imported: "", importer: f"import {_dotted(imported)}\n"})
    assert floor_faults(root) == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("messages", "context"),  # a higher floor
        ("stop", "exceptions"),  # later in its own line
        ("_runtime/hooks", "agent"),
        ("_runtime/transcript", "extensions/base"),
        ("providers/openai", "context"),
        ("providers/openai", "extensions/todo"),
        ("storage/sqlite", "_runtime/journal"),
        ("extensions/todo", "agent"),
        ("extensions/todo", "providers/openai"),
        ("agent", "extensions/todo"),
        ("agent", "resume"),
        ("agent", "__init__"),
        ("extensions/todo", "extensions/__init__"),
        ("resume", "testing/model"),
        ("testing/model", "cli/demo"),
        ("agent", "testing/model"),
    ],
)
def test_an_import_upwards_is_a_fault(tmp_path: Path, importer: str, imported: str) -> None:
    root = plant(tmp_path, {imported: "", importer: f"import {_dotted(imported)}\n"})
    (fault,) = floor_faults(root)
    assert fault.startswith(f"{importer}:1: ")
    assert f"not {imported} (" in fault


@pytest.mark.parametrize(
    "text",
    [
        "import zett_agent.context",
        "import zett_agent.context as c",
        "from zett_agent import context",
        "from zett_agent.context import ToolContext",
        "from . import context",
        "from .context import ToolContext",
        "try:\n    from zett_agent.context import ToolContext\nexcept ImportError:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from zett_agent.context import ToolContext",
        "import typing\nif typing.TYPE_CHECKING:\n    pass\nelse:\n    from zett_agent.context import ToolContext",
    ],
)
def test_an_import_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    root = plant(tmp_path, {"context": "ToolContext = 1", "messages": text})
    (fault,) = floor_faults(root)
    assert "not context (parts)" in fault


def test_a_relative_import_of_a_sibling_folder_is_found(tmp_path: Path) -> None:
    root = plant(tmp_path, {"extensions/base": "", "_runtime/phase": "from ..extensions import base\n"})
    (fault,) = floor_faults(root)
    assert "not extensions/base (hooks)" in fault


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from zett_agent.messages import ToolCall",
        "async def f():\n    import zett_agent.messages",
        "class C:\n    def f(self):\n        if self:\n            from zett_agent import messages",
        "import importlib\nx = importlib.import_module('zett_agent.messages')",
        "x = __import__('zett_agent.messages')",
    ],
)
def test_an_import_inside_a_function_is_a_fault_even_downwards(tmp_path: Path, text: str) -> None:
    root = plant(tmp_path, {"messages": "", "context": text})
    (fault,) = floor_faults(root)
    assert fault.endswith("imports messages inside a function")


def test_a_top_may_load_a_command_when_it_is_asked_for(tmp_path: Path) -> None:
    text = "from importlib import import_module\ndef main():\n    import_module('zett_agent.cli.app')\n"
    assert floor_faults(plant(tmp_path, {"cli/app": "", "cli/__init__": text})) == []
    (fault,) = floor_faults(plant(tmp_path, {"cli/__init__": "def main():\n    import zett_agent.cli.app\n"}))
    assert fault.endswith("imports cli/app inside a function")


def test_an_import_of_another_package_is_not_judged(tmp_path: Path) -> None:
    assert floor_faults(plant(tmp_path, {"messages": "import zett_agents\ndef f():\n    import griffe"})) == []


def test_a_file_in_no_floor_is_a_fault(tmp_path: Path) -> None:
    (fault,) = floor_faults(plant(tmp_path, {"_runtime/helpers": ""}))
    assert fault.startswith("_runtime/helpers: in no floor")


def test_an_import_of_a_file_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    (fault,) = floor_faults(plant(tmp_path, {"context": "import zett_agent.massages"}))
    assert fault == "context:1: imports massages, which does not exist"


def test_a_cycle_within_a_folder_of_leaves_is_a_fault(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "providers/a": "import zett_agent.providers.b",
            "providers/b": "import zett_agent.providers.c",
            "providers/c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import zett_agent.providers.a",
        },
    )
    assert floor_faults(root) == ["cycle: providers/a -> providers/b -> providers/c -> providers/a"]


def test_a_re_export_file_stays_short(tmp_path: Path) -> None:
    root = plant(tmp_path, {"resume": "x = 1\n" * 21, "event_queue": "x = 1\n" * 20})
    assert floor_faults(root) == ["resume: a re-export file has at most 20 lines"]


def test_a_package_surface_imports_for_type_checkers_only(tmp_path: Path) -> None:
    block = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import zett_agent.agent\n"
    root = plant(tmp_path, {"agent": "", "ids": "", "__init__": block + "import zett_agent.ids\n"})
    assert floor_faults(root) == []
    (fault,) = floor_faults(plant(root, {"__init__": block + "else:\n    import zett_agent.agent\n"}))
    assert "not agent (door)" in fault


def _dotted(file: str) -> str:
    parts = ["zett_agent", *file.split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
