"""Attribute kinds: annotations of kernels, and conversion of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy as np

from braces.dims import Dim, Shape, Size
from braces.dtypes import dtype_of
from braces.errors import ProgramError, short_text
from braces.ir.records import Body, Literal

Axes: TypeAlias = "int | tuple[int, ...] | None"
Axis: TypeAlias = int
"""An axis of the first input, or of the output if that has a higher rank."""
Order: TypeAlias = "tuple[int, ...] | None"
"""A permutation of the axes of the first input; reversed by default."""
Padding: TypeAlias = "str | tuple[int, ...]"
Number: TypeAlias = float
"""A number to be converted to the dtype of an array; 64-bit integers are exact."""

SMALLEST_INT, LARGEST_INT, LARGEST_NATURAL = -(2**63), 2**63 - 1, 2**64 - 1
LARGEST_REAL = float(np.finfo(float).max)

Indices: TypeAlias = Annotated[Any, "Indices"]
"""An integer input: a Python integer stays an integer there, independent of other operands."""
Training: TypeAlias = Annotated[bool, "Training"]
"""Whether the operator is in training mode; false in the inference form of a program."""
History: TypeAlias = Annotated[str, "History"]
"""The loop whose iterations fill a list; lists of one history share a capacity."""
Capacity: TypeAlias = Annotated[int, "Capacity"]
"""The capacity of a list when compiled, set by the executor."""
Learned: TypeAlias = Annotated[Any, "Learned"]
"""A data-dependent size: a dimension in programs, a number in kernels."""
Roomy: TypeAlias = Annotated[bool, "Roomy"]
"""Whether a data-dependent size may be padded, with copies of the first row.

The executor sets it if nothing else reads the padding.
"""
Salt: TypeAlias = Annotated[int, "Salt"]
"""A number folded into the random key of a draw; each call of a block has its own."""

ROLES = {
    "Capacity": "int",
    "History": "str",
    "Learned": "Size",
    "Roomy": "bool",
    "Salt": "int",
    "Training": "bool",
}
"""Roles of attributes with a meaning for passes or the executor, and their kinds.

A role is annotated on the kernel and never derived from a name: `training: bool` is an ordinary
attribute, `training: Training` is set to false by the inference form.
"""


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"expected an integer, got {short_text(value)}")
    if not SMALLEST_INT <= value <= LARGEST_INT:
        raise ValueError(f"expected an integer from {SMALLEST_INT} to {LARGEST_INT}")
    return int(value)


def _real(value: Any) -> float:
    if isinstance(value, bool | str) or not np.isscalar(value) or np.iscomplexobj(value):
        raise TypeError(f"expected a real number, got {short_text(value)}")
    try:
        real = float(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        limits = f"from -{LARGEST_REAL} to {LARGEST_REAL}"
        raise ValueError(f"expected a number {limits}") from None
    if isinstance(value, int | np.integer) and _has_64_bits(real) > _has_64_bits(int(value)):
        # Rounding alone brings it into the range of a dtype of integers.
        raise ValueError(f"expected an integer from {SMALLEST_INT} to {LARGEST_NATURAL}")
    return real


def _number(value: Any) -> float:
    """Return a float, or a 64-bit integer that no float represents.

    Larger integers become floats out of the range of integer dtypes.
    """
    real = _real(value)
    exact = isinstance(value, int | np.integer) and _has_64_bits(int(value))
    return int(value) if exact and int(value) != real else real


def _has_64_bits(value: float) -> bool:
    return SMALLEST_INT <= value <= LARGEST_NATURAL


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"expected True or False, got {short_text(value)}")
    return bool(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {short_text(value)}")
    return value


def _size(value: Any) -> Size:
    if isinstance(value, str):
        return Dim.named(value)
    if isinstance(value, Dim):
        return value
    try:
        return _integer(value)
    except TypeError as error:
        raise TypeError(
            f"{error}; pass a size that is known before the run, like x.shape[0]"
        ) from None


def _shape(value: Any) -> Shape:
    return tuple(map(_size, value)) if isinstance(value, tuple | list) else (_size(value),)


def _integers(value: Any) -> tuple[int, ...]:
    return (
        tuple(map(_integer, value)) if isinstance(value, tuple | list) else (_integer(value),)
    )


def _axes(value: Any) -> Axes:
    return _integers(value) if isinstance(value, tuple | list) else _integer(value)


def _padding(value: Any) -> Padding:
    return value if isinstance(value, str) else _integers(value)


def _literal(value: Any) -> Literal:
    return value if isinstance(value, Literal) else Literal.of(np.asarray(value))


def _body(value: Any) -> Body:
    if not isinstance(value, Body):
        raise TypeError("expected a block")
    return value


def _bodies(value: Any) -> tuple[Body, ...]:
    return tuple(map(_body, value))


KINDS: dict[str, Callable[[Any], Any]] = {
    "bool": _boolean,
    "int": _integer,
    "float": _real,
    "Number": _number,
    "str": _string,
    "DType": dtype_of,
    "Size": _size,
    "Shape": _shape,
    "tuple[int, ...]": _integers,
    "Axis": _integer,
    "Axes": _axes,
    "tuple[Axis, ...]": _integers,
    "Order": _integers,
    "Padding": _padding,
    "Literal": _literal,
    "Body": _body,
    "Bodies": _bodies,
}


def _shift_axis(axis: int) -> int:
    """Shift an axis for one more leading axis; negative axes stay."""
    return axis + (axis >= 0)


def _axis_led(axis: int, size: Size, rank: int) -> int:
    del size, rank
    return _shift_axis(axis)


def _axes_led(axes: Axes, size: Size, rank: int) -> Axes:
    del size
    if axes is None:
        return tuple(range(1, rank + 1))
    return tuple(map(_shift_axis, axes)) if isinstance(axes, tuple) else _shift_axis(axes)


def _order_led(order: Order, size: Size, rank: int) -> Order:
    del size
    return (0, *map(_shift_axis, range(rank)[::-1] if order is None else order))


def _shape_led(shape: Shape, size: Size, rank: int) -> Shape:
    del rank
    return (size, *shape)


LEADING_AXIS_RULES: dict[str, Callable[[Any, Size, int], Any]] = {
    "Axis": _axis_led,
    "Axes": _axes_led,
    "tuple[Axis, ...]": _axes_led,
    "Order": _order_led,
    "Shape": _shape_led,
}
"""Conversion of a value to an operator with one more leading axis, by kind.

Arguments are the value, the size of the axis, and the rank of the first input without it.
"""

UNCONVERTED_TYPES = {
    "bool": bool,
    "float": float,
    "Number": float,
    "str": str,
    "Literal": Literal,
}
"""Kinds whose values need no conversion if they have exactly this Python type."""
BLOCK_KINDS = ("Body", "Bodies")
"""Kinds of attributes that are blocks."""


def normalise(kind: str, value: Any) -> Any:
    """Convert an attribute value to its kind in `KINDS`; `| None` allows `None`."""
    if value is None and (kind.endswith("| None") or kind in ("Axes", "Order")):
        return None
    return KINDS[kind.removesuffix(" | None")](value)


def coerce_argument(what: str, name: str, kind: str, value: Any) -> Any:
    """Convert an argument to its kind.

    Raises:
        ProgramError: If the argument is of a different kind.
    """
    try:
        return normalise(kind, value)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"{what}: invalid argument {name}={short_text(value)}.",
            given=str(error),
            fix=f"Pass `{name}` as {kind}.",
        ) from None
