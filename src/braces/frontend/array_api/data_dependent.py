"""Functions with a data-dependent output size: `nonzero`, `compress`, `unique`, `as_size`.

The size is a dimension with a new name. Compiled code has a capacity of a power of two,
and masks the padding out of all results. Where that is impossible, and for `as_size`, the
program is compiled once for each size that occurs. These functions are refused in loops, where
the size would differ between iterations.
"""

from __future__ import annotations

from typing import NamedTuple

from braces.builder.append import apply, emit
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.errors import DTypeError, ShapeError
from braces.frontend.control.construct import new_dim
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.random_state import as_shape
from braces.ops.common.rules import axis_index

__all__ = ["as_size", "compress", "nonzero", "unique"]


class Unique(NamedTuple):
    """Results of `unique`, named as in the array API.

    Attributes:
        values: The unique slices.
        indices: The index of the first occurrence of each.
        inverse_indices: The index of each slice in `values`.
        counts: The number of occurrences of each.
    """

    values: Var
    indices: Var
    inverse_indices: Var
    counts: Var


def _size(size: Size | str | None, stem: str) -> Size:
    """Return the dimension that a user names, or a new one."""
    if size is None:
        return new_dim(current_program().current, stem)
    return as_shape((size,))[0]


@transactional
def as_size(x: Var, name: str | None = None) -> Dim:
    """Use a computed integer as a data-dependent size.

    Args:
        x: A non-negative integer scalar.
        name: The name of the size in shapes; a new name by default.

    Returns:
        A dimension for use in shapes, as in `br.zeros([br.as_size(n), 4])`.

    Raises:
        ShapeError: If `x` is not a scalar; or, at run time, it is negative or too large.
        DTypeError: If `x` is not an integer.
        ProgramError: If the call is in a loop, where the size would differ between iterations.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     n = br.data("n", [], dtype="int64")
        ...     steps = br.arange(br.as_size(n, "steps"))
        >>> print(steps.type, br.Executor().run(prog, br.Scope(), feed={"n": 3}, fetch=steps))
        i64[steps] [0 1 2]
    """
    checked = emit("countable", operand(x, "as_size"))
    size = _size(name, "size")
    emit("as_size", checked, size=size)
    assert isinstance(size, Dim)
    return size


@transactional
def nonzero(x: Var, size: Size | str | None = None) -> tuple[Var, ...]:
    """Return the indices of nonzero elements in order: one index array for each axis.

    Args:
        x: Numbers or bools, with one axis or more.
        size: The name of the number of indices in shapes. If it is a number, the result is
            truncated to it, or padded with copies of the first index.

    Raises:
        ShapeError: If `x` is a scalar.
        ProgramError: If the call is in a loop, where the size would differ between iterations.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["b"])
        ...     (places,) = br.nonzero(x > 0.0, "found")
        >>> feed = {"x": [1.0, -1.0, 2.0]}
        >>> print(places.type, br.Executor().run(prog, br.Scope(), feed=feed, fetch=places))
        i64[found] [0 2]
    """
    inputs = {"x": (operand(x, "nonzero"),)}
    return apply("nonzero", inputs, {"count": _size(size, "found")})["out"]


@transactional
def compress(
    condition: Var, x: Var, axis: int | None = None, size: Size | str | None = None
) -> Var:
    """Select the slices of an array along one axis for which a condition holds.

    Args:
        condition: bool[n]; slices beyond index n are dropped.
        x: The array.
        axis: The axis; by default `x` is flattened.
        size: The name of the number of slices in shapes.

    Raises:
        ShapeError: If the rank of the condition is not 1, or the axis is out of range.
        DTypeError: If the condition is not bool.
        ProgramError: If the call is in a loop, where the size would differ between iterations.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["b", 2])
        ...     rows = br.compress(x[:, 0] > 0.0, x, axis=0)
        >>> feed = {"x": [[1.0, 2.0], [-1.0, 3.0]]}
        >>> br.Executor().run(prog, br.Scope(), feed=feed, fetch=rows)
        array([[1., 2.]], dtype=float32)
    """
    mask = operand(condition, "compress")
    if mask.dtype.kind != "b":
        raise DTypeError(
            f"compress: expected a bool condition, got {mask.type}.",
            fix="Compare first: `x != 0`. The condition comes before the array.",
        )
    if mask.ndim != 1:
        raise ShapeError(
            f"compress: expected a condition of rank 1, got {mask.type}.",
            fix="Use br.nonzero(condition) and br.gather_nd for several axes.",
        )
    (places,) = nonzero(mask, size)
    return emit("take", operand(x, "compress"), places, axis=axis)


@transactional
def unique(
    x: Var, axis: int | None = None, sorted: bool = True, size: Size | str | None = None
) -> Unique:
    """Return the unique slices of an array, with first indices, inverse indices and counts.

    Args:
        x: Real numbers or bools; all NaN are equal.
        axis: The axis of the slices; by default the elements of the flattened `x`.
        sorted: Whether they are sorted, instead of in order of first occurrence.
        size: The name of their number in shapes.

    Raises:
        ShapeError: If the axis is out of range.
        DTypeError: If the dtype is complex.
        ProgramError: If the call is in a loop, where the size would differ between iterations.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.unique(br.data("x", ["b"], dtype="int64"))
        >>> feed = {"x": [3, 1, 3]}
        >>> [a.tolist() for a in br.Executor().run(prog, br.Scope(), feed=feed, fetch=found)]
        [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    var = operand(x, "unique")
    var = emit("reshape", var, shape=(-1,)) if axis is None else var
    at = axis_index(axis or 0, var.ndim, "unique")
    outputs = apply("unique_places", {"x": (var,)}, {"axis": at, "sorted": sorted})
    (places,), (first,), (inverse,), (counts,) = outputs.values()
    (selected,) = nonzero(first, size)
    indices, repeats = (emit("take", firsts, selected, axis=0) for firsts in (places, counts))
    return Unique(emit("take", var, indices, axis=at), indices, inverse, repeats)
