"""A training step of three common networks, with Adam, by Braces, JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.case import OURS, Case, Goal, check_close
from benchmarks.nets.data import NETS, TINY
from benchmarks.sides import Side, Turn, beside

TITLE = "a training step of a net, Adam"
HERE = "benchmarks.nets"
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "train_step", alone=False),
    "JAX and optax": Side(f"{HERE}.in_jax", "train_step", goal=Goal(1.02), alone=False),
    "PyTorch eager": Side(f"{HERE}.in_torch", "train_step", ("torch",), Goal(1.0)),
    "PyTorch, compiled": Side(f"{HERE}.in_torch", "compiled_step", ("torch",), compiles=True),
}
STEPS = 5
"""How many losses are compared, each after one more update."""


def cases(tiny: bool) -> Iterator[Case]:
    """One network each, built in its turn."""
    for net in TINY if tiny else NETS:
        yield beside(net, SIDES, _agree)


def _agree(turns: Mapping[str, Turn]) -> None:
    losses = {name: [turn()[0] for _ in range(STEPS)] for name, turn in turns.items()}
    for found in losses.values():
        check_close(found, losses[OURS], 1e-3)
