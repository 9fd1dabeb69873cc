"""Draws of real numbers; parameters may be variables, to which gradients flow.

They are computed from uniform numbers in [0, 1) by the inverse of the distribution function, or
are operators themselves.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.builder.var import Operand, Var
from braces.dims import Shape, Size
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import (
    DistributionParameters,
    Low,
    as_shape,
    check_numbers,
    draw,
)
from braces.frontend.random.argument_order import draw_function

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
"""A shape, or `None` for that of the parameters."""

# ---- operators -------------------------------------------------------------------------------


@draw_function
def uniform(
    shape: Sizes = None,
    low: Operand = 0.0,
    high: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Uniform numbers in [low, high).

    Args:
        shape: The shape of the result: numbers or symbolic dimensions, as `[x.shape[0], 4]`; by
            default that of the parameters.
        low: The lower bound. Parameters may be variables, which broadcast to `shape` and have
            gradients.
        high: The upper bound, excluded (except by rounding if it is a variable).
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the operator or block, which determines its random bits.

    Raises:
        DTypeError: If `dtype` is not a real floating dtype, or a parameter is complex.
        ShapeError: If a size is unknown, or parameters do not broadcast to `shape`.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 4])
        ...     print(br.random.uniform([x.shape[0], 2], -1.0, 1.0).type)
        f32[batch,2]
    """
    if are_fixed_numbers(low, high):
        attrs = {"shape": shape_or_scalar(shape), "low": low, "high": high}
        return draw("random_uniform", name=name, dtype=dtype or "float32", **attrs)
    return _draw_transformed(
        "uniform", name, shape, dtype, lambda u: u, lambda g: (g["low"], g["high"] - g["low"]),
        low=low, high=high,
    )  # fmt: skip


