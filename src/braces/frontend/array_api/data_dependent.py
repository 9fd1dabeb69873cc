"""What is found in values, so that only a run tells how much there is of it.

Its size is a dimension with a name of its own. Compiled, there is room for a power of two of
what is found, and what lies beyond is left out of all results; where that cannot be done, and
for `as_size`, each size that occurs is compiled once. A loop, whose trips would find different
numbers of things, has none of this.
"""

from __future__ import annotations

from typing import NamedTuple

from braces.builder.append import apply, one
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.errors import DTypeError, ShapeError
from braces.frontend.control.construct import new_dim
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.random_state import sizes_of
from braces.ops.common.rules import axis_index

__all__ = ["as_size", "compress", "nonzero", "unique"]


class Unique(NamedTuple):
    """What `unique` gives, as the array API calls it.

    Attributes:
        values: Each slice that occurs, once.
        indices: Where it occurs first.
        inverse_indices: Which of them each slice is.
        counts: How often it occurs.
    """

    values: Var
    indices: Var
    inverse_indices: Var
    counts: Var


def _size(size: Size | str | None, stem: str) -> Size:
    """The dimension that a user names, or one of its own."""
    if size is None:
        return new_dim(current_program().current, stem)
    return sizes_of((size,))[0]


@building
def as_size(x: Var, name: str | None = None) -> Dim:
    """A number that a run computes, as the size of axes.

    Args:
        x: An integer without axes, which is not negative.
        name: What the size is called in shapes; a new name where it is not said.

    Returns:
        What stands in shapes, as in `br.zeros([br.as_size(n), 4])`.

    Raises:
        ShapeError: It has axes; in a run, it is negative, or far too large.
        DTypeError: It is no integer.
        ProgramError: It is in a loop, each trip of which would have another.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     n = br.data("n", [], dtype="int64")
        ...     steps = br.arange(br.as_size(n, "steps"))
        >>> print(steps.type, br.Executor().run(prog, br.Scope(), feed={"n": 3}, fetch=steps))
        i64[steps] [0 1 2]
    """
    checked = one("countable", operand(x, "as_size"))
    size = _size(name, "size")
    one("as_size", checked, size=size)
    assert isinstance(size, Dim)
    return size


@building
def nonzero(x: Var, size: Size | str | None = None) -> tuple[Var, ...]:
    """The places of the numbers that are not zero, in order: an index for each axis.

    Args:
        x: Numbers or bools, with one axis or more.
        size: What the number of places is called in shapes. Where it is a number, there are
            the first so many, and copies of the first where there are fewer.

    Raises:
        ShapeError: It has no axes.
        ProgramError: It is in a loop, each trip of which would find another number.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["b"])
        ...     (places,) = br.nonzero(x > 0.0, "found")
        >>> feed = {"x": [1.0, -1.0, 2.0]}
        >>> print(places.type, br.Executor().run(prog, br.Scope(), feed=feed, fetch=places))
        i64[found] [0 2]
    """
    found = {"x": (operand(x, "nonzero"),)}
    return apply("nonzero", found, {"count": _size(size, "found")})["out"]


@building
def compress(
    condition: Var, x: Var, axis: int | None = None, size: Size | str | None = None
) -> Var:
    """The slices of an array along one axis for which a condition holds.

    Args:
        condition: bool[n]; the slices beyond it are left out.
        x: The array.
        axis: The axis; by default `x` is taken as flat.
        size: What the number of slices is called in shapes.

    Raises:
        ShapeError: The condition has not one axis, or there is no such axis.
        DTypeError: The condition is no bools.
        ProgramError: It is in a loop, each trip of which would find another number.

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
            f"compress needs a condition of bools, not {mask.type}.",
            fix="Compare first: `x != 0`. The condition comes before the array.",
        )
    if mask.ndim != 1:
        raise ShapeError(
            f"compress needs a condition with one axis, not {mask.type}.",
            fix="Use br.nonzero(condition) and br.gather_nd for several axes.",
        )
    (places,) = nonzero(mask, size)
    return one("take", operand(x, "compress"), places, axis=axis)


@building
def unique(
    x: Var, axis: int | None = None, sorted: bool = True, size: Size | str | None = None
) -> Unique:
    """The slices of an array that occur, each once, and where and how often they do.

    Args:
        x: Real numbers or bools; a NaN is as another one.
        axis: The axis of the slices; by default the numbers of `x` taken as flat.
        sorted: Whether they are in order, and not as they appear.
        size: What their number is called in shapes.

    Raises:
        ShapeError: There is no such axis.
        DTypeError: Complex numbers.
        ProgramError: It is in a loop, each trip of which would find another number.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.unique(br.data("x", ["b"], dtype="int64"))
        >>> feed = {"x": [3, 1, 3]}
        >>> [a.tolist() for a in br.Executor().run(prog, br.Scope(), feed=feed, fetch=found)]
        [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    whole = operand(x, "unique")
    whole = one("reshape", whole, shape=(-1,)) if axis is None else whole
    at = axis_index(axis or 0, whole.ndim, "unique")
    made = apply("unique_places", {"x": (whole,)}, {"axis": at, "sorted": sorted})
    (places,), (first,), (inverse,), (counts,) = made.values()
    (chosen,) = nonzero(first, size)
    indices, times = (one("take", found, chosen, axis=0) for found in (places, counts))
    return Unique(one("take", whole, indices, axis=at), indices, inverse, times)
