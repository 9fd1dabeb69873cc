"""Building programs of 100 to 10,000 operators, types inferred, with a symbolic batch."""

from __future__ import annotations

import numpy as np

import braces as br
from benchmarks.build_program import build, gradient, operators
from benchmarks.case import Case, Comparison, Goal, Measure, clocked
from benchmarks.fresh import fresh

TITLE = "building a program and inferring its types"
GOALS = {1000: Goal(extra=1.0)}
SCRIPT = (
    "import time, jax.export, optax\n"
    "from benchmarks.build_program import build, gradient\n"
    "start = time.perf_counter(); loss = build({size}, {widths}); built = time.perf_counter()\n"
    "gradient(loss); done = time.perf_counter()\n"
    "print({part})"
)


def cases(tiny: bool) -> list[Case]:
    """Forward and gradient, in a fresh interpreter and again."""
    if tiny:
        return [_case(60, 4, tiny), _case(60, 60, tiny)]
    return [_case(size, 4, tiny) for size in (100, 1000, 10000)] + [_case(1000, 1000, tiny)]


def _case(size: int, widths: int, tiny: bool) -> Case:
    first, again = "in a fresh interpreter, JAX imported", "again"
    backward = "its gradient, in a fresh interpreter"
    layers = f"layers of {widths} widths" if widths < size else "every layer of another width"
    return Case(
        what=f"{size:,} operators, {layers}",
        sides={
            first: _fresh(size, widths, "built - start"),
            backward: _fresh(size, widths, "done - built"),
            again: clocked(lambda: build(size, widths)),
        },
        comparisons=[
            Comparison(first, goal=GOALS.get(size)),
            Comparison(backward),
            Comparison(again),
        ],
        agree=lambda: check_gradient(size, widths),
        rounds=1 if tiny else 5,
        warm=1,
        again=False,
    )


def _fresh(size: int, widths: int, part: str) -> Measure:
    return fresh(SCRIPT.format(size=size, widths=widths, part=part))


def check_gradient(size: int, widths: int) -> None:
    """Check the size of the program, a run, and its gradient."""
    loss = build(size, widths)
    assert abs(operators(loss) - size) <= 25, operators(loss)
    if size > 100:
        return  # it need not be compiled to be built
    grad = gradient(loss)
    exe, scope, rng = br.Executor(), br.Scope(), np.random.default_rng(0)
    x, direction = rng.normal(size=(2, 3, 8)).astype("float32")
    slope = np.vdot(exe.run(loss.program, scope, feed={"x": x}, fetch=[grad])[0], direction)
    step = 1e-2
    up, down = (
        exe.run(loss.program, scope, feed={"x": x + s * step * direction}, fetch=[loss])[0]
        for s in (1, -1)
    )
    np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=0.05, atol=1e-3)
