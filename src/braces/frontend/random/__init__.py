"""Random numbers: `br.random.normal([3])`, and `br.dropout`.

Randomness has no hidden state. A program that draws has one persistable variable,
`random_state`: the seed of `Executor.init` and a counter of runs, which each run raises by one.
A draw follows from this state, the operator's own number (made from its name) and the trips of
the loops around it. So each run and each trip draws anew, the same seed gives the same numbers,
and what is pruned, moved or repeated changes no other draw.

Parameters are numbers, arrays or variables, in the terms of `br.distributions`, which knows
densities, too. Numbers that no parameter can be are refused; of variables, a run knows the
values: what is drawn of impossible ones is NaN, or where that is an integer, an error of the
run.

In a row-wise branch, and in a step with lengths, each row draws for itself, by its number in
the whole batch: whichever other rows run, it draws the same. What mixes rows, as `permutation`,
is refused there: draw it outside, and take it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.frontend.core.all_or_nothing import building, missing_from, operand
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


@building
def dropout(
    x: Any, rate: float, *, shared_axes: int | tuple[int, ...] = (), name: str = ""
) -> Var:
    """Drop elements with a probability and scale the others up, so that the mean stays.

        out = x / (1 - rate) with probability 1 - rate, else 0

    `prog.for_test()` drops nothing.

    Args:
        x: What elements are dropped from.
        rate: The probability of dropping, from 0 to 1.
        shared_axes: Axes along which all is dropped or nothing: `(2, 3)` drops whole channels
            of pictures, 1 the same features of all steps, `(1, 2, 3)` whole examples.
        name: For the operator, which draws from its name.

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
    kept = dropout(apart("dropout", x, shared_axes), rate, name=name and f"{name}.kept")
    return one("multiply", x, kept, name=name)


def apart(what: str, x: Var, axes: int | tuple[int, ...]) -> Var:
    """Ones in the places of what is drawn for `x`, once for all along some axes."""
    shared = axis_indices(axes, x.ndim, what)
    first = tuple(slice(1) if axis in shared else slice(None) for axis in range(x.ndim))
    return one("full_like", x[first], value=1.0, dtype=float_dtype(x.dtype))


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
    __getattr__ = missing_from("br.random", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
