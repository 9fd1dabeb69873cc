"""Data sets of a training: batches by epoch, as feeds with their place in the epoch.

A data set is an object with `epoch(number, start=0)`, an iterator of the batches of an epoch
from batch `start` on; numbers count from 0. `len` of it is the number of batches, if known. Its
`fingerprint`, a JSON dict, is compared on resume. Any other iterable of batches restarts in
each epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from braces.builder.builder import Builder
from braces.errors import FeedError
from braces.ir.records import DATA
from braces.loaders.batches import batches as make_batches
from braces.loaders.data_frames import is_data_frame
from braces.loaders.streams import is_grain_data
from braces.passes.cleanup.prune import with_results, without_dead_code
from braces.runtime.inputs.padding import Padding
from braces.runtime.plan.plan import declared_data

Feed = dict[str, Any]


class DataSet(Protocol):
    """Batches by epoch, from any batch on."""

    def epoch(self, number: int, start: int = 0) -> Iterable[Any]:
        """Return the batches of an epoch, from batch `start` on."""
        ...


class Mark(NamedTuple):
    """The place of a batch: epoch and batch from 0, and whether it ends the epoch.

    Attributes:
        epoch: The number of the epoch.
        batch: The number of the batch.
        last: Whether the batch ends the epoch.
        weight: The weight of a padded batch before its padding; `None` for other batches.
    """

    epoch: int
    batch: int
    last: bool
    weight: float | None = None

    def __str__(self) -> str:
        return place_of(self.epoch, self.batch)


def place_of(epoch: int, batch: int) -> str:
    """Return the place of a batch in words; both numbers count from 0.

    Example:
        >>> place_of(0, 4)
        'epoch 1, batch 5'
    """
    return f"epoch {epoch + 1}, batch {batch + 1}"


# ---- data sets -------------------------------------------------------------------------------


@dataclass
class _Restarted:
    """An iterable that restarts in each epoch, such as a list or a loader."""

    batches: Iterable[Any]
    epochs: int = 0

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch; a generator is closed with this one."""
        iterator = iter(self.batches)
        if iterator is self.batches and self.epochs:
            raise FeedError(
                f"the data is an iterator, which ended in epoch {self.epochs}.",
                given=f"{type(self.batches).__name__}",
                fix="Pass a list, a loader, or another iterable that restarts; or epochs=1.",
            )
        self.epochs += 1
        return _closed_with(iterator, start)


def _closed_with(iterator: Iterator[Any], start: int) -> Generator[Any]:
    try:
        yield from islice(iterator, start, None)
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def as_data_set(data: Any) -> DataSet:
    """Return a data set for the argument of a user.

    Raises:
        FeedError: If the argument is an array, or not iterable.
    """
    if hasattr(data, "epoch"):
        return data
    if is_grain_data(data):
        return make_batches(data)
    if _holds_arrays(data) or is_data_frame(data) or not hasattr(data, "__iter__"):
        raise FeedError(
            f"expected a data set or an iterable of batches, got {_kind(data)}.",
            fix=_NO_DATA if data is None else _DATA,
        )
    return _Restarted(data)


_DATA = 'Pass br.batches({"x": xs, "y": ys}, 32), or a list or loader of batches.'
_NO_DATA = f"{_DATA} For a program without data, pass [{{}}] * 100 for 100 steps."


def _holds_arrays(data: Any) -> bool:
    parts = cast("tuple[Any, ...]", data) if isinstance(data, tuple) else ()
    is_tuple = bool(parts) and all(hasattr(part, "shape") for part in parts)
    return is_tuple or isinstance(data, Mapping | np.ndarray)


def _kind(data: Any) -> str:
    if isinstance(data, Mapping):
        return f"a dict of {', '.join(map(repr, data))}"  # pyright: ignore[reportUnknownArgumentType]
    return "None" if data is None else f"a value of type {type(data).__name__}"


