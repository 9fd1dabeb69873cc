"""Draws of real numbers, whose parameters may be variables: gradients go through to them.

They are made of numbers that are equally likely everywhere in [0, 1), by the inverse of the
distribution function, or are operators themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.random_state import Low, Parameters, check_numbers, draw, sizes_of

__all__ = [
    "cauchy",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "normal",
    "truncated_normal",
    "uniform",
]

Sizes: TypeAlias = "Sequence[Any] | Size | None"
"""A shape, or that of the parameters."""

# ---- with operators of their own -------------------------------------------------------------


@building
def uniform(
    shape: Sizes = None,
    low: Operand = 0.0,
    high: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers that are equally likely everywhere in [low, high).

    Args:
        shape: Of the result: numbers or symbolic dimensions, as `[x.shape[0], 4]`; that of the
            parameters where it is not said.
        low: The smallest number; parameters may be variables, which broadcast to `shape` and
            have gradients.
        high: The bound above; not reached, but by rounding where it is a variable.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the operator or block, which draws from its name.

    Raises:
        DTypeError: `dtype` is no real floating dtype, or a parameter is complex.
        ShapeError: A size is not known, or parameters do not broadcast to `shape`.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 4])
        ...     print(br.random.uniform([x.shape[0], 2], -1.0, 1.0).type)
        f32[batch,2]
    """
    if fixed(low, high):
        attrs = {"shape": said(shape), "low": low, "high": high}
        return draw("random_uniform", name=name, dtype=dtype or "float32", **attrs)
    return _moved(
        "uniform", name, shape, dtype, lambda u: u, lambda g: (g["low"], g["high"] - g["low"]),
        low=low, high=high,
    )  # fmt: skip


