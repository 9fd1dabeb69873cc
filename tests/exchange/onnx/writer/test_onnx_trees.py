"""Trees, whose nodes steps of two kinds put on stacks, through ONNX and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braces as br
from benchmarks.trees.in_braces import program
from benchmarks.trees.task import Task
from tests.support.onnx_round_trip import run_model

pytestmark = pytest.mark.unoptimized


@pytest.mark.thorough
def test_second_derivatives_of_trees_come_back(tmp_path: Path) -> None:
    task = Task()
    prog, fetch = program(task)
    scope, interpreter = br.Scope(), br.Executor(mode="interpret")
    interpreter.init(prog, scope)
    scope.update(task.values)
    wanted = interpreter.run(prog, scope, feed=task.feed, fetch=fetch)
    path = tmp_path / "trees.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=fetch)
    elsewhere = list(run_model(path, task.feed).values())
    again, values = br.from_onnx(path)
    other = br.Scope()
    other.update(values)
    back = [
        executor.run(again, other, feed=task.feed, fetch=list(again.fetches))
        for executor in (interpreter, br.Executor())
    ]
    for found in (elsewhere, *back):
        for want, got in zip(wanted, found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