def length_of(data: Any) -> int | None:
    """Return the number of batches of an epoch, if known."""
    sized: Any = data.batches if isinstance(data, _Restarted) else data
    try:
        return len(sized)
    except TypeError:
        return None


def fingerprint_of(data: Any) -> dict[str, Any]:
    """Return the properties of a data set that are compared on resume."""
    own = getattr(data, "fingerprint", None)
    properties = own() if callable(own) else own
    if isinstance(properties, Mapping):
        return dict(properties)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    length = length_of(data)
    return {} if length is None else {"batches": length}


# ---- batches by name -------------------------------------------------------------------------


@dataclass(frozen=True)
class DataNames:
    """The data of a program, in the order of their declarations.

    Attributes:
        declared: All data.
        needed: The data that updates and fetches read.
    """

    declared: tuple[str, ...]
    needed: tuple[str, ...]

    @staticmethod
    def of(program: Builder, fetch: Iterable[str]) -> DataNames:
        """Return the data of a program whose runs have some fetches."""
        whole, results = program.definition, tuple(fetch)
        declared = tuple(n for n, info in whole.main.vars.items() if info.kind == DATA)
        if not whole.main.vars.keys() >= set(results):  # a path to a variable of a sub-block
            return DataNames(declared, declared)
        read = without_dead_code(with_results(whole, results)).main.vars
        return DataNames(declared, tuple(name for name in declared if name in read))


def named_batch(batch: Any, names: DataNames) -> Feed:
    """Return a batch by name; a tuple has all data, or those that the program needs.

    Args:
        batch: A dict, or a tuple or list of arrays in the order of the declarations.
        names: The data of the program.

    Raises:
        FeedError: If data is unknown, or needed data is missing.
    """
    if isinstance(batch, tuple | list):
        for some in (names.declared, names.needed):
            if len(batch) == len(some):  # pyright: ignore[reportUnknownArgumentType]
                return dict(zip(some, batch, strict=True))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise _unfit(f"{len(batch)} arrays", names)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(batch, Mapping):
        raise _unfit(f"a value of type {type(batch).__name__}", names)
    feed = {getattr(key, "name", key): value for key, value in batch.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not set(names.needed) <= feed.keys() <= set(names.declared):
        raise _unfit(", ".join(f"`{name}`" for name in feed) or "nothing", names)  # pyright: ignore[reportUnknownVariableType]
    return feed  # pyright: ignore[reportUnknownVariableType]


def _unfit(got: str, names: DataNames) -> FeedError:
    needed, declared = (
        ", ".join(f"`{name}`" for name in some) or "no data"
        for some in (names.needed, names.declared)
    )
    fewer = "" if needed == declared else f", and needs {needed}"
    return FeedError(
        f"expected a batch with the data of the program, got {got}.",
        given=f"the program declares {declared}{fewer}",
        fix="Pass a dict of these names, or a tuple of arrays in this order.",
    )


def weight_of(mark: Mark, feed: Feed) -> float:
    """Return the weight of a batch, without the rows of its padding."""
    return row_count(feed) if mark.weight is None else mark.weight


def row_count(feed: Mapping[str, Any]) -> float:
    """Return the weight of a batch: the sum of `weight` if it has one, else its rows.

    Example:
        >>> row_count({"x": [[1.0], [2.0]]}), row_count({"x": [1, 2], "weight": [1.0, 0.0]})
        (2.0, 1.0)
    """
    if "weight" in feed:
        return float(np.asarray(feed["weight"]).sum(dtype=np.float64))
    sizes = (len(value) for value in feed.values() if np.ndim(value))
    return float(next(sizes, 1))


def padding_of(program: Builder, pad_to: Any) -> Padding:
    """Return the padding of the batches of a program.

    Raises:
        ProgramError: If `pad_to` is not a dict from names to positive integers.
        UnknownNameError: If no data has a dimension of a name.
    """
    return Padding.of(declared_data(program.definition.main), pad_to, "pad_to")
