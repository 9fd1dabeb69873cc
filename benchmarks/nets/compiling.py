"""How long it takes until a training step is compiled, nothing kept from before.

Of Braces: building the program, its gradient and optimizer among it, lowering it, and XLA. Of
JAX: tracing the same, lowering it, and XLA. Of PyTorch: the first step under `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.case import OURS, Case, Goal
from benchmarks.nets.data import NETS, TINY
from benchmarks.sides import Side, beside

TITLE = "compiling a training step, from the description of the net on"
HERE = "benchmarks.nets"
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "compiling", alone=False),
    "JAX and optax": Side(f"{HERE}.in_jax", "compiling", goal=Goal(1.3), alone=False),
    "PyTorch, compiled": Side(f"{HERE}.in_torch", "compiling", ("torch",), compiles=True),
}


def cases(tiny: bool) -> Iterator[Case]:
    """One net each, built when it is its turn."""
    for net in TINY if tiny else NETS:
        case = beside(net, SIDES, lambda _: None)  # `training` holds what they compute
        yield replace(case, rounds=1 if tiny else 5, warm=0 if tiny else 1, again=False)
