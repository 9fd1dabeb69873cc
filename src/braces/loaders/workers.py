"""Worker processes that read batches of rows, and grain's data sets: through grain."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast
from weakref import WeakSet, finalize

from braces.errors import FeedError
from braces.lazy import grain
from braces.loaders.core.batch_checks import plain_array
from braces.loaders.rows.row_batches import BatchReader, Recipe
from braces.runtime.prefetch import end_producers

AHEAD = 4
"""The number of batches that each worker reads ahead."""


class EpochsSource:
    """The batches of all epochs one after another, as grain reads them in a worker.

    Args:
        recipe: The data set.
        first: The number of the first batch, counted over all epochs.
    """

    def __init__(self, recipe: Recipe, first: int) -> None:
        self._recipe = recipe
        self._first = first
        self._epoch = -1
        self._read: BatchReader | None = None

    def __len__(self) -> int:
        return sys.maxsize - self._first

    def __getitem__(self, index: int) -> Any:
        epoch, number = divmod(self._first + int(index), len(self._recipe.plan))
        if self._read is None or epoch != self._epoch:
            self._epoch, self._read = epoch, self._recipe.reader(epoch)
        return self._read(number)


class WorkerPool:
    """Worker processes that read the batches of a data set in its order.

    They start with the first batch, continue from epoch to epoch, and end by `close` or with
    the last reference to the data set. Reading at another position starts new ones.

    Args:
        recipe: The data set.
        workers: The number of processes.

    Attributes:
        following: The number of the batch that comes next; -1 without processes.
    """

    def __init__(self, recipe: Recipe, workers: int) -> None:
        self._recipe = recipe
        self._workers = workers
        self.following = -1
        self._batches: Iterator[Any] = iter(())
        self._end: Callable[[], Any] = lambda: None

    def batch(self, index: int) -> Any:
        """Return a batch by its number, counted over all epochs.

        Raises:
            FeedError: If a worker process ended, or could not start.
        """
        if index != self.following:
            self._start(index)
        self.following = -1
        try:
            with worker_errors():
                batch = _with_own_arrays(next(self._batches))
        except BaseException:
            self.close()
            raise
        self.following = index + 1
        return batch

    def _start(self, index: int) -> None:
        self.close()
        prepare_grain()
        source = grain.MapDataset.source(EpochsSource(self._recipe, index))
        read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        options = grain.MultiprocessingOptions(
            num_workers=self._workers, per_worker_buffer_size=AHEAD
        )
        with worker_errors():
            self._batches = iter(source.to_iter_dataset(read).mp_prefetch(options))
        self._end = finalize(self, _close_iterator, self._batches)
        close_at_exit(self)

    def close(self) -> None:
        """End the processes; reading starts new ones."""
        self._end()
        self._batches, self.following = iter(()), -1


def prepare_grain() -> None:
    """Mark the flags of absl as parsed, which grain reads in programs of absl only."""
    _ = grain.MapDataset
    flags: Any = sys.modules["absl.flags"].FLAGS
    if not flags.is_parsed():
        flags.mark_as_parsed()


@contextmanager
def worker_errors() -> Generator[None]:
    """Turn the end of a worker process into an error of Braces.

    Raises:
        FeedError: If a worker process ended.
    """
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if "unexpectedly" not in text and "bootstrapping" not in text:
            raise
        raise FeedError(
            "a worker process of the data set ended.",
            given=text.partition("\n")[0],
            fix="Workers import the script: call training under `if __name__ == '__main__':`. "
            "A process may also have been killed for its memory.",
        ) from error


def _with_own_arrays(batch: Any) -> Any:
    """Return a batch whose arrays are not in memory that a worker shares."""
    if isinstance(batch, dict):
        entries = cast("dict[Any, Any]", batch)
        return {name: plain_array(value) for name, value in entries.items()}
    if isinstance(batch, tuple):
        return tuple(plain_array(value) for value in cast("tuple[Any, ...]", batch))
    return batch


_OPEN = WeakSet[Any]()
"""Pools and iterators of grain that may have processes."""


def close_at_exit(closable: Any) -> None:
    """Close a pool or an iterator of grain when Python ends.

    That happens before multiprocessing ends the processes.
    """
    _OPEN.add(closable)
    _end_with_process()


@cache
def _end_with_process() -> None:
    """Register the end; the function that is registered last is called first."""
    atexit.register(_close_all)


def _close_all() -> None:
    end_producers()
    for closable in [*_OPEN]:
        closable.close()


def _close_iterator(batches: Any) -> None:
    batches.close()
