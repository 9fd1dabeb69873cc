"""Checks of batches that user code returns: arrays by name, alike within an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from braces.errors import DTypeError, FeedError, ShapeError, array_fix, short_text
from braces.loaders.core.columns import Array, check_numbers

Batch = dict[str, Any]


class BatchCheck:
    """A check that the batches of an epoch agree in keys, dtypes and shapes.

    The size of the first axis may differ, as that of a smaller last batch.

    Args:
        names: Names for the arrays of tuples; `None` if batches may be tuples.
        varying: Whether the sizes of other axes may differ.
    """

    def __init__(self, names: Sequence[str] | None, varying: bool) -> None:
        self._names = names
        self._varying = varying
        self._first: dict[str, tuple[Any, tuple[int, ...]]] | None = None

    def batch(self, value: Any, place: str) -> Any:
        """Return a batch as a dict of arrays, or as a tuple if there are no names.

        Args:
            value: The batch.
            place: Its place, as "batch 3 of epoch 0".

        Raises:
            DTypeError: If a value is no array of numbers, or dtypes differ.
            FeedError: If the batch is no dict or tuple, or keys differ.
            ShapeError: If shapes differ.
        """
        as_tuple = isinstance(value, tuple | list) and self._names is None
        entries = self._entries(value, place)
        arrays = {name: _array(name, each, place) for name, each in entries.items()}
        types = {name: (a.dtype, a.shape) for name, a in arrays.items()}
        if self._first is None:
            self._first = types
        else:
            self._compare(self._first, types, place)
        return tuple(arrays.values()) if as_tuple else arrays

    def named(self, value: Any, place: str) -> Any:
        """Return a batch as a dict if there are names."""
        return value if self._names is None else self._entries(value, place)

    def _entries(self, value: Any, place: str) -> Batch:
        if isinstance(value, Mapping):
            batch = dict(cast("Mapping[Any, Any]", value))
            return {getattr(name, "name", name): each for name, each in batch.items()}
        if not isinstance(value, tuple | list):
            raise FeedError(
                f"expected a dict or a tuple of arrays for a batch, got {short_text(value)}.",
                at=place,
                fix="Yield {'x': array, …}.",
            )
        values = cast("Sequence[Any]", value)
        names = [str(i) for i in range(len(values))] if self._names is None else self._names
        if len(names) != len(values):
            raise FeedError(
                f"expected a tuple of {len(names)} arrays, got {len(values)}.",
                at=place,
                given=f"names: {', '.join(names)}",
            )
        return dict(zip(names, values, strict=True))

    def _compare(self, first: Mapping[str, Any], types: Mapping[str, Any], place: str) -> None:
        if first.keys() != types.keys():
            raise FeedError(
                "the keys of the batches differ.",
                at=place,
                given=f"{_listed(types)}; the first batch has {_listed(first)}",
                fix="Yield the same keys in each batch.",
            )
        for name, (dtype, shape) in types.items():
            old_dtype, old_shape = first[name]
            if dtype != old_dtype:
                raise DTypeError(
                    f"`{name}` has the dtype {dtype}; in the first batch it was {old_dtype}.",
                    at=place,
                    fix="Convert the array to one dtype.",
                )
            if len(shape) != len(old_shape) or (
                shape[1:] != old_shape[1:] and not self._varying
            ):
                raise ShapeError(
                    f"`{name}` has the shape {list(shape)}; in the first batch it was "
                    f"{list(old_shape)}.",
                    at=place,
                    fix="Only the first axis may differ. Pass varying=True for arrays with "
                    "further axes of symbolic size.",
                )


def plain_array(value: Any) -> Any:
    """Return a copy of an array of a subclass, as of memory that a worker shares."""
    if not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    return array if type(array) is np.ndarray else np.array(array)


def _array(name: Any, value: Any, place: str) -> Array:
    if not isinstance(name, str):
        raise FeedError(
            f"expected strings as keys of a batch, got {short_text(name)}.", at=place
        )
    try:
        array = np.asarray(plain_array(value))
        check_numbers(name, array)
    except DTypeError as error:
        raise error.located(place) from None
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(
            f"cannot convert `{name}` to an array: {error}.",
            at=place,
            fix=array_fix(error, "Pass an array of numbers."),
        ) from None
    return array


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def batch_place(number: int, epoch: int) -> str:
    """Return the place of a batch, for messages."""
    return f"batch {number} of epoch {epoch}"
