"""Processes of data sets end with the loop of a training, in each way that a loop can end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

grain: Any = pytest.importorskip("grain", reason="grain is an extra")
ROOT = Path(__file__).parents[2]

FREED = re.compile(r"resource_tracker: There appear to be|^  warnings\.warn\('resource_tracker")
"""Grain ends a process in the middle of a batch; Python then frees the memory of the batch."""
SCRIPT = """
import gc, multiprocessing, sys, threading
import grain, numpy as np
import braces as br
from tests.fitting.nets import arrays, net


def plain(batch):
    return batch


def pipeline():
    columns = arrays(40)
    rows = [{name: column[i] for name, column in columns.items()} for i in range(40)]
    return grain.MapDataset.source(rows).seed(1).shuffle()


def source(kind):
    if kind == "rows":
        return br.batches(arrays(40), 4, transform=plain, workers=2)
    if kind == "map":
        return br.batches(pipeline(), 4, workers=2)
    rows = pipeline().batch(4).to_iter_dataset()
    if kind == "threads":
        return rows
    return rows.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def loop(kind, end):
    if end == "fit":
        br.fit(prog, source(kind), validation=source(kind), exe=exe, quiet=True)
        return
    for step in br.training(prog, source(kind), epochs=2, exe=exe):
        if step.number == 3 and end == "break":
            break
        if step.number == 3 and end == "raise":
            raise ZeroDivisionError


def check(end):
    left = [p for p in multiprocessing.active_children()]
    threads = [t.name for t in threading.enumerate() if t.name == "braces feeds"]
    assert not left and not threads, (end, left, threads)


if __name__ == "__main__":
    kind = sys.argv[1]
    (prog, _), exe = net(), br.Executor()
    for end in ("break", "raise", "fit"):
        try:
            loop(kind, end)
        except ZeroDivisionError:
            pass
        check(end)
    walk = iter(br.training(prog, source(kind), exe=exe))
    next(walk)
    del walk
    gc.collect()
    check("collected")
    left = iter(br.training(prog, source(kind), exe=exe))
    next(left)
    print("done")
"""


@pytest.mark.timeout(250)
@pytest.mark.parametrize("kind", ["rows", "map", "iterable", "threads"])
def test_processes_and_threads_end_with_the_loop(kind: str, tmp_path: Path) -> None:
    script, mark = tmp_path / "script.py", uuid.uuid4().hex
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "TEST_MARK": mark}
    done = subprocess.run(
        [sys.executable, script, kind], capture_output=True, text=True, env=environment,
        timeout=200, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if not FREED.search(line)]
    assert (done.returncode, done.stdout, said) == (0, "done\n", [])
    assert not processes_with(mark)


def processes_with(mark: str) -> list[str]:
    """The processes whose environment has a mark."""
    found = list[str]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found
