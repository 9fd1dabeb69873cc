"""Layers with noise in training, without it in programs for testing."""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.random_state import draw
from braces.frontend.random import normal, uniform
from braces.ops.common.rules import axis_indices, float_dtype

LOWEST = -1.7580993408473766
"""The limit of SELU at minus infinity."""


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
        ProgramError: If `rate` is not between 0 and 1.
        ShapeError: If a shared axis is out of range.

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


@transactional
def alpha_dropout(
    x: Any, rate: float, *, shared_axes: int | tuple[int, ...] = (), name: str | None = None
) -> Var:
    """Alpha dropout: dropped elements become the lower limit of `selu`; mean and variance stay.

        out = a * (x with probability 1 - rate, else low) + b
        low = -1.7581   a = ((1 - rate) * (1 + rate * low^2))^(-1/2)   b = -a * rate * low

    Mean 0 and variance 1 are preserved; `prog.for_test()` drops nothing. Source: Klambauer,
    Unterthiner, Mayr, Hochreiter, Self-Normalizing Neural Networks, 2017.

    Args:
        x: float[*shape].
        rate: The probability of dropping, from 0 to less than 1.
        shared_axes: Axes along which elements share the dropout decision; see `dropout`.
        name: The name of the block.

    Raises:
        DTypeError: If `x` is not of a floating dtype.
        ProgramError: If `rate` is out of range.
        ShapeError: If a shared axis is out of range.
    """
    what = "alpha_dropout"
    x, rate = check_floats(what, x), _check_rate(what, rate)
    scale = ((1 - rate) * (1 + rate * LOWEST**2)) ** -0.5

    def build() -> Var:
        is_kept = dropout(shared_ones(what, x, shared_axes), rate) > 0.0
        dropped = ops.where(is_kept, x, LOWEST)
        return ops.in_training(x, dropped * scale - scale * rate * LOWEST)

    return compose_block(name or what, build)


@transactional
def gaussian_dropout(
    x: Any, rate: float, *, shared_axes: int | tuple[int, ...] = (), name: str | None = None
) -> Var:
    """Gaussian dropout: factors with mean 1 and the variance of `dropout`.

        out = x * (1 + sqrt(rate / (1 - rate)) * n)      n: normal numbers

    `prog.for_test()` leaves `x` as it is. Source: Srivastava et al., Dropout, 2014, section 10.

    Args:
        x: float[*shape].
        rate: The dropout rate, from 0 to less than 1.
        shared_axes: Axes along which elements share a factor; see `dropout`.
        name: The name of the block.

    Raises:
        DTypeError: If `x` is not of a floating dtype.
        ProgramError: If `rate` is out of range.
        ShapeError: If a shared axis is out of range.
    """
    what = "gaussian_dropout"
    x, rate = check_floats(what, x), _check_rate(what, rate)
    deviation = (rate / (1 - rate)) ** 0.5

    def build() -> Var:
        template = shared_ones(what, x, shared_axes)
        return ops.in_training(x, x * normal(template.shape, 1.0, deviation, dtype=x.dtype))

    return compose_block(name or what, build)


@transactional
def gaussian_noise(x: Any, scale: float, *, name: str | None = None) -> Var:
    """Add normal noise.

        out = x + scale * n      n: normal numbers

    `prog.for_test()` adds nothing.

    Args:
        x: float[*shape].
        scale: Standard deviation of the noise.
        name: The name of the block.

    Raises:
        DTypeError: If `x` is not of a floating dtype.
    """
    x = check_floats("gaussian_noise", x)

    def build() -> Var:
        return ops.in_training(x, x + normal(x.shape, 0.0, scale, dtype=x.dtype))

    return compose_block(name or "gaussian_noise", build)


@transactional
def rrelu(x: Any, low: float = 1 / 8, high: float = 1 / 3, *, name: str | None = None) -> Var:
    """Randomized leaky ReLU: a random slope for each negative number.

        out = x where x >= 0, slope * x elsewhere

    Slopes are uniform between `low` and `high`; `prog.for_test()` uses their mean.
    Source: Xu, Wang, Chen, Li, Empirical Evaluation of Rectified Activations, 2015.

    Args:
        x: float[*shape].
        low: The smallest slope.
        high: The largest slope.
        name: The name of the block.

    Raises:
        DTypeError: If `x` is not of a floating dtype.
        ProgramError: If `low` is above `high`.
    """
    x = check_floats("rrelu", x)
    if not low <= high:
        raise ProgramError(f"rrelu: expected low <= high, got {low!r:.40} and {high!r:.40}.")

    def build() -> Var:
        middle = ops.full_like(x, (low + high) / 2)
        slope = ops.in_training(middle, uniform(x.shape, low, high, dtype=x.dtype))
        return ops.where(x >= 0, x, slope * x)

    return compose_block(name or "rrelu", build)


def _check_rate(what: str, rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise ProgramError(f"{what}: expected a rate in [0, 1), got {rate!r:.40}.")
    return float(rate)