@building
def normal(
    shape: Sizes = None,
    mean: Operand = 0.0,
    stddev: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Normally distributed numbers.

    Args:
        shape: Of the result; see `uniform`.
        mean: Where the density is largest; parameters as those of `uniform`.
        stddev: The standard deviation.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the operator or block, which draws from its name.
    """
    return _normal("random_normal", "normal", name, shape, dtype, mean, stddev)


@building
def truncated_normal(
    shape: Sizes = None,
    mean: Operand = 0.0,
    stddev: Operand = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Normally distributed numbers of which those far from the mean are left out.

    Args:
        shape: Of the result; see `uniform`.
        mean: Where the density is largest; parameters as those of `uniform`.
        stddev: The standard deviation before the cut.
        low: The bound below, in standard deviations from the mean.
        high: The bound above, likewise.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the operator or block, which draws from its name.
    """
    op, what = "random_truncated_normal", "truncated_normal"
    return _normal(op, what, name, shape, dtype, mean, stddev, low=low, high=high)


def _normal(
    op: str,
    what: str,
    name: str,
    shape: Sizes,
    dtype: object,
    mean: Any,
    stddev: Any,
    **cut: Any,
) -> Var:
    if fixed(mean, stddev):
        attrs = {"shape": said(shape), "mean": mean, "stddev": stddev, **cut}
        return draw(op, name=name, dtype=dtype or "float32", **attrs)

    def built() -> Var:
        given = Parameters(what, shape, dtype, mean=mean, stddev=stddev)
        noise = draw(op, shape=given.sizes, dtype=given.dtype, **cut)
        return given["mean"] + given["stddev"] * noise

    return composed(name or what, built)


def said(shape: Sizes) -> Shape:
    """The shape that a user says; that of one number where none is said."""
    return () if shape is None else sizes_of(shape)


def fixed(*parameters: Any) -> bool:
    """Whether parameters are single numbers, which operators have as attributes."""
    return not any(isinstance(given, Var) or np.ndim(given) for given in parameters)


# ---- by the inverse of the distribution function ---------------------------------------------


@building
def exponential(
    shape: Sizes = None, scale: Operand = 1.0, *, dtype: object = None, name: str = ""
) -> Var:
    """Exponentially distributed numbers: how long until something happens.

        density(x) = exp(-x / scale) / scale for x >= 0

    Args:
        shape: Of the result; see `uniform`.
        scale: The mean, above 0; one over the rate. Parameters as those of `uniform`.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `scale` is a number that is not above 0.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     rate = br.exp(br.data("x", ["batch"]))
        ...     print(br.random.exponential(scale=1.0 / rate).type)
        f32[batch]
    """
    check_numbers("exponential", 0, scale=scale)
    return _moved(
        "exponential", name, shape, dtype, lambda u: -ops.log1p(-u),
        lambda given: (None, given["scale"]), scale=scale,
    )  # fmt: skip


@building
def laplace(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers whose distance from `loc` is exponentially distributed.

        density(x) = exp(-|x - loc| / scale) / (2 scale)

    Args:
        shape: Of the result; see `uniform`.
        loc: The mean; parameters as those of `uniform`.
        scale: The mean distance from it, above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `scale` is a number that is not above 0.
    """

    def inverse(u: Var) -> Var:
        return ops.sign(u) * ops.log1p(-ops.abs(u))

    return _located(
        "laplace", name, shape, dtype, loc, scale, inverse, lambda info: info.epsneg - 1
    )


@building
def gumbel(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers as the largest of many; the larger of `logits + gumbel` follows softmax(logits).

        P(out <= x) = exp(-exp(-(x - loc) / scale))

    Args:
        shape: Of the result; see `uniform`.
        loc: Where the density is largest; parameters as those of `uniform`.
        scale: How far numbers spread, above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `scale` is a number that is not above 0.
    """

    def inverse(u: Var) -> Var:
        return -ops.log(-ops.log(u))

    return _located("gumbel", name, shape, dtype, loc, scale, inverse, _above_zero)


@building
def logistic(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers whose distribution function is a sigmoid.

        P(out <= x) = sigmoid((x - loc) / scale)

    Args:
        shape: Of the result; see `uniform`.
        loc: The mean; parameters as those of `uniform`.
        scale: How far numbers spread, above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `scale` is a number that is not above 0.
    """

    def inverse(u: Var) -> Var:
        return ops.log(u) - ops.log1p(-u)

    return _located("logistic", name, shape, dtype, loc, scale, inverse, _above_zero)


@building
def cauchy(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Numbers whose density falls so slowly that they have no mean.

        density(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))

    Args:
        shape: Of the result; see `uniform`.
        loc: The median; parameters as those of `uniform`.
        scale: Half of all are nearer to it than this; above 0.
        dtype: A real floating dtype; that of the parameters where it is not said.
        name: For the block, which draws from its name.

    Raises:
        ProgramError: `scale` is a number that is not above 0.
    """

    def inverse(u: Var) -> Var:
        return ops.tan(math.pi * (u - 0.5))

    return _located("cauchy", name, shape, dtype, loc, scale, inverse, lambda info: info.eps)


def _above_zero(info: np.finfo[Any]) -> Any:
    """The least number that has a logarithm, as exact as others."""
    return info.tiny


def _located(
    what: str,
    name: str,
    shape: Sizes,
    dtype: object,
    loc: Operand,
    scale: Operand,
    inverse: Callable[[Var], Var],
    low: Low,
) -> Var:
    """What is drawn, moved to a place and spread."""
    check_numbers(what, 0, scale=scale)
    return _moved(
        what, name, shape, dtype, inverse, lambda given: (given["loc"], given["scale"]),
        least=low, loc=loc, scale=scale,
    )  # fmt: skip


def _moved(
    what: str,
    name: str,
    shape: Sizes,
    dtype: object,
    inverse: Callable[[Var], Var],
    ends: Callable[[Parameters], tuple[Var | None, Var]],
    least: Low = lambda info: 0.0,
    **parameters: Operand,
) -> Var:
    """A block of what is made of numbers in [least, 1), stretched and moved."""

    def built() -> Var:
        given = Parameters(what, shape, dtype, **parameters)
        start, width = ends(given)
        drawn = width * given.noise(inverse, least)
        return drawn if start is None else start + drawn

    return composed(name or what, built)
