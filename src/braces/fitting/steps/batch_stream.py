"""The batches of the remaining epochs as one stream, and the thread that reads it.

Two threads of Python take turns: with each batch they wait for each other, which costs more
than taking 64 rows of an array. Batches that are read within `FAST_S` are therefore read in the
thread of the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from time import perf_counter
from typing import Any

import numpy as np

from braces.builder.user_functions import located
from braces.errors import BracesError, FeedError
from braces.fitting.steps.data_sets import DataSet, Feed, Mark, length_of, place_of, row_count
from braces.runtime.inputs.padding import Padding


@dataclass(frozen=True)
class Range:
    """The batches of a training that remain.

    Attributes:
        epoch: The first epoch.
        batch: The first batch of that epoch.
        epochs: The end of the epochs.
        limit: The most batches of an epoch; `None` for all.
    """

    epoch: int
    batch: int
    epochs: int
    limit: int | None = None


def stream_batches(
    data: DataSet,
    remaining: Range,
    name_batch: Callable[[Any], Feed],
    marks: deque[Mark],
    padding: Padding,
) -> Generator[Feed]:
    """Yield the batches of all epochs; each has its mark in `marks` before it is yielded."""
    for number in range(remaining.epoch, remaining.epochs):
        start = remaining.batch if number == remaining.epoch else 0
        located_batches = _located_batches(data, number, start, name_batch)
        with closing(located_batches) as named:
            for mark, feed in _marked_batches(named, data, number, start, remaining.limit):
                padded, marked = _pad_batch(padding, mark, feed)
                marks.append(marked)
                yield padded


def _pad_batch(padding: Padding, mark: Mark, feed: Feed) -> tuple[Feed, Mark]:
    """Return a batch with its padding, and its mark with the weight of the original."""
    if not padding.multiples:
        return feed, mark
    with located(str(mark)):
        padded = padding.pad_values(feed)
    return padded, mark._replace(weight=row_count(feed))


def _marked_batches(
    batches: Iterator[Feed], data: DataSet, number: int, start: int, limit: int | None
) -> Iterator[tuple[Mark, Feed]]:
    length = length_of(data)
    if length is None:
        most = None if limit is None else limit - start
        yield from _ended_batches(islice(batches, most), number, start)
        return
    end, i = length if limit is None else min(length, limit), start
    if not end:
        raise _no_batches(number)
    for feed in islice(batches, end - start):
        i += 1
        yield Mark(number, i - 1, i == end), feed
    if i < end:
        raise FeedError(
            f"the data ended after {i} of {length} batches.",
            at=f"epoch {number + 1}",
            fix="Correct the `len` of the data: the number of batches of each epoch.",
        )


def _ended_batches(
    batches: Iterator[Feed], number: int, start: int
) -> Iterator[tuple[Mark, Feed]]:
    """Mark batches of unknown number: each is copied and held until the next one is known.

    An error is raised after the batch that is held.
    """
    held: Feed | None = None
    for i in count(start):
        feed, error = _next_batch(batches)
        if held is not None:
            yield Mark(number, i - 1, feed is None and error is None), held
        if error is not None:
            raise error
        if feed is None:
            return _check_rest(number, start, i)
        held = {name: np.array(value) for name, value in feed.items()}


def _next_batch(batches: Iterator[Feed]) -> tuple[Feed | None, Exception | None]:
    """Return the next batch, `None` at the end, and the error in place of a batch."""
    try:
        return next(batches, None), None
    except Exception as error:
        return None, error


def _check_rest(number: int, start: int, end: int) -> None:
    if start == end:
        raise FeedError(
            f"the data ended after {start} batches, where it had more before.",
            at=f"epoch {number + 1}",
            fix="Resume with the data set that the checkpoint was written with.",
        )


def _located_batches(
    data: DataSet, number: int, start: int, name_batch: Callable[[Any], Feed]
) -> Generator[Feed]:
    """Yield the batches of an epoch by name; errors name the epoch and the batch."""
    i, batches = start, None
    try:
        with _naming(lambda: place_of(number, i)):
            batches = data.epoch(number, start)
            for i, batch in enumerate(batches, start):
                yield name_batch(batch)
                i += 1
    finally:
        if isinstance(batches, Generator):
            batches.close()
    if i == 0:
        raise _no_batches(number)


def _no_batches(number: int) -> FeedError:
    return FeedError(
        "the data has no batches.",
        at=f"epoch {number + 1}",
        fix="Pass data with at least one batch, and with a batch size of at most its rows if "
        "smaller batches are dropped.",
    )


@contextmanager
def _naming(place: Callable[[], str]) -> Generator[None]:
    """Name the place of a batch in the errors of a data set."""
    try:
        yield
    except BracesError as error:
        with located(place()):
            raise error
    except Exception as error:
        error.add_note(f"Raised by the data at {place()}.")
        raise


FAST_S = 2e-4
"""The time up to which a batch is read faster than by another thread."""
MOST_SLOW = 3
"""The number of slow batches in a row after which another thread reads the rest."""


def read_while_fast(
    batches: Generator[Feed], read_ahead: Callable[[Generator[Feed]], Any]
) -> Generator[Feed]:
    """Yield batches that this thread reads; `read_ahead` reads the rest once this is slow.

    Args:
        batches: The batches. Any thread can read them.
        read_ahead: Returns an iterator of batches that another thread reads and closes.

    Example:
        >>> feeds = read_while_fast(({"x": n} for n in range(3)), lambda rest: rest)
        >>> [feed["x"] for feed in feeds]
        [0, 1, 2]
    """
    slow, begin = 0, perf_counter()
    with closing(batches):
        for batch in batches:
            slow = slow + 1 if perf_counter() - begin > FAST_S else 0
            yield batch
            if slow >= MOST_SLOW:
                break
            begin = perf_counter()
        else:
            return
        with closing(read_ahead(batches)) as rest:
            yield from rest
