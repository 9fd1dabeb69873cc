"""Grids of coordinates, linear interpolation, rotations, membership tests."""

from __future__ import annotations

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import format_types, to_common_float
from braces.ops.common.rules import axis_index

__all__ = ["interp", "isin", "meshgrid", "rot90"]


@transactional
def meshgrid(*xs: Operand, indexing: str = "xy") -> list[Var]:
    """Coordinates of all grid points, from the coordinates along each axis.

        out[n][i_0, i_1, ...] = xs[n][i_n]

    Args:
        xs: any[n_0], any[n_1], …: the coordinates along each axis; a scalar is a single one.
        indexing: `"ij"`: the first axis belongs to the first coordinates. `"xy"`: the first
            two axes are swapped, as in an image, whose rows have the second coordinate. `"xy"`
            is the default of NumPy and the array API, `"ij"` that of torch.

    Returns:
        An array for each of `xs`, all of the same shape.

    Raises:
        ShapeError: If an operand has rank above 1.
        ProgramError: If `indexing` is unknown.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, y = br.meshgrid(br.arange(3), br.arange(2))
        ...     print(x.type, y.type)
        i64[2,3] i64[2,3]
    """
    if indexing not in ("xy", "ij"):
        raise ProgramError(
            f"unknown indexing {indexing!r:.40} of meshgrid.", fix="Use 'xy' or 'ij'."
        )
    coordinates = [as_var(x) for x in xs]
    for x in coordinates:
        if x.ndim > 1:
            raise ShapeError(
                "meshgrid: expected arrays of rank 0 or 1.", given=format_types({"x": x})
            )
    sizes: list[Size] = [x.shape[0] if x.ndim else 1 for x in coordinates]
    out_axes = list(range(len(coordinates)))
    if indexing == "xy" and len(coordinates) > 1:
        out_axes[:2] = 1, 0
    out_shape = [sizes[at] for at in out_axes]
    return [_broadcast_along(x, out_axes[n], out_shape) for n, x in enumerate(coordinates)]


def _broadcast_along(x: Var, axis: int, out_shape: list[Size]) -> Var:
    shape = [x.shape[0] if x.ndim and a == axis else 1 for a in range(len(out_shape))]
    return ops.broadcast_to(ops.reshape(x, shape), out_shape)


@transactional
def interp(
    x: Operand,
    xp: Operand,
    fp: Operand,
    left: Operand | None = None,
    right: Operand | None = None,
    period: float | None = None,
) -> Var:
    """Linear interpolation between the points of a table.

        out = fp[i] + (x - xp[i]) * (fp[i + 1] - fp[i]) / (xp[i + 1] - xp[i]),
        where xp[i] <= x <= xp[i + 1]

    Args:
        x: real[*shape]: the positions to evaluate.
        xp: real[n]: the positions of the points, in ascending order; in any order with a
            period.
        fp: real[n]: the values of the points.
        left: The value below `xp[0]`; `fp[0]` by default.
        right: The value above `xp[n - 1]`; `fp[n - 1]` by default.
        period: The period of the table.

    Returns:
        float[*shape]. Gradients go to `x`, with the slope of the line, and to both points.

    Raises:
        ShapeError: If `xp` and `fp` are not vectors of the same size, or are empty.
        DTypeError: If the dtype is complex.
        ProgramError: If the period is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.constant([0.5, 9.0])
        ...     y = br.signal.interp(x, [0.0, 1.0, 2.0], [0.0, 10.0, 30.0])
        >>> br.Executor().run(prog, br.Scope(), fetch=y).tolist()
        [5.0, 30.0]
    """
    positions, points, known = (as_var(operand) for operand in (x, xp, fp))
    shown = format_types({"x": positions, "xp": points, "fp": known})
    if points.ndim != 1 or known.ndim != 1 or not same_size(points.shape[0], known.shape[0]):
        raise ShapeError("interp: expected vectors xp and fp of equal size.", given=shown)
    if points.shape[0] == 0:
        raise ShapeError("interp: expected at least one point.", given=shown)
    positions, points, known = to_common_float("interp", x=positions, xp=points, fp=known)
    if period is not None and not period > 0:
        raise ProgramError(f"interp: expected a positive period, got {period!r:.40}.")

    def build() -> Var:
        if period is not None:
            return _interpolate(*_extend_period(positions, points, known, period))
        value_at = _interpolate(positions, points, known)
        for end, fill, beyond in ((0, left, ops.less), (-1, right, ops.greater)):
            end_value = known[end] if fill is None else fill
            value_at = ops.where(beyond(positions, points[end]), end_value, value_at)
        return value_at

    return compose_block("interp", build)


