"""A program of a user that trains, without an error of a strict type checker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from typing import Any, assert_type

import numpy as np

import braces as br


class Printer(br.Callback):
    def on_epoch(self, run: Any, row: Any) -> None:
        print(row["loss"])


with br.Program() as prog:
    x, y = br.data("x", ["n", 4]), br.data("y", ["n"], dtype="int32")
    logits = br.fc(x, 3)
    loss = br.softmax_cross_entropy(logits, y)
    br.optimizer.adam(1e-3).minimize(loss)
    metrics = {"accuracy": br.metrics.accuracy(logits, y)}
data = br.batches({"x": np.ones((8, 4), "float32"), "y": np.zeros(8, "int32")}, 4)
assert_type(data, br.Batches)
assert_type(len(data), int)
for batch in data.epoch(0):
    print(batch["x"])
callbacks = [Printer(), br.EarlyStopping("val_loss")]
run = br.fit(prog, data, epochs=2, validation=data, metrics=metrics, callbacks=callbacks)
assert_type(run.history["loss"], list[Any])
assert_type(run.history[-1], dict[str, Any])
assert_type(run.history[1:], list[dict[str, Any]])
assert_type(run.scope, br.Scope)
assert_type(run.exe.stats.compilations, int)
assert_type(metrics["accuracy"].value, br.Var)
metrics["accuracy"].reset(run.scope)
for step in br.training(prog, data, fetch=loss, check_nan=True):
    assert_type(step.number, int)
    print(step.values, step.last)
assert_type(br.evaluate(prog, data, run.scope, metrics=metrics), dict[str, Any])
"""


def test_a_program_that_trains_has_no_type_errors(tmp_path: Path) -> None:
    checker = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("needs basedpyright")
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [checker, "--pythonpath", sys.executable, "--outputjson", "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [each["message"] for each in found if each["severity"] == "error"] == []


def test_a_program_that_trains_runs(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
