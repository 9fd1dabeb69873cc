"""Notebooks of the documentation run from top to bottom, and show views of their values.

`make docs` executes them in a kernel; here their cells run as one program, without Jupyter.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted(
    file for file in DOCS.rglob("*.ipynb") if not file.is_relative_to(DOCS / "_build")
)


def cells(file: Path, kind: str) -> list[dict[str, Any]]:
    """The cells of a kind: `code` or `markdown`."""
    found = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return its last value if it is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_the_cells_of_a_notebook_run_and_their_values_have_views(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    values = [run_cell("".join(cell["source"]), names) for cell in cells(file, "code")]
    shown = [value for value in values if value is not None]
    assert len(shown) >= 5
    for value in shown:
        assert value._repr_html_().startswith("<"), type(value)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_without_outputs(file: Path) -> None:
    for cell in cells(file, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
