"""Reductions of squares: variance, standard deviation and the Euclidean norm."""

from __future__ import annotations

from braces.define.axes.axis_rules import mixing_reduction
from braces.define.decorator import Axes, Tensor, op
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_function
from braces.ops.reduction.reduce import EMPTY, NOT_EMPTY, restore_axes


@op(
    axes=mixing_reduction,
    dtypes=real_function,
    operations=4,
    examples=(*NOT_EMPTY, "x=f32[4] correction=1.0"),
)
@in_float32
def var(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Tensor:
    """The variance along axes.

        out = sum_i (x[..., i, ...] - mean)^2 / (n - correction)

    16-bit numbers are summed in float32.

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.
        correction: 1 makes it the unbiased estimate from a sample.

    Outputs:
        out: float[*rest]; NaN where `n` is not above `correction`.
    """
    return jnp.var(as_floating(x), axis=axis, keepdims=keepdims, correction=correction)


@op(
    axes=mixing_reduction,
    dtypes=real_function,
    operations=4,
    examples=(*NOT_EMPTY, "x=f32[4] correction=1.0"),
)
@in_float32
def std(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Tensor:
    """The standard deviation along axes; the gradient is zero if all numbers are equal.

        out = sqrt(sum_i (x[..., i, ...] - mean)^2 / (n - correction))

    16-bit numbers are summed in float32.

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.
        correction: 1 makes it the square root of the unbiased estimate from a sample.

    Outputs:
        out: float[*rest]; NaN where `n` is not above `correction`.
    """
    return root(jnp.var(as_floating(x), axis=axis, keepdims=keepdims, correction=correction))


@op(axes={"x": 0}, dtypes=real_function, operations=2, examples=EMPTY)
@in_float32
def norm(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The Euclidean norm along axes; its gradient is zero where the norm is.

        out = sqrt(sum_i x[..., i, ...]^2)

    Squares of 16-bit numbers are summed in float32. As in NumPy and PyTorch, there is no other
    scaling: the norm is infinite if its square overflows (above 1e19 in float32), and zero if
    its square underflows. `br.hypot` avoids both for two numbers.
    """
    return root(jnp.sum(jnp.square(as_floating(x)), axis=axis, keepdims=keepdims))


@norm.vjp
@in_float32
def norm_vjp(
    x: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """x_grad = out_grad * x / norm(x), zero where the norm is."""
    # A 16-bit norm may be infinite or imprecise, so it is recomputed.
    length = root(jnp.sum(jnp.square(x), axis=axis, keepdims=True))
    zero = length == 0
    direction = jnp.where(zero, 0, x / jnp.where(zero, jnp.ones_like(length), length))
    return restore_axes(out_grad, axis, keepdims, x.ndim) * direction


def root(x: Tensor) -> Tensor:
    """Compute a square root whose derivative at zero is zero."""
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x), jnp.sqrt(jnp.where(zero, jnp.ones_like(x), x)))
