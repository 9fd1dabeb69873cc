"""Constant folding: arithmetic on small arrays of numbers and sizes at import time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from math import prod

import numpy as np

from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import MOST_ELEMENTS, Array, Constant
from braces.exchange.common.values.symbolic_arithmetic import NotConstant, Number
from braces.extend.types import BOOL, DType


def check_size(shape: Sequence[int]) -> None:
    """Check that an array is small enough for constant folding.

    Raises:
        Unknown: If the array is too large.
    """
    if prod(shape) > MOST_ELEMENTS:
        raise NotConstant


def as_typed_array(array: Array, dtype: DType) -> Array:
    """Return numbers in their dtype; keep objects if there is a symbolic size among them."""
    if array.dtype == dtype:
        return array
    if sizes.symbolic(*array.flat):
        return array
    return np.array(array.tolist(), dtype).reshape(array.shape)


def vectorize_arithmetic(compute: Callable[..., Number]) -> Callable[..., Array]:
    """Vectorize a function of numbers and sizes over arrays."""

    def fold_node(*arrays: Array) -> Array:
        operands = np.broadcast_arrays(*arrays)
        check_size(operands[0].shape)
        objects = [array.astype(object).ravel().tolist() for array in operands]
        results = np.empty(operands[0].size, object)
        results[:] = list(starmap(compute, zip(*objects, strict=True)))
        return results.reshape(operands[0].shape)

    return fold_node


def vectorize_comparison(compute: Callable[..., bool]) -> Callable[..., Constant]:
    """Vectorize a comparison of numbers and sizes over arrays."""
    each = vectorize_arithmetic(compute)

    def fold_node(*arrays: Array) -> Constant:
        return Constant(np.asarray(each(*arrays), np.bool_), BOOL)

    return fold_node


def numeric_range(first: Number, last: Number, step: Number) -> Array:
    """Return the arithmetic progression of `np.arange`."""
    arange: Callable[..., Array] = np.arange
    return arange(first, last, step)
