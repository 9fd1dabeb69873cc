"""The gradient of a loop with a data-dependent trip count: h <- tanh(W h), n times."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, Measure, check_close, clocked
from benchmarks.peers import installed

TITLE = "gradient of a while of tanh(W h), trips known at run time"
WIDTH = 32
SCAN = "JAX scan, length compiled in"
EQUINOX = "Equinox, no bound, 1,024 slots"
BOUNDED = "Equinox, told a bound, a slot a trip"
TORCH = "PyTorch eager"
GOALS = {EQUINOX: Goal(1 / 4), TORCH: Goal(1 / 20)}

Gradient: TypeAlias = Callable[[int], Any]
"""From the number of trips to the gradients of sum(h) by the first h and by W."""


def cases(tiny: bool) -> list[Case]:
    """Three trip counts with one program, and its number of compilations for changing ones."""
    counts = (5, 8) if tiny else (64, 300, 1000)
    ours, others = braces_gradient(), _others(max(counts))
    found = [_case(trips, ours, others) for trips in counts]
    return [*found, _recompilations(ours, counts)]


def values() -> tuple[Any, Any]:
    """The initial h, and W."""
    rng = np.random.default_rng(0)
    w, h = rng.normal(size=(WIDTH, WIDTH)) / 6, rng.normal(size=WIDTH)
    return h.astype("float32"), w.astype("float32")


def _case(trips: int, ours: Gradient, others: dict[str, Gradient]) -> Case:
    def agree() -> None:
        found = ours(trips)
        for other in others.values():
            check_close(found, other(trips), 1e-4)

    sides = {name: clocked(lambda g=g: g(trips)) for name, g in {OURS: ours, **others}.items()}
    return Case(
        what=f"{trips} trips",
        sides=sides,
        comparisons=[Comparison(OURS, name, GOALS.get(name)) for name in others],
        agree=agree,
    )


def _others(most: int) -> dict[str, Gradient]:
    found = {SCAN: scan_gradient()}
    if installed("equinox"):
        found[EQUINOX] = equinox_gradient(None, 1024)
        found[BOUNDED] = equinox_gradient(most, most)
    if installed("torch"):
        found[TORCH] = torch_gradient()
    return found


# ---- sides -----------------------------------------------------------------------------------


def braces_gradient() -> Gradient:
    """A `while` and `br.gradients`."""
    with br.Program() as prog:
        start, w = br.data("h", [WIDTH]), br.data("w", [WIDTH, WIDTH])
        n = br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            h = body.add_memory(init=start)
            body.set_condition(i < n)
            h.update(br.tanh(w @ h))
            i.update(i + 1)
        grads = br.gradients([br.sum(loop.final(h))], [start, w])
    exe, scope, (h0, w0) = br.Executor(), br.Scope(), values()
    return lambda trips: exe.run(
        prog, scope, feed={"h": h0, "w": w0, "n": np.int32(trips)}, fetch=grads
    )


def scan_gradient() -> Gradient:
    """The lower bound: a separate program for each length, without decisions at run time."""
    compiled: dict[int, Any] = {}
    h0, w0 = values()

    def total(trips: int, h: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(w @ h), None), h, None, length=trips)[
            0
        ].sum()

    def run(trips: int) -> Any:
        if trips not in compiled:
            compiled[trips] = jax.jit(jax.grad(total, argnums=(1, 2)), static_argnums=0)
        return jax.block_until_ready(compiled[trips](trips, h0, w0))

    return run


def equinox_gradient(bound: int | None, slots: int) -> Gradient:
    """Its checkpointed loop. With a bound and as many slots, it saves every iteration."""
    from equinox.internal import while_loop

    def total(h: Any, w: Any, n: Any) -> Any:
        def body(carry: Any) -> Any:
            return carry[0] + 1, jnp.tanh(w @ carry[1])

        return while_loop(
            lambda carry: carry[0] < n,
            body,
            (0, h),
            max_steps=bound,
            kind="checkpointed",
            checkpoints=slots,
        )[1].sum()

    jitted, (h0, w0) = jax.jit(jax.grad(total, argnums=(0, 1))), values()
    return lambda trips: jax.block_until_ready(jitted(h0, w0, np.int32(trips)))


def torch_gradient() -> Gradient:
    """A Python loop on one thread, which is faster than two for vectors of 32."""
    import torch

    torch.set_num_threads(1)
    h0, w0 = map(torch.from_numpy, values())

    def run(trips: int) -> Any:
        start, w = h0.detach().requires_grad_(), w0.detach().requires_grad_()
        h = start
        for _ in range(trips):
            h = torch.tanh(torch.mv(w, h))
        return torch.autograd.grad(h.sum(), (start, w))

    return run


# ---- compilations ----------------------------------------------------------------------------


def _recompilations(ours: Gradient, counts: tuple[int, ...]) -> Case:
    """Trip counts that change at random, within the earlier range."""
    moving = [
        random.Random(0).randint(1, max(counts)) for _ in range(5 if max(counts) < 64 else 50)
    ]

    def run() -> None:
        for trips in moving:
            ours(trips)

    return Case(
        what=f"compilations in {len(moving)} runs of 1 to {max(counts)} trips",
        sides={OURS: compilations(run)},
        comparisons=[Comparison(OURS, goal=Goal())],
        agree=lambda: None,
        unit="compiled",
        rounds=1,
        warm=0,
        again=False,
    )


def compilations(run: Callable[[], None]) -> Measure:
    """A measurement of the number of XLA compilations."""
    seen = {"count": 0}

    def listen(event: str, duration: float, **_: Any) -> None:
        seen["count"] += event.endswith("backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(listen)

    def measure() -> float:
        before = seen["count"]
        run()
        return float(seen["count"] - before)

    return measure
