"""The sides of the training step, and their goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.case import OURS, Goal, check_close
from benchmarks.recurrent.task import GRU, LSTM, Task
from benchmarks.sides import Side, Turn

SAME = "JAX scan, everything in it"
GOOD = "JAX scan, as a good user writes it"
FUSED = "PyTorch, fused"
HERE = "benchmarks.recurrent"
AHEAD, TWICE = Goal(1.0), Goal(1 / 2)
STEPS = 5
"""How many losses are compared, each after one more update."""

FIRST = {
    OURS: Side(f"{HERE}.in_braces", "training_step", alone=False),
    SAME: Side(f"{HERE}.in_jax", "everything_in_it", goal=AHEAD, alone=False),
    GOOD: Side(f"{HERE}.in_jax", "as_a_good_user", goal=TWICE, typical=TWICE, alone=False),
}
EQUINOX = {
    "Equinox": Side(f"{HERE}.in_equinox", "usual", ("equinox",), goal=AHEAD, alone=False)
}
WITH_KERNEL = {
    FUSED: Side(f"{HERE}.in_torch", "fused", ("torch",), Goal(1.1), typical=Goal(0.9)),
}
WITHOUT_KERNEL = {
    "PyTorch, a loop": Side(f"{HERE}.in_torch", "step_loop", ("torch",), AHEAD),
    "PyTorch, a compiled step": Side(
        f"{HERE}.in_torch", "compiled_step", ("torch",), AHEAD, compiles=True
    ),
}
OTHERS = {
    "TensorFlow, graph": Side(f"{HERE}.in_tensorflow", "graph", ("tensorflow",), AHEAD),
    "TensorFlow, XLA": Side(f"{HERE}.in_tensorflow", "xla", ("tensorflow",), AHEAD),
    "Paddle": Side(f"{HERE}.in_paddle", "usual", ("paddle",), AHEAD),
}
LOOP_COMPILED = {
    "PyTorch, the loop compiled": Side(
        f"{HERE}.in_torch", "compiled_loop", ("torch",), AHEAD, compiles=True
    )
}


def sides(task: Task) -> Mapping[str, Side]:
    """All sides, with PyTorch by its fused kernel if it has one for the cell."""
    torch = WITH_KERNEL if task.cell in (LSTM, GRU) else WITHOUT_KERNEL
    return FIRST | EQUINOX | torch | OTHERS


def same_losses(turns: Mapping[str, Turn]) -> None:
    """Raise an error if losses of a few steps differ."""
    losses = {name: [turn()[0] for _ in range(STEPS)] for name, turn in turns.items()}
    for found in losses.values():
        check_close(found, losses[OURS], 1e-4)
