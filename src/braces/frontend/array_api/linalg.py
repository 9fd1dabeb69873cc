"""Tensor contractions, products of vectors and matrices, diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.dims import Size, call
from braces.errors import ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.public_names import arange
from braces.frontend.losses.reduction import format_types
from braces.ops.common.rules import axis_index

__all__ = [
    "cross",
    "diagonal",
    "inner",
    "kron",
    "matrix_power",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
]

Pairs: TypeAlias = "int | tuple[int | Sequence[int], int | Sequence[int]]"
"""The number of contracted axes, or the axes of both operands."""

# ---- products --------------------------------------------------------------------------------


@transactional
def tensordot(x: Operand, y: Operand, axes: Pairs = 2) -> Var:
    """Contract two tensors over axes of both.

        out[i, j] = sum_k x[i, k] * y[k, j], where i, j and k stand for several axes

    Args:
        x: number[*shape].
        y: number[*shape].
        axes: Their number: the last axes of `x` and the first of `y`; or a pair of axes of `x`
            and axes of `y`, as `([0, 1], [2, 0])`.

    Returns:
        number: the remaining axes of `x`, then those of `y`, in the promoted dtype.

    Raises:
        ShapeError: If the contracted sizes differ, or an axis is out of range.
        DTypeError: If both operands are bool.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, y = br.data("x", ["b", 3, 4]), br.data("y", [4, 5, 3])
        ...     print(br.tensordot(x, y, axes=([1, 2], [2, 0])).type)
        f32[b,5]
    """
    if isinstance(axes, int):
        return emit("tensordot", x, y, axes=axes)
    left, right = as_var(x), as_var(y)
    chosen = [
        [axis_index(axis, var.ndim, "tensordot") for axis in _as_axes(own_axes)]
        for var, own_axes in zip((left, right), axes, strict=True)
    ]
    if len(chosen[0]) != len(chosen[1]) or any(
        len({*axes_of_var}) != len(axes_of_var) for axes_of_var in chosen
    ):
        raise ShapeError(
            "tensordot: expected equally many axes of both operands, without duplicates.",
            given=f"axes={axes!r:.60}",
        )
    free = [
        [axis for axis in range(var.ndim) if axis not in axes_of_var]
        for var, axes_of_var in zip((left, right), chosen, strict=True)
    ]
    count = len(chosen[0])
    transposed = (
        ops.transpose(left, free[0] + chosen[0]),
        ops.transpose(right, chosen[1] + free[1]),
    )
    return emit("tensordot", *transposed, axes=count)


def _as_axes(axes: int | Sequence[int]) -> Sequence[int]:
    return [axes] if isinstance(axes, int) else axes


@transactional
def inner(x: Operand, y: Operand) -> Var:
    """Inner product of two tensors over the last axis of both; a scalar multiplies.

        out[*i, *j] = sum_k x[*i, k] * y[*j, k]

    Args:
        x: number[*left, k] or number[].
        y: number[*right, k] or number[].

    Returns:
        number[*left, *right] in the promoted dtype.

    Raises:
        ShapeError: If the sizes of the last axes differ.
        DTypeError: If both operands are bool.
    """
    left, right = as_var(x), as_var(y)
    if not left.ndim or not right.ndim:
        return ops.multiply(left, right)
    if not same_size(left.shape[-1], right.shape[-1]):
        raise ShapeError(
            "shape mismatch in inner: the last axes have different sizes.",
            given=format_types({"x": left, "y": right}),
        )
    return tensordot(left, right, ((-1,), (-1,)))


@transactional
def vecdot(x: Operand, y: Operand, axis: int = -1) -> Var:
    """Inner products of vectors along one axis; a complex first operand is conjugated.

        out = sum_k conj(x[..., k, ...]) * y[..., k, ...]

    Args:
        x: number[*shape].
        y: number[*shape], broadcast against `x`.
        axis: The axis of the vectors; negative counts from the end.

    Returns:
        number[*rest] in the dtype of `sum` for the promoted dtype.

    Raises:
        ShapeError: If the shapes do not broadcast, or the axis is out of range.
    """
    return ops.sum(ops.multiply(_conjugate(as_var(x)), y), axis=axis)


@transactional
def vdot(x: Operand, y: Operand) -> Var:
    """Inner product of two flattened arrays; a complex first operand is conjugated.

        out = sum_i conj(x[i]) * y[i], over all elements

    Args:
        x: number[*shape].
        y: number, with as many elements.

    Returns:
        number[] in the promoted dtype.

    Raises:
        ShapeError: If the numbers of elements differ.
    """
    left, right = (ops.reshape(as_var(operand), (-1,)) for operand in (x, y))
    return ops.matmul(_conjugate(left), right)


def _conjugate(x: Var) -> Var:
    return ops.conj(x) if x.dtype.kind == "c" else x


@transactional
def cross(x: Operand, y: Operand, axis: int = -1) -> Var:
    """Cross products of vectors with three elements.

        out[0] = x[1] * y[2] - x[2] * y[1], and so on around

    Args:
        x: number[..., 3, ...].
        y: number[..., 3, ...], broadcast against `x`.
        axis: The axis of the vectors in both; negative counts from the end.

    Returns:
        number, the common shape, in the promoted dtype.

    Raises:
        ShapeError: If the axis does not have size 3, or shapes do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     z = br.linalg.cross(br.constant([1.0, 0.0, 0.0]), br.constant([0.0, 1.0, 0.0]))
        >>> br.Executor().run(prog, br.Scope(), fetch=z).tolist()
        [0.0, 0.0, 1.0]
    """
    left, right = as_var(x), as_var(y)
    for var in (left, right):
        if var.shape[axis_index(axis, var.ndim, "cross")] != 3:
            raise ShapeError(
                "cross: expected an axis of size 3.",
                given=format_types({"x": left, "y": right}),
                fix="Name the axis: axis=.",
            )

    def rolled(var: Var, places: int) -> Var:
        return ops.roll(var, -places, axis=axis)

    return compose_block(
        "cross",
        lambda: rolled(left, 1) * rolled(right, 2) - rolled(left, 2) * rolled(right, 1),
    )


@transactional
def kron(x: Operand, y: Operand) -> Var:
    """Kronecker product: each element of one array times the whole other array.

        out[i * p + k, j * q + l] = x[i, j] * y[k, l], with y of p by q

    Args:
        x: number[*shape].
        y: number[*shape]; the operand with fewer axes gets leading axes of size 1.

    Returns:
        number, the product of both sizes on each axis, in the promoted dtype.
    """
    left, right = as_var(x), as_var(y)
    rank = max(left.ndim, right.ndim)
    shapes = [(1,) * (rank - var.ndim) + tuple(var.shape) for var in (left, right)]
    # Interleave the axes of both operands, then merge each pair.
    interleaved = [
        ops.reshape(var, [size for n in shape for size in ((n, 1), (1, n))[at]])
        for at, (var, shape) in enumerate(zip((left, right), shapes, strict=True))
    ]
    out_shape: list[Size] = [a * b for a, b in zip(*shapes, strict=True)]
    return ops.reshape(ops.multiply(*interleaved), out_shape)


@transactional
def matrix_power(x: Operand, n: int) -> Var:
    """Integer powers of square matrices, by repeated squaring.

        out = x @ x @ ... @ x, n times; the inverse of that for negative n, the identity for 0

    Args:
        x: number[*shape, m, m]; real if n is negative.
        n: The exponent.

    Returns:
        number[*shape, m, m].

    Raises:
        ShapeError: If `x` does not consist of square matrices.
    """
    base = check_matrices("matrix_power", x)
    if base.shape[-1] != base.shape[-2]:
        raise ShapeError(
            "matrix_power: expected square matrices.", given=format_types({"x": base})
        )
    if n == 0:
        unit = ops.eye(base.shape[-1], dtype=base.dtype)
        return ops.broadcast_to(unit, base.shape)

    def build() -> Var:
        square, power, exponent = ops.inv(base) if n < 0 else base, None, abs(n)
        while True:
            if exponent % 2:
                power = square if power is None else ops.matmul(power, square)
            exponent //= 2
            if not exponent:
                assert power is not None
                return power
            square = ops.matmul(square, square)

    return base if n == 1 else compose_block("matrix_power", build)


def check_matrices(what: str, x: Any) -> Var:
    """Check that an operand has at least two axes: matrices, with batch axes before them.

    Raises:
        ShapeError: If the operand has rank below 2.
    """
    var = as_var(x)
    if var.ndim < 2:
        raise ShapeError(
            f"{what}: expected rank 2 or more, got {var.ndim}.", given=format_types({"x": var})
        )
    return var


# ---- diagonals -------------------------------------------------------------------------------


@transactional
def diagonal(x: Operand, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Var:
    """The diagonals of matrices, on the last axis.

        out[..., i] = x[..., i, i + offset]

    Args:
        x: any[*shape].
        offset: The offset of the diagonal; positive offsets lie above the main diagonal.
        axis1: The axis of the rows. As in the array API, matrices are on the last two axes by
            default; `numpy.diagonal` and torch begin with the first two.
        axis2: The axis of the columns.

    Returns:
        any[*rest, k], where k is the length of the diagonal.

    Raises:
        ShapeError: If an axis is out of range, or the two axes are equal.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.linalg.diagonal(br.constant([[1, 2], [3, 4]]))
        >>> br.Executor().run(prog, br.Scope(), fetch=found).tolist()
        [1, 4]
    """
    return _diagonal("diagonal", x, offset, axis1, axis2)


@transactional
def trace(x: Operand, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Var:
    """The sum of a diagonal; see `diagonal`.

        out = sum_i x[..., i, i + offset]

    Args:
        x: number[*shape].
        offset: The offset of the diagonal.
        axis1: The axis of the rows.
        axis2: The axis of the columns.

    Returns:
        number[*rest], in the dtype of `sum`.

    Raises:
        ShapeError: If an axis is out of range, or the two axes are equal.
    """
    return ops.sum(_diagonal("trace", x, offset, axis1, axis2), axis=-1)


def _diagonal(what: str, x: Any, offset: int, axis1: int, axis2: int) -> Var:
    var = check_matrices(what, x)
    rows, columns = (axis_index(axis, var.ndim, what) for axis in (axis1, axis2))
    if rows == columns:
        raise ShapeError(
            f"{what}: expected two different axes.", given=f"axis1={axis1}   axis2={axis2}"
        )
    below = var.shape[rows] + min(offset, 0)
    beside = var.shape[columns] - max(offset, 0)
    indices = arange(call("max", call("min", below, beside), 0))
    front = ops.moveaxis(var, (rows, columns), (0, 1))
    diagonals = ops.gather_nd(front, [indices + max(-offset, 0), indices + max(offset, 0)])
    return diagonals if diagonals.ndim == 1 else ops.moveaxis(diagonals, 0, -1)
