"""Draws of bools, integers, classes and orders; they have no gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var, tensor_type
from braces.dims import Shape, Size
from braces.dtypes import FLOAT64, INT64
from braces.errors import ProgramError
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.random_state import (
    BELOW_ZERO,
    Parameters,
    check_numbers,
    draw,
    keys_for,
    sizes_of,
)
from braces.frontend.random.continuous import Sizes, fixed, gumbel, said
from braces.ops.common.rules import axis_index

__all__ = [
    "bernoulli",
    "binomial",
    "categorical",
    "choice",
    "geometric",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
]

# ---- yes or no -------------------------------------------------------------------------------


@building
def bernoulli(shape: Sizes = None, probability: Operand = 0.5, *, name: str = "") -> Var:
    """Bools that are true with a probability.

    Args:
        shape: Of the result; see `uniform`.
        probability: Of true; a number, or a variable that broadcasts to `shape`, of which what
            is below 0 or NaN is never.
        name: For the operator or block, which draws from its name.

    Raises:
        ProgramError: `probability` is a number that is not between 0 and 1.
    """
    if fixed(probability):
        attrs = {"shape": said(shape), "probability": probability}
        return draw("random_bernoulli", name=name, **attrs)

    def built() -> Var:
        given = Parameters("bernoulli", shape, None, probability=probability)
        return given.noise(lambda u: u) < given["probability"]

    return composed(name or "bernoulli", built)


@building
def rademacher(shape: Sizes = (), *, dtype: object = "float32", name: str = "") -> Var:
    """-1 or 1, equally likely.

    Args:
        shape: Of the result; see `uniform`.
        dtype: A dtype of floats or signed integers.
        name: For the block, which draws from its name.
    """

    def built() -> Var:
        signs = ops.cast(draw("random_bernoulli", shape=said(shape)), dtype)
        return signs * 2 - 1

    return composed(name or "rademacher", built)


# ---- counts ----------------------------------------------------------------------------------


@building
def randint(
    shape: Sequence[Any] | Size,
    low: int,
    high: int,
    *,
    dtype: object = "int64",
    name: str = "",
) -> Var:
    """Integers that are equally likely everywhere in [low, high).

    Args:
        shape: Of the result; see `uniform`.
        low: The smallest integer.
        high: One more than the largest.
        dtype: An integer dtype that holds both.
        name: For the operator, which draws from its name.
    """
    attrs = {"shape": sizes_of(shape), "low": low, "high": high, "dtype": dtype}
    return draw("random_randint", name=name, **attrs)


@building
def poisson(shape: Sizes = None, rate: Operand = 1.0, *, name: str = "") -> Var:
    """How often something happens that happens `rate` times on average.

        P(out = k) = rate^k exp(-rate) / k!

    Args:
        shape: Of the result; see `uniform`.
        rate: The mean, from 0 on; a number, or a variable that broadcasts to `shape`.
        name: For the block, which draws from its name.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: `rate` is a number below 0.
        RunError: In a run, one is below 0, infinite or NaN.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     rate = br.data("rate", ["batch"])
        ...     print(br.random.poisson(rate=rate).type)
        i64[batch]
    """
    check_numbers("poisson", BELOW_ZERO, rate=rate)

    def built() -> Var:
        given = Parameters("poisson", shape, None, rate=rate)
        return one("poisson_of_key", keys_for(given.sizes), given.broadcast("rate"))

    return composed(name or "poisson", built)


@building
def binomial(
    shape: Sizes = None, trials: Operand = 1, probability: Operand = 0.5, *, name: str = ""
) -> Var:
    """How many of some trials succeed.

        P(out = k) = C(trials, k) probability^k (1 - probability)^(trials - k)

    Args:
        shape: Of the result; see `uniform`.
        trials: How many, from 0 on; parameters are numbers, or variables that broadcast to
            `shape`.
        probability: Of success, from 0 to 1.
        name: For the block, which draws from its name.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: A parameter is a number that is outside.
        RunError: In a run, one is.
    """
    check_numbers("binomial", BELOW_ZERO, trials=trials)
    check_numbers("binomial", BELOW_ZERO, 1, probability=probability)

    def built() -> Var:
        given = Parameters("binomial", shape, FLOAT64, trials=trials, probability=probability)
        drawn = (given.broadcast(name) for name in ("trials", "probability"))
        return one("binomial_of_key", keys_for(given.sizes), *drawn)

    return composed(name or "binomial", built)


@building
def geometric(shape: Sizes = None, probability: Operand = 0.5, *, name: str = "") -> Var:
    """How many trials it takes until one succeeds, that one included.

        P(out = k) = (1 - probability)^(k - 1) probability,  k = 1, 2, …

    Args:
        shape: Of the result; see `uniform`.
        probability: Of success, above 0 and up to 1; a number, or a variable that broadcasts
            to `shape`, of which what is outside gives 0.
        name: For the block, which draws from its name.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: `probability` is a number that is outside.
    """
    check_numbers("geometric", 0, 1, probability=probability)

    def built() -> Var:
        given = Parameters("geometric", shape, FLOAT64, probability=probability)
        p = given["probability"]
        drawn = given.noise(ops.log, lambda info: info.tiny) / ops.log1p(-p)
        counted = 1.0 + ops.minimum(ops.floor(drawn), _FURTHEST)
        return ops.cast(ops.where((p > 0.0) & (p <= 1.0), counted, 0.0), INT64)

    return composed(name or "geometric", built)


_FURTHEST = float(2**62)
"""What counts end at that are too large for integers."""


# ---- classes and orders ----------------------------------------------------------------------


@building
def categorical(logits: Any, *, axis: int = -1, name: str = "") -> Var:
    """Class numbers, i64, each with the probability that softmax(logits) gives it.

    Args:
        logits: A variable with an axis of classes.
        axis: Which axis that is.
        name: For the operator, which draws from its name.
    """
    return draw("random_categorical", as_var(logits), name=name, axis=axis)


@building
def permutation(x: Any, *, axis: int = 0, name: str = "") -> Var:
    """The numbers below `x` in random order, or a variable with its rows in random order.

    Args:
        x: How many numbers, symbolic or not; or a variable.
        axis: The axis that is shuffled, of a variable.
        name: For the operator, which draws from its name.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.random.permutation(10).type)
        i64[10]
    """
    if not isinstance(x, Var):
        return draw("random_permutation", name=name, size=sizes_of(x)[0])
    size = _size_along(x, axis, "permutation")
    return one("take", x, draw("random_permutation", name=name, size=size), axis=axis)


@building
def choice(
    x: Any,
    shape: Sequence[Any] | Size = (),
    *,
    replace: bool = True,
    p: Operand | None = None,
    axis: int = 0,
    name: str = "",
) -> Var:
    """Numbers below `x`, or rows of a variable, chosen at random.

    Args:
        x: How many numbers there are, symbolic or not; or a variable.
        shape: How many are chosen: the shape of the result, or what stands there in place of
            the axis that is chosen from.
        replace: Whether one may be chosen again. If not, the numbers of `shape` are known.
        p: [n], how likely each is, up to a factor; all the same where it is not said. What is
            negative gives NaN, and so is not chosen.
        axis: The axis that is chosen from, of a variable.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: Without `replace`, `shape` is symbolic.
        ShapeError: Without `replace`, there are not so many; or `p` does not fit.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["n", 4])
        ...     print(br.random.choice(x, 3).type, br.random.choice(10, [2, 2]).type)
        f32[3,4] i64[2,2]
    """
    sizes = sizes_of(shape)
    size = _size_along(x, axis, "choice") if isinstance(x, Var) else sizes_of(x)[0]

    def built() -> Var:
        chosen = _with_others(size, sizes, p) if replace else _apart(size, sizes, p)
        return one("take", x, chosen, axis=axis) if isinstance(x, Var) else chosen

    return composed(name or "choice", built)


def _with_others(size: Size, sizes: Shape, p: Operand | None) -> Var:
    """Places that may come again."""
    if p is not None:
        logits = ops.broadcast_to(_logits(size, p), (*sizes, size))
        return draw("random_categorical", logits, axis=-1)
    drawn = draw("random_uniform", shape=sizes, dtype=FLOAT64)
    return ops.cast(ops.floor(drawn * ops.cast(ops.size(size), FLOAT64)), INT64)


def _apart(size: Size, sizes: Shape, p: Operand | None) -> Var:
    """Places of which each comes once: the first of a random order."""
    if not all(isinstance(n, int) for n in sizes):
        raise ProgramError(
            "choice without replace=True needs to know how many are chosen.",
            given=f"shape: {list(sizes)}",
            fix="br.random.permutation(x) has all of them in random order.",
        )
    count = math.prod(n for n in sizes if isinstance(n, int))
    logits = one("full", shape=(size,), value=0.0) if p is None else _logits(size, p)
    first = ops.topk(logits + gumbel((size,), dtype=logits.dtype), count)[1]
    return ops.reshape(ops.cast(first, INT64), sizes)


def _logits(size: Size, p: Operand) -> Var:
    given = Parameters("choice", (size,), None, p=p)
    return ops.log(given.broadcast("p"))


def _size_along(x: Var, axis: int, what: str) -> Size:
    whole = tensor_type(operand(x, what))
    return whole.shape[axis_index(axis, whole.rank, what)]