def _extend_period(x: Var, xp: Var, fp: Var, period: float) -> tuple[Var, Var, Var]:
    """Return a sorted table of one period, with one more point at either end."""
    x, xp = ops.remainder(x, period), ops.remainder(xp, period)
    order = ops.argsort(xp)
    xp, fp = (ops.take(array, order, axis=0) for array in (xp, fp))
    xp = _with_ends(xp[-1] - period, xp, xp[0] + period)
    return x, xp, _with_ends(fp[-1], fp, fp[0])


def _with_ends(first: Var, x: Var, last: Var) -> Var:
    return ops.concat(
        [ops.expand_dims(first, axis=0), x, ops.expand_dims(last, axis=0)], axis=0
    )


def _interpolate(x: Var, xp: Var, fp: Var) -> Var:
    """Interpolate linearly between the two points around each position."""
    last = ops.size(xp.shape[0]) - 1
    above = ops.minimum(ops.searchsorted(xp, x, side="right"), last)
    below = ops.maximum(above - 1, 0)
    x0, x1, f0, f1 = (ops.take(p, i, axis=0) for p in (xp, fp) for i in (below, above))
    wide = x1 - x0
    flat = ops.equal(wide, 0.0)
    share = (x - x0) / ops.where(flat, 1.0, wide)
    return ops.where(flat, f0, f0 + share * (f1 - f0))


# ---- rotations, membership -------------------------------------------------------------------


@transactional
def rot90(x: Operand, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Var:
    """Rotate an array by multiples of 90 degrees, from the first axis towards the second.

    Args:
        x: any[*shape].
        k: The number of rotations; negative numbers rotate in the other direction.
        axes: The two axes.

    Returns:
        any; the two sizes are swapped if `k` is odd.

    Raises:
        ShapeError: If an axis is out of range, or the two axes are equal.
    """
    var = as_var(x)
    first, second = (axis_index(axis, var.ndim, "rot90") for axis in axes)
    if first == second:
        raise ShapeError("rot90: expected two different axes.", given=f"axes={axes}")
    if k % 4 == 2:
        return ops.flip(var, axis=(first, second))
    if k % 2:
        flipped = ops.flip(var, axis=second if k % 4 == 1 else first)
        return ops.swapaxes(flipped, first, second)
    return var


@transactional
def isin(x: Operand, values: Operand, invert: bool = False) -> Var:
    """Test elements for membership in a set of values; NaN is never a member.

        out[i] = any of x[i] == values[k]

    Every element is compared with every value.

    Args:
        x: any[*shape].
        values: any, of any shape.
        invert: Whether to negate the result.

    Returns:
        bool[*shape].

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     known = br.isin(br.constant([1, 5, 2]), [2, 1])
        >>> br.Executor().run(prog, br.Scope(), fetch=known).tolist()
        [True, False, True]
    """
    var = as_var(x)
    flat = ops.reshape(as_var(values, var.dtype), (-1,))
    is_member = ops.any(ops.equal(ops.expand_dims(var, axis=-1), flat), axis=-1)
    return ops.logical_not(is_member) if invert else is_member
