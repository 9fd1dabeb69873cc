"""Values that are known at import time: numbers, and sizes that may be symbolic."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from braces.exchange.common.model.weights import LARGEST_LITERAL, Array, add_persistable
from braces.extend.building import Builder, Var, emit
from braces.extend.programs import STATE, Literal
from braces.extend.types import INT64, Dim, DType, Size

Value: TypeAlias = "Var | Constant | list[Value] | None"
"""The value of a name of a model: a list for a sequence, `None` for an empty optional."""

MOST_ELEMENTS = 4096
"""The largest array that is folded at import time."""


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """An array that is known at import time.

    Attributes:
        array: An array of its dtype, or of objects: numbers and sizes.
        dtype: The dtype that it has in the model.
        weight: The name of the initializer that becomes a parameter if a run reads it; empty
            for a constant.
    """

    array: Array
    dtype: DType
    weight: str = ""

    @staticmethod
    def of(value: Any, dtype: Any = None) -> Constant:
        """Return the array of these numbers and sizes; objects are int64 by default."""
        array = np.asarray(value)
        if dtype is not None:
            own_dtype = np.dtype(dtype)
        else:
            own_dtype = INT64 if array.dtype == object else array.dtype
        return Constant(
            array if array.dtype == object else array.astype(own_dtype, copy=False), own_dtype
        )

    @staticmethod
    def sizes(shape: Sequence[Size]) -> Constant:
        """Return a shape as a vector of int64."""
        array = np.empty(len(shape), object)
        array[:] = list(shape)
        return Constant(array, INT64)

    @property
    def plain(self) -> bool:
        """Return whether all elements are numbers."""
        return self.array.dtype != object or not any(
            isinstance(item, Dim) for item in self.array.flat
        )

    @property
    def small(self) -> bool:
        """Return whether constant folding may use it.

        An empty array may have long axes, and a reduction over the empty axis would leave
        those.
        """
        return prod(max(1, size) for size in self.array.shape) <= MOST_ELEMENTS

    def numbers(self) -> Array:
        """Return the numbers of an array without symbolic sizes."""
        if self.array.dtype != object:
            return self.array
        return np.array(self.array.tolist(), self.dtype).reshape(self.array.shape)

    def items(self) -> list[Any]:
        """Return the numbers and sizes in order, as Python objects."""
        return self.array.ravel().tolist()


def write_constant(
    program: Builder, values: MutableMapping[str, Array], value: Constant
) -> Var:
    """Write a known value as a variable: a constant, a state if large, or a stack of sizes.

    `values` gains the value of the state.
    """
    if value.plain:
        array = value.numbers()
        if array.size > LARGEST_LITERAL:
            return add_persistable(program, values, "constant", array, STATE)
        return emit("constant", value=Literal.of(array))
    sizes = [number_var(item, value.dtype) for item in value.items()]
    if not value.array.ndim:
        return sizes[0]
    vector = emit("stack", *sizes)
    return vector if value.array.ndim == 1 else emit("reshape", vector, shape=value.array.shape)


def number_var(item: Any, dtype: DType = INT64) -> Var:
    """Write a number or a size as a scalar."""
    if isinstance(item, Dim):
        return emit("size", value=item, dtype=dtype)
    return emit("constant", value=Literal.of(np.asarray(item, dtype)))
