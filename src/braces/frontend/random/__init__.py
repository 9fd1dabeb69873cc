"""Random numbers: `br.random.normal([3])`, and `br.dropout`.

Random numbers have no hidden state. A program with random operators has one persistable
variable, `random_state`: the seed of `Executor.init` and a counter of runs, incremented by each
run. The bits of an operator are derived from this state, the operator's own number (from its
name) and the iterations of the enclosing loops. So each run and each iteration draws anew, the
same seed gives the same numbers, and pruning, moving or duplicating operators changes no other
draw.

Parameters are numbers, arrays or variables, with the names of `br.distributions`, which also
has densities. Invalid numbers are errors. The values of variables are known at run time only:
an invalid one gives NaN, or a run-time error for integer results.

In a masked branch, and in a step with lengths, each batch element draws by its index in the
whole batch: its numbers do not depend on the active set. Operators that mix batch elements, as
`permutation`, are refused there: draw outside, and pass the result in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.frontend.core.all_or_nothing import module_getattr, operand, transactional
from braces.frontend.core.random_state import draw
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
from braces.ops.common.rules import axis_indices, float_dtype


@transactional
def dropout(
    x: Any, rate: float, *, shared_axes: int | tuple[int, ...] = (), name: str = ""
) -> Var:
    """Drop elements with a probability and scale up the others, so that the mean stays.

        out = x / (1 - rate) with probability 1 - rate, else 0

    `prog.for_test()` drops nothing.

    Args:
        x: The input.
        rate: The probability of dropping, from 0 to 1.
        shared_axes: Axes along which elements share the dropout decision: `(2, 3)` drops whole
            channels of images, 1 the same features of all steps, `(1, 2, 3)` whole examples.
        name: The name of the operator, which determines its random bits.

    Raises:
        ProgramError: `rate` is not between 0 and 1.
        ShapeError: There is no such axis.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 16, 28, 28])
        ...     print(br.dropout(x, 0.5, shared_axes=(2, 3)).type)
        f32[batch,16,28,28]
    """
    x = operand(x, "dropout")
    if shared_axes == ():
        return draw("dropout", x, name=name, rate=rate)
    factors = dropout(
        shared_ones("dropout", x, shared_axes), rate, name=name and f"{name}.kept"
    )
    return emit("multiply", x, factors, name=name)


def shared_ones(what: str, x: Var, axes: int | tuple[int, ...]) -> Var:
    """Return ones of the shape of draws for `x`, with size 1 on shared axes."""
    shared = axis_indices(axes, x.ndim, what)
    first = tuple(slice(1) if axis in shared else slice(None) for axis in range(x.ndim))
    return emit("full_like", x[first], value=1.0, dtype=float_dtype(x.dtype))


__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "dropout",
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
