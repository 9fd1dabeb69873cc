"""Recipes of `docs/guides/surgery/recipes` on a transformer that `br.from_torch` imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from examples import recall
from tests.docs.test_docs import ROOT

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


@pytest.mark.parametrize(
    "name", ["lora", "swap_activation", "per_example", "prune_heads", "inspect", "early_exit"]
)
def test_a_recipe_runs_on_an_imported_module(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.surgery.recall import exported, load  # it imports torch

    prog, values = br.from_torch(exported(load()))
    scope = br.Scope()
    scope.update({name: np.array(value) for name, value in values.items()})
    monkeypatch.setattr(recall, "load", lambda: (prog, scope))
    page = (ROOT / f"docs/guides/surgery/recipes/{name}.md").read_text(encoding="utf-8")
    code = "\n".join(part.split("```")[0] for part in page.split("```python\n")[1:])
    names: dict[str, Any] = {}
    exec(compile(code.replace("/tmp/", f"{tmp_path}/"), name, "exec"), names)
