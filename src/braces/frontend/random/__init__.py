"""Random numbers: `br.random.normal([3])`.

Random numbers have no hidden state. A program with random operators has one persistable
variable, `random_state`: the seed of `Executor.init` and a counter of runs, incremented by each
run. The bits of an operator are derived from this state, the operator's own number (from its
name) and the iterations of the enclosing loops. So each run and each iteration draws new
numbers, the same seed gives the same numbers, and pruning, moving or duplicating operators
changes no other draw.

Parameters are numbers, arrays or variables, with the names of `br.distributions`, which also
has densities. Invalid numbers are errors. The values of variables are known at run time only:
an invalid one gives NaN, or a run-time error for integer results.

In a masked branch, and in a step with lengths, each batch element draws by its index in the
whole batch: its numbers do not depend on the active set. Operators that mix batch elements, as
`permutation`, are refused there: draw outside, and pass the result in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.random.composed import (
    beta,
    chisquare,
    dirichlet,
    gamma,
    multivariate_normal,
    student_t,
)
from braces.frontend.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
    uniform,
)
from braces.frontend.random.discrete import (
    bernoulli,
    binomial,
    categorical,
    choice,
    geometric,
    permutation,
    poisson,
    rademacher,
    randint,
)

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "laplace",
    "logistic",
    "multivariate_normal",
    "normal",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "student_t",
    "truncated_normal",
    "uniform",
]

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.random", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
