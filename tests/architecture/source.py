"""Reads a source tree without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "zett_agent"
ROOT = Path(__file__).parents[2] / "src" / PACKAGE

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class File:
    """One source file; ``name`` is its path below the package, without ``.py``."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.text, str(self.path))

    @property
    def module(self) -> str:
        """The dotted name."""
        parts = self.name.split("/")
        return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])


@dataclass(frozen=True)
class Import:
    """One import of a file of the package; ``imported`` is its name."""

    importer: str
    imported: str
    line: int
    in_function: bool
    for_types: bool
    by_call: bool


def read(root: Path = ROOT) -> list[File]:
    """Every source file below the package directory ``root``, by name."""
    return [File(str(path.relative_to(root).with_suffix("")), path) for path in sorted(root.rglob("*.py"))]


def imports(files: list[File]) -> list[Import]:
    """Every import of one file by another, wherever it stands; a module that does not exist is taken by its name."""
    names = {file.module: file.name for file in files}
    return list(dict.fromkeys(found for file in files for found in _Finder(file, names).found))


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Every function and class below ``tree`` with its qualified name, nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from definitions(node, f"{prefix}{node.name}.")
        else:
            yield from definitions(node, prefix)


class _Finder(ast.NodeVisitor):
    def __init__(self, file: File, names: dict[str, str]) -> None:
        self.found: list[Import] = []
        self._file = file
        self._names = names
        self._functions = 0
        self._type_blocks = 0
        self.visit(file.tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._in_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._in_function(node)

    def _in_function(self, node: ast.AST) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_If(self, node: ast.If) -> None:
        typing = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        self._type_blocks += typing
        for child in node.body:
            self.visit(child)
        self._type_blocks -= typing
        for child in node.orelse:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            depth = len(self._file.name.split("/")) - node.level
            package = ".".join([PACKAGE, *self._file.name.split("/")[:depth]])
            base = f"{package}.{base}" if base else package
        for alias in node.names:
            # `from package import module` imports the module; `from module import name` imports the module it is in.
            whole = f"{base}.{alias.name}"
            self._add(whole if whole in self._names else base, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        """``import_module("zett_agent.x")`` is an import too, inside a function or not."""
        if ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__") and node.args:
            target = node.args[0]
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                self._add(target.value, node.lineno, by_call=True)
        self.generic_visit(node)

    def _add(self, module: str, line: int, *, by_call: bool = False) -> None:
        if module != PACKAGE and not module.startswith(f"{PACKAGE}."):
            return
        imported = self._names.get(module, "/".join(module.split(".")[1:]) or "__init__")
        found = Import(self._file.name, imported, line, self._functions > 0, self._type_blocks > 0, by_call)
        self.found.append(found)
