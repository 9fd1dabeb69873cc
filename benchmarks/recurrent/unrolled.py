"""The cells that nobody has a kernel for beside `torch.compile` of the whole loop.

It writes the steps out, which takes minutes for each size, so this is measured by name only.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.case import OURS, Case
from benchmarks.recurrent.benchmark import SIZES, TINY
from benchmarks.recurrent.sides import LOOP_COMPILED, SIDES, beside
from benchmarks.recurrent.task import CELLS, Task

TITLE = "the same of own cells beside torch.compile of the whole loop (minutes a size)"


def cases(tiny: bool) -> Iterator[Case]:
    """Each cell at each size, where there is PyTorch and what it compiles with."""
    for name in CELLS:
        for sizes in TINY if tiny else SIZES:
            task = Task(name, sizes)
            if SIDES[LOOP_COMPILED].has(task):
                yield beside(task, {OURS, LOOP_COMPILED})
