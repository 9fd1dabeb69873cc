"""From importing the library to the first finished training step, in a fresh interpreter."""

from __future__ import annotations

import numpy as np

from benchmarks import first_step_braces, first_step_jax
from benchmarks.case import OURS, Case, Comparison, Goal, Measure, check_close
from benchmarks.first_step_data import MODELS, initial_values
from benchmarks.fresh import BRACES_FOLDER, JAX_FOLDER, folder_for_now, fresh

TITLE = "from the import to the first training step done, in a fresh interpreter"
PEER = "JAX and optax"
GOAL, WARM_GOAL = Goal(1.3), Goal(1.5)
"""Where all is compiled, and where it is read that an earlier process compiled it."""
SCRIPT = (
    "import time; start = time.perf_counter()\n"
    "from benchmarks import {module}; {module}.train({model!r})\n"
    "print(time.perf_counter() - start)"
)


def cases(tiny: bool) -> list[Case]:
    """Two models, trained by Adam, in a first process and in later ones."""
    return [_case(m, what, kept, tiny) for m, what in MODELS.items() for kept in (False, True)]


def _case(model: str, what: str, kept: bool, tiny: bool) -> Case:
    def agree() -> None:
        values = initial_values(model, np.random.default_rng(0))
        ours = first_step_braces.train(model, values, steps=3)
        check_close(ours, first_step_jax.train(model, values, steps=3), 1e-4)

    folder = folder_for_now()
    scripts = {
        OURS: (SCRIPT.format(module="first_step_braces", model=model), BRACES_FOLDER),
        PEER: (SCRIPT.format(module="first_step_jax", model=model), JAX_FOLDER),
    }

    def side(script: str, variable: str) -> Measure:
        return fresh(script, {variable: folder} if kept else {})

    return Case(
        what=f"{what}{', compiled before' * kept}",
        sides={name: side(*given) for name, given in scripts.items()},
        comparisons=[Comparison(OURS, PEER, WARM_GOAL if kept else GOAL)],
        agree=agree,
        rounds=1 if tiny else 7,
        warm=0 if tiny else 1,
        again=False,
    )
