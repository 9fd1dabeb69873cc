"""Kinds of attributes: what is written on a kernel, and how a given value is brought to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy as np

from braces.dims import Dim, Shape, Size
from braces.dtypes import dtype_of
from braces.errors import ProgramError
from braces.ir.records import Body, Literal

Axes: TypeAlias = "int | tuple[int, ...] | None"
Axis: TypeAlias = int
"""One axis of the first input, or of the output where that has more."""
Order: TypeAlias = "tuple[int, ...] | None"
"""All axes of the first input in another order, which is by default the reversed one."""
Padding: TypeAlias = "str | tuple[int, ...]"
Number: TypeAlias = float
"""A number that becomes one of the dtype of an array: integers of 64 bits are exact."""

SMALLEST_INT, LARGEST_INT, LARGEST_NATURAL = -(2**63), 2**63 - 1, 2**64 - 1
LARGEST_REAL = float(np.finfo(float).max)

Indices: TypeAlias = Annotated[Any, "Indices"]
"""An input of integers: a Python integer stays one there, whatever stands beside it."""
Training: TypeAlias = Annotated[bool, "Training"]
"""Whether it works as in training; the inference form of a program sets it to false."""
History: TypeAlias = Annotated[str, "History"]
"""The loop whose trips a list records; lists of one history have one room."""
Capacity: TypeAlias = Annotated[int, "Capacity"]
"""Room for so many values when compiled, which the executor sets."""
Learned: TypeAlias = Annotated[Any, "Learned"]
"""A dimension whose size only the values of a run tell; to the kernel it is a number."""
Roomy: TypeAlias = Annotated[bool, "Roomy"]
"""Whether there may be room for more rows than a learned dimension has, which are copies of the
first; the executor says so where nothing else sees them."""
Salt: TypeAlias = Annotated[int, "Salt"]
"""The number that a draw mixes into its key; a block that is called again has others."""

ROLES = {
    "Capacity": "int",
    "History": "str",
    "Learned": "Size",
    "Roomy": "bool",
    "Salt": "int",
    "Training": "bool",
}
"""What an attribute is for, where passes or the executor must know, and of which kind it is.

A role is annotated on the kernel and never follows from a name: `training: bool` is an
attribute like any other, `training: Training` is what the inference form sets to false.
"""


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{value!r} is not an integer")
    if not SMALLEST_INT <= value <= LARGEST_INT:
        raise ValueError(f"integers lie from {SMALLEST_INT} to {LARGEST_INT}")
    return int(value)


def _real(value: Any) -> float:
    if isinstance(value, bool | str) or not np.isscalar(value) or np.iscomplexobj(value):
        raise TypeError(f"{value!r} is not a number")
    try:
        real = float(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        raise ValueError(f"numbers lie from -{LARGEST_REAL} to {LARGEST_REAL}") from None
    if isinstance(value, int | np.integer) and _has_64_bits(real) > _has_64_bits(int(value)):
        # Rounding alone brings it into the range of a dtype of integers.
        raise ValueError(f"integers lie from {SMALLEST_INT} to {LARGEST_NATURAL}")
    return real


def _number(value: Any) -> float:
    """A float, or an integer of 64 bits that no float is equal to.

    Larger integers become floats that no integer dtype holds.
    """
    real = _real(value)
    exact = isinstance(value, int | np.integer) and _has_64_bits(int(value))
    return int(value) if exact and int(value) != real else real


def _has_64_bits(value: float) -> bool:
    return SMALLEST_INT <= value <= LARGEST_NATURAL


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{value!r} is not True or False")
    return bool(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _size(value: Any) -> Size:
    if isinstance(value, str):
        return Dim.named(value)
    if isinstance(value, Dim):
        return value
    try:
        return _integer(value)
    except TypeError as error:
        raise TypeError(f"{error}; sizes are known before a run, as x.shape[0] is") from None


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
        raise TypeError("not a block")
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


def _later(axis: int) -> int:
    """An axis counted where there is one more in front; from the end, all is as it was."""
    return axis + (axis >= 0)


def _axis_led(axis: int, size: Size, rank: int) -> int:
    del size, rank
    return _later(axis)


def _axes_led(axes: Axes, size: Size, rank: int) -> Axes:
    del size
    if axes is None:
        return tuple(range(1, rank + 1))
    return tuple(map(_later, axes)) if isinstance(axes, tuple) else _later(axes)


def _order_led(order: Order, size: Size, rank: int) -> Order:
    del size
    return (0, *map(_later, range(rank)[::-1] if order is None else order))


def _shape_led(shape: Shape, size: Size, rank: int) -> Shape:
    del rank
    return (size, *shape)


LED: dict[str, Callable[[Any, Size, int], Any]] = {
    "Axis": _axis_led,
    "Axes": _axes_led,
    "tuple[Axis, ...]": _axes_led,
    "Order": _order_led,
    "Shape": _shape_led,
}
"""What a value becomes where its operator is to work along one more axis in front, by kind:
from the value, the size of that axis, and how many axes the first input has without it."""

PLAIN = {
    "bool": bool,
    "float": float,
    "Number": float,
    "str": str,
    "Literal": Literal,
}
"""Kinds whose values stay as they are where they are of this very type."""
BLOCK_KINDS = ("Body", "Bodies")
"""The kinds of attributes that are blocks."""


def normalise(kind: str, value: Any) -> Any:
    """Bring an attribute to its kind, as `KINDS` spells them; `| None` allows `None`."""
    if value is None and (kind.endswith("| None") or kind in ("Axes", "Order")):
        return None
    return KINDS[kind.removesuffix(" | None")](value)


def coerce_argument(what: str, name: str, kind: str, value: Any) -> Any:
    """An argument brought to its kind.

    Raises:
        ProgramError: It is of another kind.
    """
    try:
        return normalise(kind, value)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"{what} cannot take {name}={value!r:.80}.",
            given=str(error),
            fix=f"`{name}` is {kind}.",
        ) from None
