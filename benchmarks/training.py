"""A training step of three common nets, with Adam, by Braces, JAX and PyTorch."""

from __future__ import annotations

from benchmarks.case import OURS, Case, Comparison, Goal, check_close, clocked
from benchmarks.nets import in_braces, in_jax
from benchmarks.nets.data import NETS, TINY, Net
from benchmarks.peers import installed

TITLE = "a training step of a net, Adam"
JAX, TORCH = "jax.jit and optax, donated", "PyTorch eager, Adam fused"
GOALS = {JAX: Goal(1.02), TORCH: Goal(1.0)}


def cases(tiny: bool) -> list[Case]:
    """One net each."""
    return [_case(net) for net in (TINY if tiny else NETS)]


def _case(net: Net) -> Case:
    steps = {OURS: in_braces.train_step(net), JAX: in_jax.train_step(net)}
    if installed("torch"):
        from benchmarks.nets import in_torch

        steps[TORCH] = in_torch.train_step(net)

    def agree() -> None:
        losses = {name: [step() for _ in range(5)] for name, step in steps.items()}
        for found in losses.values():
            check_close(found, losses[OURS], 1e-3)

    return Case(
        what=str(net),
        sides={name: clocked(step) for name, step in steps.items()},
        comparisons=[Comparison(OURS, name, GOALS[name]) for name in steps if name != OURS],
        agree=agree,
    )
