"""The extension of the documentation reads only names that exist; Sphinx is not needed."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Container, Iterator
from pathlib import Path

EXTENSION = Path(__file__).resolve().parents[3] / "docs/_ext/braces_docs"
TREES = {file.stem: ast.parse(file.read_text("utf-8")) for file in EXTENSION.glob("*.py")}


def top_level_names(module: str) -> set[str]:
    """Return the names that a module of the extension binds outside functions."""
    names = set[str]()
    for node in TREES[module].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
        else:
            names.update(found.id for found in ast.walk(node) if isinstance(found, ast.Name))
    return names


def missing_names(tree: ast.Module) -> Iterator[str]:
    """Yield the imported names and module attributes that do not exist."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and "braces" in node.module:
            for alias in node.names:
                if alias.name not in names_of(node.module):
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            if module in imported_modules(tree) and node.attr not in top_level_names(module):
                yield f"{module}.{node.attr}"


def names_of(module: str) -> Container[str]:
    """Return the names that a module of the extension or of the package offers."""
    package, _, inner = module.partition(".")
    if package == "braces":
        return set(dir(importlib.import_module(module)))
    return top_level_names(inner) if inner else TREES


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the modules of the extension that a module imports."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "braces_docs"
        for alias in node.names
    }


def test_names_of_other_modules_exist() -> None:
    assert TREES
    assert not {
        module: found for module, tree in TREES.items() if (found := [*missing_names(tree)])
    }
    broken = ast.parse(
        "from braces_docs import reference, gone\nreference.pages, reference.LOST"
    )
    assert [*missing_names(broken)] == ["braces_docs.gone", "reference.LOST"]
