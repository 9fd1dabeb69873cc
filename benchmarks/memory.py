"""Peak memory of the gradient of a long recurrent loop, with and without checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import braces as br
from benchmarks.case import OURS, Case, Comparison, Goal, check_close
from benchmarks.fresh import fresh

TITLE = "memory that the gradient of tanh(h W) takes, h of 128x128, over that of 16 steps"
KEPT, CHECKPOINTED, SCAN = (
    f"{OURS}, every step kept",
    f"{OURS}, checkpoint_every=128",
    "JAX scan",
)
EVERY = {KEPT: None, CHECKPOINTED: 128}
SCRIPT = "from benchmarks.memory import extra; print(extra({name!r}, {steps}))"


def cases(tiny: bool) -> list[Case]:
    """One number of steps, with each side in a separate interpreter."""
    steps = 256 if tiny else 16384
    names = (CHECKPOINTED, KEPT, SCAN)

    def agree() -> None:
        found = [gradient(name, 300)() for name in names]
        for other in found[1:]:
            check_close(found[0], other, 1e-3)

    return [
        Case(
            what=f"{steps:,} steps",
            sides={name: fresh(SCRIPT.format(name=name, steps=steps)) for name in names},
            comparisons=[
                Comparison(CHECKPOINTED, KEPT, Goal(0.15)),
                Comparison(KEPT, SCAN),
            ],
            agree=agree,
            unit="MiB",
            rounds=1 if tiny else 3,
            warm=0,
            again=False,
        )
    ]


def extra(name: str, steps: int) -> float:
    """The growth of this process's peak memory from 16 steps to `steps`, in MiB, by Linux."""
    gradient(name, 16)()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _peak_mib()
    gradient(name, steps)()
    return _peak_mib() - before


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def gradient(name: str, steps: int) -> Callable[[], Any]:
    """The gradients of sum(h) after `steps` with respect to the initial h and W."""
    rng = np.random.default_rng(0)
    h0 = rng.normal(size=(128, 128)).astype("float32")
    w = (rng.normal(size=(128, 128)) / 128**0.5).astype("float32")
    return _scan(steps, h0, w) if name == SCAN else _braces(steps, EVERY[name], h0, w)


def _braces(steps: int, every: int | None, h0: Any, w0: Any) -> Callable[[], Any]:
    with br.Program() as prog:
        start, w = br.data("h", h0.shape), br.data("w", w0.shape)
        rnn = br.create_rnn(steps=steps, checkpoint_every=every)
        with rnn.stepnet() as net:
            h = net.add_memory(init=start)
            h.update(br.tanh(h @ w))
        grads = br.gradients([br.sum(rnn.final(h))], [start, w])
    exe, scope = br.Executor(), br.Scope()
    return lambda: exe.run(prog, scope, feed={"h": h0, "w": w0}, fetch=grads)


def _scan(steps: int, h0: Any, w0: Any) -> Callable[[], Any]:
    def total(h: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), h, None, length=steps)[
            0
        ].sum()

    run = jax.jit(jax.grad(total, argnums=(0, 1)))
    return lambda: [np.asarray(x) for x in run(h0, w0)]