@draw_function
def normal(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Normal (Gaussian) numbers.

    Args:
        shape: The shape of the result; see `uniform`.
        loc: The mean; parameters as for `uniform`.
        scale: The standard deviation.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the operator or block, which determines its random bits.
    """
    return _normal("random_normal", "normal", name, shape, dtype, loc, scale)


@draw_function
def truncated_normal(
    shape: Sizes = None,
    loc: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: object = None,
    name: str = "",
) -> Var:
    """Normal numbers, truncated to an interval around the mean.

    Args:
        shape: The shape of the result; see `uniform`.
        loc: The mean before truncation; parameters as for `uniform`.
        scale: The standard deviation before truncation.
        low: The lower bound, in standard deviations from the mean.
        high: The upper bound, likewise.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the operator or block, which determines its random bits.
    """
    op, what = "random_truncated_normal", "truncated_normal"
    return _normal(op, what, name, shape, dtype, loc, scale, low=low, high=high)


def _normal(
    op: str,
    what: str,
    name: str,
    shape: Sizes,
    dtype: object,
    loc: Any,
    scale: Any,
    **bounds: Any,
) -> Var:
    if are_fixed_numbers(loc, scale):
        attrs = {"shape": shape_or_scalar(shape), "mean": loc, "stddev": scale, **bounds}
        return draw(op, name=name, dtype=dtype or "float32", **attrs)

    def build() -> Var:
        params = DistributionParameters(what, shape, dtype, loc=loc, scale=scale)
        noise = draw(op, shape=params.sizes, dtype=params.dtype, **bounds)
        return params["loc"] + params["scale"] * noise

    return compose_block(name or what, build)


def shape_or_scalar(shape: Sizes) -> Shape:
    """Return the given shape; that of one number by default."""
    return () if shape is None else as_shape(shape)


def are_fixed_numbers(*parameters: Any) -> bool:
    """Return whether parameters are single numbers, which become attributes of operators."""
    return not any(isinstance(parameter, Var) or np.ndim(parameter) for parameter in parameters)


# ---- by the inverse of the distribution function ---------------------------------------------


@draw_function
def exponential(
    shape: Sizes = None, scale: Operand = 1.0, *, dtype: object = None, name: str = ""
) -> Var:
    """Exponential numbers: waiting times until an event.

        density(x) = exp(-x / scale) / scale for x >= 0

    Args:
        shape: The shape of the result; see `uniform`.
        scale: The mean, above 0; one over the rate. Parameters as for `uniform`.
        dtype: A real floating dtype; by default that of the parameters.
        name: The name of the block, which determines its random bits.

    Raises:
        ProgramError: If `scale` is a number that is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     rate = br.exp(br.data("x", ["batch"]))
        ...     print(br.random.exponential(scale=1.0 / rate).type)
        f32[batch]
    """
    check_numbers("exponential", 0, scale=scale)
    return _draw_transformed(
        "exponential", name, shape, dtype, lambda u: -ops.log1p(-u),
        lambda params: (None, params["scale"]), scale=scale,
    )  # fmt: skip


def _location_scale(low: Low, *, loc: str, scale: str):
    """Declare draws of a location-scale family by the inverse of its distribution function.

    The docstring of the inverse is a summary and a formula.

    Args:
        low: The least uniform number that the inverse takes.
        loc: Description of the parameter.
        scale: Description of the parameter.
    """
    texts = {"of_loc": loc, "of_scale": scale}

    def declare(inverse: Callable[[Var], Var]):
        what = inverse.__name__

        def sample(
            shape: Sizes = None, loc: Operand = 0.0, scale: Operand = 1.0, *,
            dtype: object = None, name: str = "",
        ) -> Var:  # fmt: skip
            check_numbers(what, 0, scale=scale)
            return _draw_transformed(
                what, name, shape, dtype, inverse, lambda g: (g["loc"], g["scale"]),
                least=low, loc=loc, scale=scale,
            )  # fmt: skip

        sample.__name__ = sample.__qualname__ = what
        summary, formula = (inspect.getdoc(inverse) or "").split("\n\n")
        sample.__doc__ = DOCSTRING.format(summary=summary, formula=formula, **texts)
        return draw_function(sample)

    return declare


DOCSTRING = """{summary}

    {formula}

Args:
    shape: The shape of the result; see `uniform`.
    loc: {of_loc}; parameters as for `uniform`.
    scale: {of_scale}, above 0.
    dtype: A real floating dtype; by default that of the parameters.
    name: The name of the block, which determines its random bits.

Raises:
    ProgramError: `scale` is a number that is not above 0.
"""


def _least_normal(info: np.finfo[Any]) -> Any:
    """Return the least number with an accurate logarithm."""
    return info.tiny


@_location_scale(
    lambda info: info.epsneg - 1, loc="The mean", scale="The mean distance from `loc`"
)
def laplace(u: Var) -> Var:
    """Laplace numbers: their distance from `loc` is exponentially distributed.

    density(x) = exp(-|x - loc| / scale) / (2 scale)
    """
    return ops.sign(u) * ops.log1p(-ops.abs(u))


@_location_scale(_least_normal, loc="The mode", scale="The scale")
def gumbel(u: Var) -> Var:
    """Gumbel numbers, limits of maxima; argmax of `logits + gumbel` follows softmax(logits).

    P(out <= x) = exp(-exp(-(x - loc) / scale))
    """
    return -ops.log(-ops.log(u))


@_location_scale(_least_normal, loc="The mean", scale="The scale")
def logistic(u: Var) -> Var:
    """Logistic numbers: their distribution function is a sigmoid.

    P(out <= x) = sigmoid((x - loc) / scale)
    """
    return ops.log(u) - ops.log1p(-u)


@_location_scale(
    lambda info: info.eps, loc="The median", scale="The median distance from `loc`"
)
def cauchy(u: Var) -> Var:
    """Cauchy numbers: heavy tails, without a mean.

    density(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))
    """
    return ops.tan(math.pi * (u - 0.5))


def _draw_transformed(
    what: str,
    name: str,
    shape: Sizes,
    dtype: object,
    inverse: Callable[[Var], Var],
    ends: Callable[[DistributionParameters], tuple[Var | None, Var]],
    least: Low = lambda info: 0.0,
    **parameters: Operand,
) -> Var:
    """Append a block of transformed uniform numbers in [least, 1), scaled and shifted."""

    def build() -> Var:
        params = DistributionParameters(what, shape, dtype, **parameters)
        start, width = ends(params)
        draws = width * params.noise(inverse, least)
        return draws if start is None else start + draws

    return compose_block(name or what, build)
