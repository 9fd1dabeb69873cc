"""Models of other packages, each file in turn; missing files are skipped with a message."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.case import OURS, Case, check_close
from benchmarks.peers import installed
from benchmarks.real.task import Task
from benchmarks.sides import Side, Turn, beside
from examples.real_models import packages

TITLE = "models of other packages, read from their ONNX files"
HERE = "benchmarks.real"
READING, SHOWING = ("onnx", "onnxruntime"), ("PIL", "espeakng_loader")
"""What reads models, and what draws and says that which they are shown."""
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "compiled", alone=False),
    "ONNX Runtime": Side(f"{HERE}.in_onnxruntime", "session", ("onnxruntime",)),
}
SMALL = f"{packages.MAGIKA}/model.onnx"


def cases(tiny: bool) -> Iterator[Case]:
    """Each existing file; with `small`, one of the same structure."""
    without = [name for name in (READING if tiny else READING + SHOWING) if not installed(name)]
    if without:
        _left_out([f"benchmarks without {', '.join(without)}"])
    elif tiny:
        with tempfile.TemporaryDirectory() as folder:
            importlib.import_module("examples.real_models.look_alike").write(Path(folder))
            yield _case(SMALL, packages.get(SMALL, Path(folder)))
    else:
        _left_out(packages.missing(packages.FOLDER))
        for name, path in packages.there(packages.FOLDER).items():
            yield _case(name, path)


def _left_out(what: Sequence[str]) -> None:
    if what:
        fix = f"python -m examples.real_models fetch puts files into {packages.FOLDER}."
        print(f"real: Left out: {', '.join(what)}. {fix}", file=sys.stderr)


def _case(name: str, path: Path) -> Case:
    return beside(Task(name, path), SIDES, _agree)


def _agree(turns: Mapping[str, Turn]) -> None:
    ours, _ = turns[OURS]()
    for name, turn in turns.items():
        if name != OURS:
            check_close(ours, turn()[0], 1e-3)
