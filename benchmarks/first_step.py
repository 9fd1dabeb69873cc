"""From importing the library to the first finished training step, in a fresh interpreter."""

from __future__ import annotations

import numpy as np

from benchmarks import first_step_braces, first_step_jax
from benchmarks.case import OURS, Case, Comparison, Goal, Measure, check_close
from benchmarks.first_step_data import MODELS, initial_values
from benchmarks.fresh import fresh

TITLE = "from the import to the first training step done, in a fresh interpreter"
PEER = "JAX and optax"
SCRIPT = (
    "import time; start = time.perf_counter()\n"
    "from benchmarks import {module}; {module}.train({model!r})\n"
    "print(time.perf_counter() - start)"
)


def cases(tiny: bool) -> list[Case]:
    """Two models, trained by Adam."""
    return [_case(model, what, tiny) for model, what in MODELS.items()]


def _case(model: str, what: str, tiny: bool) -> Case:
    def agree() -> None:
        values = initial_values(model, np.random.default_rng(0))
        ours = first_step_braces.train(model, values, steps=3)
        check_close(ours, first_step_jax.train(model, values, steps=3), 1e-4)

    return Case(
        what=what,
        sides={OURS: _fresh("first_step_braces", model), PEER: _fresh("first_step_jax", model)},
        comparisons=[Comparison(OURS, PEER, Goal(1.3))],
        agree=agree,
        rounds=1 if tiny else 7,
        warm=0 if tiny else 1,
        again=False,
    )


def _fresh(module: str, model: str) -> Measure:
    return fresh(SCRIPT.format(module=module, model=model))
