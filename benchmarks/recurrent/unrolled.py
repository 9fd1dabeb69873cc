"""The cells that nobody has a kernel for beside `torch.compile` of the whole loop.

It writes the steps out, which takes minutes for each size, so this is measured by name only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.case import OURS, Case
from benchmarks.recurrent.benchmark import SIZES, TINY
from benchmarks.recurrent.sides import FIRST, LOOP_COMPILED, same_losses
from benchmarks.recurrent.task import HIGHWAY, PEEPHOLE, Task
from benchmarks.sides import beside

TITLE = "a training step of an own cell beside torch.compile of the whole loop"


def cases(tiny: bool) -> Iterator[Case]:
    """Each cell at each size, where there is PyTorch and what it compiles with."""
    if not all(side.is_there() for side in LOOP_COMPILED.values()):
        return
    for cell in (PEEPHOLE, HIGHWAY):
        for sizes in TINY if tiny else SIZES:
            both = {OURS: FIRST[OURS], **LOOP_COMPILED}
            case = beside(Task(cell.name, sizes), both, same_losses)
            yield replace(case, family=cell.name)
