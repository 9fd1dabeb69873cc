"""The cells without a fused kernel beside `torch.compile` of the whole loop.

It unrolls the loop, which takes minutes for each size, so this runs only by name.
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
    """Each cell at each size, if PyTorch and its compiler are installed."""
    if not all(side.is_there() for side in LOOP_COMPILED.values()):
        return
    for cell in (PEEPHOLE, HIGHWAY):
        for sizes in TINY if tiny else SIZES:
            both = {OURS: FIRST[OURS], **LOOP_COMPILED}
            case = beside(Task(cell.name, sizes), both, same_losses)
            yield replace(case, family=cell.name)
