"""A program that tests launch as several processes: it saves its training, or resumes it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.storage.tensor_file import TensorFile

ROWS, WIDTH, STEP = 16, 64, 3


def learning() -> tuple[br.Program, br.Var]:
    """A net with dropout that learns by Adam, and its loss."""
    with br.Program() as program:
        hidden = br.dropout(br.fc(br.data("x", ["batch", WIDTH]), WIDTH, act="tanh"), 0.1)
        loss = br.mean((br.fc(hidden, 1) - br.data("y", ["batch", 1])) ** 2)
        br.optimizer.adam(1e-2).minimize(loss)
    return program, loss


def layout(**axes: int) -> br.Layout:
    """Rows apart, and all that is kept."""
    along = tuple(axes or {"data": -1})
    return br.Layout(br.Mesh(axes or {"data": -1}), {"batch": along}, fsdp=along)


def fed(step: int, index: int = 0, count: int = 1) -> dict[str, Any]:
    """Return the feed of one of several processes at a step."""
    rng = np.random.default_rng(step)
    mine = slice(index * ROWS // count, (index + 1) * ROWS // count)
    x = rng.standard_normal((ROWS, WIDTH), np.float32)[mine]
    return {"x": x, "y": rng.standard_normal((ROWS, 1), np.float32)[mine]}


class Count:
    """The bytes that are read of files of variables, from now on."""

    def __init__(self) -> None:
        self.bytes = 0
        whole = TensorFile.read

        def counted(file: TensorFile, *asked: Any) -> Any:
            found = whole(file, *asked)
            self.bytes += found.nbytes
            return found

        TensorFile.read = counted  # type: ignore[method-assign]
        self._whole = whole

    def end(self) -> int:
        """Count no more."""
        TensorFile.read = self._whole  # type: ignore[method-assign]
        return self.bytes


def train(scope: br.Scope, exe: br.Executor, first: int, steps: int, *job: int) -> list[str]:
    """Some steps; the bits of the losses."""
    program, loss = learning()
    return [
        float(exe.run(program, scope, fed(step, *job), fetch=loss)).hex()
        for step in range(first, first + steps)
    ]


def main(folder: str, way: str) -> None:
    """Save at a step and train on; or go on from there; or save again and again."""
    job = br.cluster.start()
    here = job.process_index, job.process_count
    exe, scope = br.Executor(layout=layout()), br.Scope()
    with br.Checkpoint(folder) as checkpoint:
        if way == "go on":
            count = Count()
            found = checkpoint.restore(scope, layout=layout())
            print("read", count.end())
            assert found is not None
            assert found.step == STEP
        else:
            exe.init(learning()[0], scope)
            train(scope, exe, 0, STEP, *here)
            checkpoint.save(scope, STEP, {"row": STEP * ROWS})
        print("losses", *train(scope, exe, STEP, 2, *here))
        if way == "refused":
            refused(checkpoint, scope, Path(folder), *here)
        if way == "killed":
            killed(checkpoint, scope, job.process_index)


def refused(
    checkpoint: br.Checkpoint, scope: br.Scope, folder: Path, index: int, count: int
) -> None:
    """Each of several errors is one of all processes, and saving goes on."""
    kept = br.Checkpoint(folder)
    for step in (STEP + 1 + index, STEP + 1):
        if index == 1 and step == STEP + 1:
            kept.folder = folder / "gone"
        try:
            kept.save_now(scope, step)
        except (br.BracesError, OSError) as error:
            print("refused", type(error).__name__, error)
    kept.folder = folder
    try:
        br.save_parameters(scope, folder.parent / f"{index}.safetensors")
    except br.BracesError as error:
        print("refused", type(error).__name__, error)
    assert checkpoint.steps == [STEP]
    checkpoint.save_now(scope, STEP + 2)
    assert checkpoint.steps == [STEP, STEP + 2]


def killed(checkpoint: br.Checkpoint, scope: br.Scope, index: int) -> None:
    """Save until one process ends in the middle."""
    br.cluster.agree("saved", "all")
    if index == 1:
        threading.Timer(0.2, os._exit, [9]).start()
    for step in range(STEP + 1, 10_000):
        checkpoint.save(scope, step)
        time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
