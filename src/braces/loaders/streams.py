"""Data sets without numbered rows: loaders, iterables, and functions that return one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from itertools import count, islice
from typing import Any, cast

import numpy as np

from braces.builder.user_functions import add_function, calling
from braces.errors import FeedError, short_text
from braces.loaders.core.batch_checks import BatchCheck, batch_place
from braces.loaders.core.columns import check_names
from braces.loaders.core.data_set import Batches, check_position
from braces.loaders.core.transforms import BatchTransform
from braces.loaders.rows.parts import add_weight
from braces.loaders.workers import worker_errors

_END: Any = object()


def is_grain_data(source: Any) -> bool:
    """Return whether a source is a data set or an iterator of grain; does not import it."""
    return any(cls.__module__.startswith("grain.") for cls in type(source).__mro__)


@dataclass(frozen=True)
class Stacking:
    """Rows of a stream, stacked to batches.

    Attributes:
        batch_size: The number of rows of a batch; 0 if the stream yields batches.
        drop_last: Whether a smaller last batch is left out.
        pad_last: Whether a smaller last batch is padded, and batches have weights.
    """

    batch_size: int = 0
    drop_last: bool = False
    pad_last: bool = False

    def batches(self, rows: Iterator[Any]) -> Generator[Any]:
        """Yield the batches of rows."""
        if not self.batch_size:
            yield from rows
            return
        while part := list(islice(rows, self.batch_size)):
            if len(part) == self.batch_size or not self.drop_last:
                yield self._stack(part)

    def _stack(self, rows: list[Any]) -> Any:
        missing = self.batch_size - len(rows) if self.pad_last else 0
        padded = rows + rows[-1:] * missing
        first = rows[0]
        if not isinstance(first, Mapping):
            if not isinstance(first, tuple | list):
                first, padded = (first,), [(row,) for row in padded]
            return tuple(np.stack(column) for column in zip(*padded, strict=True))
        keys = cast("Mapping[str, Any]", first)
        batch = {key: np.stack([row[key] for row in padded]) for key in keys}
        if self.pad_last:
            add_weight(batch, np.array([1] * len(rows) + [0] * missing, np.float32))
        return batch


@dataclass(frozen=True, eq=False)
class Stream:
    """The options of a data set without numbered rows.

    Attributes:
        source: An iterable, or a function that returns one for each epoch.
        names: Names for the arrays of tuples.
        seed: The seed of the generator of a loader that has one, and of transforms.
        stacking: The stacking of rows.
        transform: A function of the user on each batch.
        varying: Whether the sizes of axes after the first one may differ.
    """

    source: Any
    names: tuple[str, ...] | None = None
    seed: int = 0
    stacking: Stacking = Stacking()
    transform: BatchTransform | None = None
    varying: bool = False


class StreamBatches(Batches):
    """Batches of an iterable, without positions: `start` reads batches and drops them.

    Made by `br.batches` of iterables and functions.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._used = False
        self.names = stream.names
        self.rows = None

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:  # noqa: D102 - inherited
        check_position(number, start, None)
        return self._produce(*self._iterator(number, start), number, start)

    def _iterator(self, number: int, start: int) -> tuple[Iterator[Any], int]:
        """Return an iterator of batches of an epoch, and the number of its first one.

        Args:
            number: The number of the epoch.
            start: The number of the batch that is wanted first.

        Raises:
            FeedError: If the source is an iterator that was read before, or is not iterable.
        """
        source = self._stream.source
        if isinstance(source, Iterator):
            if self._used:
                raise FeedError(
                    "an iterator has no second epoch.",
                    given=short_text(cast("object", source)),
                    fix="Pass the function that returns it: br.batches(read_batches).",
                )
            self._used = True
        elif callable(source) and not isinstance(source, Iterable):
            with calling(source, f"epoch {number}"):
                source = source(number) if _takes_epoch(source) else source()
        _begin_epoch(source, self._stream.seed, number)
        return _as_iterator(source, number), 0

    def _produce(
        self, rows: Iterator[Any], first: int, number: int, start: int
    ) -> Iterator[Any]:
        stream = self._stream
        batches = stream.stacking.batches(rows)
        check = BatchCheck(self.names, stream.varying)
        try:
            for i in count(first):
                place = batch_place(i, number)
                with _reading(stream.source, place):
                    batch = next(batches, _END)
                if batch is _END:
                    return _check_count(i, start, number)
                self._passed(rows, number, i + 1)
                if i >= start:
                    yield self._ready(check, batch, number, i)
        finally:
            batches.close()
            if isinstance(rows, Generator) or is_grain_data(rows):
                cast("Any", rows).close()

    def _passed(self, rows: Iterator[Any], number: int, following: int) -> None:
        """Accept that the batches of an epoch before a number were read."""

    def _ready(self, check: BatchCheck, batch: Any, number: int, i: int) -> Any:
        stream, place = self._stream, batch_place(i, number)
        if stream.transform is not None:
            named = check.named(batch, place)
            batch = stream.transform(named, (stream.seed, number, i), place)
        return check.batch(batch, place)

    def named(self, names: Sequence[str]) -> StreamBatches:  # noqa: D102 - inherited
        if self.names is not None:
            return self
        named = type(self)(replace(self._stream, names=check_names(names, len(names))))
        named._used = self._used
        return named

    def fingerprint(self) -> dict[str, Any]:  # noqa: D102 - inherited
        size = self._stream.stacking.batch_size
        return {"kind": "stream", "batch_size": size or None, "seed": self._stream.seed}

    def __repr__(self) -> str:
        return f"<Batches of {short_text(self._stream.source)}>"


