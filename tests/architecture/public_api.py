"""The public surface of the package, read from its source, as JSON that a review can read.

``python -m tests.architecture.public_api --write`` writes it to tests/golden/public_api.json.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT, File, Function, read

GOLDEN = Path(__file__).parents[1] / "golden" / "public_api.json"
UPDATE = "python -m tests.architecture.public_api --write"

Surface = dict[str, object]


def surface(root: Path) -> Surface:
    """Each public module below ``root`` with its public names: signatures, fields, members, values, homes."""
    files = read(root)
    private = {file.module: dict(_own(file.tree)) for file in files if not _is_public(file)}
    return {file.module: _module(file.tree, private) for file in files if _is_public(file)}


def render(api: Surface) -> str:
    """The golden file's text."""
    return json.dumps(api, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _is_public(file: File) -> bool:
    return not any(part.startswith("_") and part != "__init__" for part in file.name.split("/"))


def _module(tree: ast.Module, private: Mapping[str, Surface]) -> Surface:
    """The names of a module; what it takes from a private one is public here, so it is described here."""
    own = dict(_own(tree))
    imported = {name: private.get(home, {}).get(what, f"from {home}") for name, home, what in _imported(tree)}
    named = _dunder_all(tree)
    if named is None:
        return {name: value for name, value in own.items() if not name.startswith("_")}
    return {name: own.get(name, imported.get(name, "missing")) for name in named}


def _dunder_all(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def _imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                yield alias.asname or alias.name, node.module or "", alias.name


def _own(tree: ast.Module) -> Iterator[tuple[str, object]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, _signature(node)
            case ast.ClassDef():
                yield node.name, _class(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, _value(value)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, f": {ast.unparse(annotation)}"
            case _:
                pass


def _value(value: ast.expr) -> str:
    """What is short and says something about the interface: literals, and type aliases."""
    text = ast.unparse(value)
    return f"= {text}" if isinstance(value, ast.Constant) or text.startswith("TypeAliasType(") else "constant"


def _signature(node: Function) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    marks = [ast.unparse(decorator) for decorator in node.decorator_list]
    prefix = "".join(f"@{mark} " for mark in marks if "(" not in mark)
    return f"{prefix}{kind}({ast.unparse(node.args)}){returns}"


def _class(node: ast.ClassDef) -> Surface:
    described: Surface = {
        "bases": [ast.unparse(base) for base in node.bases],
        "decorators": [ast.unparse(decorator) for decorator in node.decorator_list],
        "members": {name: value for name, value in _members(node) if not name.startswith("_") or name == "__init__"},
        "attributes": sorted(_attributes(node)),
    }
    return {key: value for key, value in described.items() if value}


def _members(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    for member in node.body:
        match member:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, _signature(member)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                yield name, f": {ast.unparse(annotation)}" + (f" = {ast.unparse(value)}" if value else "")
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, f"= {ast.unparse(value)}"
            case ast.ClassDef(name=name):
                yield name, _class(member)
            case _:
                pass


def _attributes(node: ast.ClassDef) -> set[str]:
    """The public attributes that ``__init__`` gives to an instance."""
    inits = [member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"]
    stores = [
        part
        for init in inits
        for part in ast.walk(init)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
    ]
    return {store.attr for store in stores if not store.attr.startswith("_")}


def main(arguments: list[str]) -> int:
    """Print the surface, or write it to the golden file."""
    text = render(surface(ROOT))
    if arguments == ["--write"]:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
        print(f"wrote {GOLDEN}")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
