"""Models of other packages, compiled by Braces, beside ONNX Runtime with as many threads."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from examples.real_models import cases as real, look_alike, packages
from examples.real_models.sides import Case as Given, Ours, theirs

from benchmarks.case import OURS, Case, Comparison, check_close, clocked
from benchmarks.peers import cores, installed

TITLE = "models of other packages, read from their ONNX files"
RUNTIME = "ONNX Runtime"
SMALL = f"{packages.MAGIKA}/model.onnx"


def cases(tiny: bool) -> Iterator[Case]:
    """Each file that is there, on one of its inputs; small, a model of the same structure."""
    if not installed("onnxruntime"):
        return
    if tiny:
        with tempfile.TemporaryDirectory() as folder:
            look_alike.write(Path(folder))
            yield _case(SMALL, packages.get(SMALL, Path(folder)))
        return
    absent = packages.missing(packages.FOLDER)
    if absent:
        print(
            f"Left out, since they are not in {packages.FOLDER}: {', '.join(absent)}. "
            "python -m examples.real_models fetch brings them.",
            file=sys.stderr,
        )
    for name, path in packages.there(packages.FOLDER).items():
        yield _case(name, path)


def _case(name: str, path: Path) -> Case:
    """One run of a model, on the first input that the example gives it."""
    given: Given = real.CASES[name]()[0]
    feed = given.feeds[0]
    ours, other = Ours.of(path), theirs(path, cores())
    return Case(
        what=f"{name}, {given.about}",
        sides={OURS: clocked(lambda: ours(feed)), RUNTIME: clocked(lambda: other(feed))},
        comparisons=[Comparison(OURS, RUNTIME)],
        agree=lambda: check_close(ours(feed), other(feed), 1e-3),
    )
