"""Values that are known while a model is read: numbers, and sizes that may be symbolic."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import INT64, DType
from braces.exchange.common.model.weights import LITTLE, Array, persistable
from braces.ir.records import STATE, Literal

Value: TypeAlias = "Var | Known | list[Value] | None"
"""What a name of a model stands for: a list for a sequence, `None` for an optional without a
value."""

MOST_ELEMENTS = 4096
"""The largest array that is computed while a model is read."""


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """An array that is known while the model is read.

    Attributes:
        array: Of its dtype, or of objects: numbers and sizes.
        dtype: The dtype that it has in the model.
        weight: The name of the initializer that becomes a parameter where a run reads it;
            empty for what is a constant.
    """

    array: Array
    dtype: DType
    weight: str = ""

    @staticmethod
    def of(value: Any, dtype: Any = None) -> Known:
        """The array of these numbers and sizes, int64 where no dtype is said for objects."""
        array = np.asarray(value)
        if dtype is not None:
            kept = np.dtype(dtype)
        else:
            kept = INT64 if array.dtype == object else array.dtype
        return Known(array if array.dtype == object else array.astype(kept, copy=False), kept)

    @staticmethod
    def sizes(shape: Sequence[Size]) -> Known:
        """A shape, as one axis of int64."""
        array = np.empty(len(shape), object)
        array[:] = list(shape)
        return Known(array, INT64)

    @property
    def plain(self) -> bool:
        """Whether there are numbers only."""
        return self.array.dtype != object or not any(
            isinstance(item, Dim) for item in self.array.flat
        )

    @property
    def small(self) -> bool:
        """Whether it may be computed with while the model is read.

        An array of nothing may have long axes, which a reduction along the others would leave.
        """
        return prod(max(1, size) for size in self.array.shape) <= MOST_ELEMENTS

    def numbers(self) -> Array:
        """The numbers, which it must have only."""
        if self.array.dtype != object:
            return self.array
        return np.array(self.array.tolist(), self.dtype).reshape(self.array.shape)

    def items(self) -> list[Any]:
        """Numbers and sizes in order, as Python has them."""
        return self.array.ravel().tolist()


def written(program: Builder, values: MutableMapping[str, Array], value: Known) -> Var:
    """A known value as a variable: a constant, a state where it is large, or sizes in a row.

    `values` gains what the state holds.
    """
    if value.plain:
        array = value.numbers()
        if array.size > LITTLE:
            return persistable(program, values, "constant", array, STATE)
        return one("constant", value=Literal.of(array))
    sizes = [_number(item, value.dtype) for item in value.items()]
    if not value.array.ndim:
        return sizes[0]
    made = one("stack", *sizes)
    return made if value.array.ndim == 1 else one("reshape", made, shape=value.array.shape)


def _number(item: Any, dtype: DType) -> Var:
    if isinstance(item, Dim):
        return one("size", value=item, dtype=dtype)
    return one("constant", value=Literal.of(np.asarray(item, dtype)))
