"""Draws of bools, integers, classes and permutations; they have no gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var, tensor_type
from braces.dims import Shape, Size
from braces.dtypes import FLOAT64, INT64
from braces.errors import ProgramError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand
from braces.frontend.core.random_state import (
    BELOW_ZERO,
    DistributionParameters,
    as_shape,
    check_numbers,
    draw,
    draw_keys,
)
from braces.frontend.random.argument_order import draw_function
from braces.frontend.random.continuous import Sizes, are_fixed_numbers, gumbel, shape_or_scalar
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

# ---- binary ----------------------------------------------------------------------------------


@draw_function
def bernoulli(shape: Sizes = None, probs: Operand = 0.5, *, name: str = "") -> Var:
    """Bools that are true with a probability.

    Args:
        shape: The shape of the result; see `uniform`.
        probs: The probability of true; a number, or a variable that broadcasts to
            `shape`. Elements of a variable below 0 or NaN are never true.
        name: The name of the operator or block, which determines its random bits.

    Raises:
        ProgramError: If `probs` is a number that is not between 0 and 1.
    """
    if are_fixed_numbers(probs):
        attrs = {"shape": shape_or_scalar(shape), "probability": probs}
        return draw("random_bernoulli", name=name, **attrs)

    def build() -> Var:
        params = DistributionParameters("bernoulli", shape, None, probs=probs)
        return params.noise(lambda u: u) < params["probs"]

    return compose_block(name or "bernoulli", build)


@draw_function
def rademacher(shape: Sizes = (), *, dtype: object = "float32", name: str = "") -> Var:
    """Random signs, -1 or 1.

    Args:
        shape: The shape of the result; see `uniform`.
        dtype: A dtype of floats or signed integers.
        name: The name of the block, which determines its random bits.
    """

    def build() -> Var:
        signs = ops.cast(draw("random_bernoulli", shape=shape_or_scalar(shape)), dtype)
        return signs * 2 - 1

    return compose_block(name or "rademacher", build)


# ---- counts ----------------------------------------------------------------------------------


@draw_function
def randint(
    shape: Sequence[Any] | Size,
    low: int,
    high: int,
    *,
    dtype: object = "int64",
    name: str = "",
) -> Var:
    """Uniform integers in [low, high).

    Args:
        shape: The shape of the result; see `uniform`.
        low: The smallest integer.
        high: The upper bound, excluded.
        dtype: An integer dtype that holds both.
        name: The name of the operator, which determines its random bits.
    """
    attrs = {"shape": as_shape(shape), "low": low, "high": high, "dtype": dtype}
    return draw("random_randint", name=name, **attrs)


@draw_function
def poisson(shape: Sizes = None, rate: Operand = 1.0, *, name: str = "") -> Var:
    """Poisson numbers: counts of events with a mean of `rate`.

        P(out = k) = rate^k exp(-rate) / k!

    Args:
        shape: The shape of the result; see `uniform`.
        rate: The mean, non-negative; a number, or a variable that broadcasts to `shape`.
        name: The name of the block, which determines its random bits.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: If `rate` is a number below 0.
        RunError: If a rate is below 0, infinite or NaN at run time.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     rate = br.data("rate", ["batch"])
        ...     print(br.random.poisson(rate=rate).type)
        i64[batch]
    """
    check_numbers("poisson", BELOW_ZERO, rate=rate)

    def build() -> Var:
        params = DistributionParameters("poisson", shape, None, rate=rate)
        return emit("poisson_of_key", draw_keys(params.sizes), params.broadcast("rate"))

    return compose_block(name or "poisson", build)


@draw_function
def binomial(
    shape: Sizes = None, total_count: Operand = 1, probs: Operand = 0.5, *, name: str = ""
) -> Var:
    """Binomial numbers: successes in a number of trials.

        P(out = k) = C(total_count, k) probs^k (1 - probs)^(total_count - k)

    Args:
        shape: The shape of the result; see `uniform`.
        total_count: Number of trials, non-negative; parameters are numbers, or variables
            that broadcast to `shape`.
        probs: The probability of success, from 0 to 1.
        name: The name of the block, which determines its random bits.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: If a parameter is out of range.
        RunError: If a value is out of range at run time.
    """
    check_numbers("binomial", BELOW_ZERO, total_count=total_count)
    check_numbers("binomial", BELOW_ZERO, 1, probs=probs)

    def build() -> Var:
        params = DistributionParameters(
            "binomial", shape, FLOAT64, total_count=total_count, probs=probs
        )
        values = (params.broadcast(name) for name in ("total_count", "probs"))
        return emit("binomial_of_key", draw_keys(params.sizes), *values)

    return compose_block(name or "binomial", build)


@draw_function
def geometric(shape: Sizes = None, probs: Operand = 0.5, *, name: str = "") -> Var:
    """Geometric numbers: trials up to and including the first success.

        P(out = k) = (1 - probs)^(k - 1) probs,  k = 1, 2, …

    Args:
        shape: The shape of the result; see `uniform`.
        probs: The probability of success, above 0 and up to 1; a number, or a variable
            that broadcasts to `shape`, whose elements out of range give 0.
        name: The name of the block, which determines its random bits.

    Returns:
        i64[*shape].

    Raises:
        ProgramError: If `probs` is out of range.
    """
    check_numbers("geometric", 0, 1, probs=probs)

    def build() -> Var:
        params = DistributionParameters("geometric", shape, FLOAT64, probs=probs)
        p = params["probs"]
        failures = params.noise(ops.log, lambda info: info.tiny) / ops.log1p(-p)
        trials = 1.0 + ops.minimum(ops.floor(failures), _MAX_COUNT)
        return ops.cast(ops.where((p > 0.0) & (p <= 1.0), trials, 0.0), INT64)

    return compose_block(name or "geometric", build)


_MAX_COUNT = float(2**62)
"""Upper bound of counts, within the range of int64."""


# ---- classes and permutations ----------------------------------------------------------------


@draw_function
def categorical(logits: Any, *, axis: int = -1, name: str = "") -> Var:
    """Class indices, i64, with probabilities softmax(logits).

    Args:
        logits: A variable with an axis of classes.
        axis: The class axis.
        name: The name of the operator, which determines its random bits.
    """
    return draw("random_categorical", as_var(logits), name=name, axis=axis)


@draw_function
def permutation(x: Any, *, axis: int = 0, name: str = "") -> Var:
    """The integers below `x` in random order, or a variable shuffled along an axis.

    Args:
        x: The number of integers, possibly symbolic; or a variable.
        axis: The shuffled axis of a variable.
        name: The name of the operator, which determines its random bits.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.random.permutation(10).type)
        i64[10]
    """
    if not isinstance(x, Var):
        return draw("random_permutation", name=name, size=as_shape(x)[0])
    size = _size_along(x, axis, "permutation")
    return emit("take", x, draw("random_permutation", name=name, size=size), axis=axis)


@draw_function
def choice(
    x: Any,
    shape: Sequence[Any] | Size = (),
    *,
    replace: bool = True,
    probs: Operand | None = None,
    axis: int = 0,
    name: str = "",
) -> Var:
    """Random integers below `x`, or random slices of a variable.

    Args:
        x: The number of integers, possibly symbolic; or a variable.
        shape: The shape of the result, or the shape that replaces the chosen axis of a
            variable.
        replace: Whether an element may be chosen again. If not, `shape` is not symbolic.
        probs: [n], probabilities up to a factor; uniform by default. Elements with a negative
            probability are not chosen.
        axis: The axis of a variable to choose from.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If `shape` is symbolic and `replace` is false.
        ShapeError: If the number of elements is too small without `replace`, or the shape of
            `probs` differs.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["n", 4])
        ...     print(br.random.choice(x, 3).type, br.random.choice(10, [2, 2]).type)
        f32[3,4] i64[2,2]
    """
    sizes = as_shape(shape)
    size = _size_along(x, axis, "choice") if isinstance(x, Var) else as_shape(x)[0]

    def build() -> Var:
        indices = (
            _choose_with_replacement(size, sizes, probs)
            if replace
            else _choose_without_replacement(size, sizes, probs)
        )
        return emit("take", x, indices, axis=axis) if isinstance(x, Var) else indices

    return compose_block(name or "choice", build)


def _choose_with_replacement(size: Size, sizes: Shape, probs: Operand | None) -> Var:
    """Draw indices with replacement."""
    if probs is not None:
        logits = ops.broadcast_to(_logits(size, probs), (*sizes, size))
        return draw("random_categorical", logits, axis=-1)
    uniforms = draw("random_uniform", shape=sizes, dtype=FLOAT64)
    return ops.cast(ops.floor(uniforms * ops.cast(ops.size(size), FLOAT64)), INT64)


def _choose_without_replacement(size: Size, sizes: Shape, probs: Operand | None) -> Var:
    """Draw indices without replacement: the first of a random order."""
    if not all(isinstance(n, int) for n in sizes):
        raise ProgramError(
            "choice without replacement requires a static shape.",
            given=f"shape: {list(sizes)}",
            fix="Use br.random.permutation(x) for all elements in random order.",
        )
    count = math.prod(n for n in sizes if isinstance(n, int))
    logits = emit("full", shape=(size,), value=0.0) if probs is None else _logits(size, probs)
    first = ops.topk(logits + gumbel((size,), dtype=logits.dtype), count)[1]
    return ops.reshape(ops.cast(first, INT64), sizes)


def _logits(size: Size, probs: Operand) -> Var:
    params = DistributionParameters("choice", (size,), None, probs=probs)
    return ops.log(params.broadcast("probs"))


def _size_along(x: Var, axis: int, what: str) -> Size:
    type_ = tensor_type(operand(x, what))
    return type_.shape[axis_index(axis, type_.rank, what)]