class SizedStreamBatches(StreamBatches):
    """Batches of a loader or a list, with a length: the number of batches of an epoch."""

    def __len__(self) -> int:
        stacking, size = self._stream.stacking, len(self._stream.source)
        if not stacking.batch_size:
            return size
        rounding = 0 if stacking.drop_last else stacking.batch_size - 1
        return (size + rounding) // stacking.batch_size

    def trial(self) -> StreamBatches | None:  # noqa: D102 - inherited
        return self if isinstance(self._stream.source, list | tuple) else None

    def fingerprint(self) -> dict[str, Any]:  # noqa: D102 - inherited
        return {**super().fingerprint(), "batches": len(self)}


def stream_batches(stream: Stream) -> StreamBatches:
    """Return the data set of a stream; it has a length if its source has one.

    Raises:
        FeedError: If the source is neither an iterable nor a function.
    """
    source: Any = stream.source
    if not callable(cast("object", source)) and not hasattr(source, "__iter__"):
        raise FeedError(
            f"expected arrays, a path, an iterable of batches or a function, got "
            f"{short_text(source)}.",
            fix="Pass {'x': array, …}.",
        )
    try:
        len(source)
    except TypeError:
        return StreamBatches(stream)
    return SizedStreamBatches(stream)


def _takes_epoch(function: Any) -> bool:
    """Return whether a function requires an argument, the number of the epoch."""
    try:
        signature(function).bind()
    except TypeError:
        return True
    except ValueError:
        pass
    return False


def _begin_epoch(source: Any, seed: int, number: int) -> None:
    """Set epoch and seed of a loader of PyTorch, which determine its order."""
    sampler = getattr(source, "sampler", None)
    for owner in (source, sampler, getattr(source, "batch_sampler", None)):
        if callable(set_epoch := getattr(owner, "set_epoch", None)):
            set_epoch(number)
    for owner in (source, sampler):
        generator = getattr(owner, "generator", None)
        if callable(manual_seed := getattr(generator, "manual_seed", None)):
            manual_seed(int(np.random.default_rng((seed, number)).integers(1 << 62)))


def _as_iterator(source: Any, number: int) -> Iterator[Any]:
    try:
        return iter(source)
    except TypeError:
        raise FeedError(
            f"expected an iterable of batches, got {short_text(source)}.",
            at=f"epoch {number}",
            fix="Return a list or a generator of batches: [{'x': array, …}, …].",
        ) from None


@contextmanager
def _reading(source: Any, place: str) -> Generator[None]:
    """Name the batch in the errors of an iterable."""
    try:
        with worker_errors():
            yield
    except Exception as error:
        if callable(source) and not isinstance(source, Iterable):
            add_function(error, source, place)
        else:
            error.add_note(f"Raised by the data set for {place}.")
        raise


def _check_count(count: int, start: int, number: int) -> None:
    """Refuse an epoch without batches, or shorter than a position."""
    if not count:
        raise FeedError("the data set is empty.", at=f"epoch {number}")
    if count < start:
        raise FeedError(
            f"batch {start} is out of range for an epoch of {count} batches.",
            at=f"epoch {number}",
            fix="Resume with the data set that the position was taken from.",
        )
