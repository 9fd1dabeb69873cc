"""The training step of each cell at five sizes, by every installed library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.case import OURS, Case, Comparison
from benchmarks.recurrent import floor
from benchmarks.recurrent.sides import same_losses, sides
from benchmarks.recurrent.task import CELLS, Sizes, Task
from benchmarks.sides import beside

TITLE = "a training step of a tagger with a recurrent cell, everything in the step of Braces"
SIZES = (
    Sizes(32, 64, 128, 128, 1000),
    Sizes(16, 256, 64, 64, 100),
    Sizes(20, 35, 200, 200, 10000),
    Sizes(1, 512, 128, 128, 100),
    Sizes(64, 100, 32, 32, 10),
)
TINY = (Sizes(2, 3, 4, 5, 6),)


def cases(tiny: bool) -> Iterator[Case]:
    """The peak of the machine, then each cell at each size, built in its turn."""
    peak = floor.case(tiny)
    yield peak
    for name in CELLS:
        for sizes in TINY if tiny else SIZES:
            task = Task(name, sizes)
            case = beside(task, sides(task), same_losses)
            yield replace(
                case,
                family=name,
                sides={**case.sides, floor.FLOOR: floor.floor(task, peak)},
                comparisons=[*case.comparisons, Comparison(OURS, floor.FLOOR)],
            )
