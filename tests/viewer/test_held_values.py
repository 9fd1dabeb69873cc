"""Values that users hold have a `repr` without an address, and HTML with escaped names."""

from __future__ import annotations

import inspect
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import braces as br

ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
NAME = "<script>alert(1)</script>&"
ABSTRACT = {"br.Batches", "br.distributions.Distribution"}
"""Classes whose subclasses have the `repr`."""


def classes(namespace: Any = br, path: str = "br") -> Iterator[tuple[str, Any]]:
    """The public classes by their paths."""
    for name in dir(namespace):
        value = getattr(namespace, name)
        if name.startswith("_") or not getattr(value, "__module__", "braces").startswith("br"):
            continue
        if inspect.isclass(value):
            yield f"{path}.{name}", value
        elif isinstance(value, ModuleType) and path == "br":
            yield from classes(value, f"{path}.{name}")


def test_each_public_class_has_a_repr_of_its_own() -> None:
    found = dict(classes())
    assert len(found) > 60
    without = {path for path, cls in found.items() if cls.__repr__ is object.__repr__}
    assert without <= ABSTRACT


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Values by their kind; free texts of the user contain a script."""
    folder: Path = tmp_path_factory.mktemp("held")
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n"], dtype="int32")
        w = br.parameter("w", [4, 3])
        logits = br.matmul(x, w)
        metric = br.metrics.accuracy(logits, y)
        optimizer = br.optimizer.sgd(0.1)
        optimizer.minimize(br.mean(br.softmax_cross_entropy(logits, y)))
    exe = br.Executor()
    scope = exe.init(prog)
    checkpoint = br.Checkpoint(folder / "<b>job")
    checkpoint.save_now(scope, 3)
    batch = {"x": np.zeros((2, 4)), "y": np.zeros(2, "int32")}
    return {
        "program": prog, "block": prog.block(0), "variable": x, "parameter": w,
        "metric": metric, "optimizer": optimizer, "executor": exe, "stats": exe.stats,
        "scope": scope, "scope variable": scope.var("w"), "checkpoint": checkpoint,
        "selection": prog.find(), "handle": prog.find()[0], "summary": prog.summary(),
        "cost": prog.cost(), "batches": br.batches({NAME: np.zeros((4, 2))}, 2),
        "training": br.training(prog, [batch]),
        "fit": br.fit(prog, [batch], exe=exe, metrics={NAME: metric}, quiet=True),
        "stopping": br.EarlyStopping(NAME), "best": br.Best(folder / NAME[1:8], NAME),
    }  # fmt: skip


KINDS = [
    "program", "block", "variable", "parameter", "metric", "optimizer", "executor", "stats",
    "scope", "checkpoint", "selection", "handle", "summary", "cost",
    "batches", "training", "fit", "stopping", "best",
]  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, "scope variable"])
def test_values_have_a_repr_and_html_that_escapes_names(
    held: dict[str, Any], kind: str
) -> None:
    value = held[kind]
    assert not ADDRESS.search(repr(value))
    html = value._repr_html_()
    assert not ADDRESS.search(html)
    assert "<script" not in html
    assert "<b>job" not in html
    ET.fromstring(f"<div>{without_attributes_of_boxes(html)}</div>")


def without_attributes_of_boxes(html: str) -> str:
    """HTML as XML: `<details open>` has an attribute without a value, `<br>` no end."""
    return html.replace("<details open ", "<details ").replace("<br>", "<br/>")


@pytest.mark.parametrize("kind", ["variable", "handle", "selection", "fit", "training"])
def test_completion_offers_no_special_names_of_views(held: dict[str, Any], kind: str) -> None:
    names = [name for name in dir(held[kind]) if not name.startswith("_")]
    assert names
    assert not {"table", "composed", "_table", "tally", "record"} & set(names)
