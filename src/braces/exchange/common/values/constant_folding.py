"""Arithmetic of small arrays of numbers and sizes, while a model is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from math import prod

import numpy as np

from braces.dtypes import BOOL, DType
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import MOST_ELEMENTS, Array, Known
from braces.exchange.common.values.symbolic_arithmetic import Number, Unknown


def check_size(shape: Sequence[int]) -> None:
    """Whether an array is computed while the model is read.

    Raises:
        Unknown: It is too large.
    """
    if prod(shape) > MOST_ELEMENTS:
        raise Unknown


def typed(array: Array, dtype: DType) -> Array:
    """Numbers in their dtype; objects where there is a size among them."""
    if array.dtype == dtype:
        return array
    if sizes.symbolic(*array.flat):
        return array
    return np.array(array.tolist(), dtype).reshape(array.shape)


def each_number(compute: Callable[..., Number]) -> Callable[..., Array]:
    """A function of numbers and sizes, for each of an array."""

    def folded(*arrays: Array) -> Array:
        spread = np.broadcast_arrays(*arrays)
        check_size(spread[0].shape)
        objects = [array.astype(object).ravel().tolist() for array in spread]
        made = np.empty(spread[0].size, object)
        made[:] = list(starmap(compute, zip(*objects, strict=True)))
        return made.reshape(spread[0].shape)

    return folded


def asking(compute: Callable[..., bool]) -> Callable[..., Known]:
    """A comparison of numbers and sizes, for each of an array."""
    each = each_number(compute)

    def folded(*arrays: Array) -> Known:
        return Known(np.asarray(each(*arrays), np.bool_), BOOL)

    return folded


def counted(first: Number, last: Number, step: Number) -> Array:
    """Numbers from one to another."""
    arange: Callable[..., Array] = np.arange
    return arange(first, last, step)
