"""Prefetching of feeds: they are prepared while earlier runs compute.

One thread reads the user's batches, converts each to the declared dtypes, and starts its
transfer to the device; a bounded queue holds a few. Feeds are copies, so an iterator may refill
the same buffer.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any, Self, TypeAlias, final
from weakref import WeakKeyDictionary, finalize

import numpy as np

from braces.builder.var import Var
from braces.dtypes import is_narrow
from braces.errors import FeedError, ProgramError, suggest
from braces.ir.records import VarInfo
from braces.lazy import jax
from braces.lower.interrupt.deadline import join_threads
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.feeds import convert_feed
from braces.runtime.inputs.padding import Padding

Feed: TypeAlias = dict[str, Any]


@final
class Feeds:
    """Prefetched feeds for runs; returned by `Executor.feeds`.

    An iterator for one thread at a time. If it is not exhausted, `close`, the end of a `with`
    block or its garbage collection stops the thread.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     total = br.sum(br.data("x", ["batch"]))
        >>> exe, scope = br.Executor(), br.Scope()
        >>> with exe.feeds(prog, ({"x": [1.0] * n} for n in (2, 3))) as feeds:
        ...     print(*(exe.run(prog, scope, feed=feed, fetch=total) for feed in feeds))
        2.0 3.0
    """

    def __init__(
        self, batches: Iterable[Any], ready: Callable[[Any], Feed], ahead: int
    ) -> None:
        read = _get_iterator(batches)
        self._shelf = shelf = _PrefetchQueue(ahead)
        self._stop = finalize(self, shelf.close)
        work = copy_context().run, _produce_feeds, shelf, read, ready
        self._thread = Thread(target=work[0], args=work[1:], name="braces feeds", daemon=True)
        self._thread.start()
        _PRODUCERS[self._thread] = shelf

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Feed:
        """Return the next feed, or raise the error of the iterator or the conversion."""
        return self._shelf.take()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading batches; waits for the current one.

        A generator of batches is then closed, in the thread that read it.
        """
        self._stop()
        self._thread.join()


_PRODUCERS = WeakKeyDictionary[Thread, "_PrefetchQueue"]()
"""The queues of the threads that produce feeds."""
EXIT_WAIT_S = 2.0


@atexit.register
def end_producers() -> None:
    """Stop all producers when the process ends, and wait briefly for their current batch.

    Python stops daemon threads then, and one that JAX is moving an array in would abort the
    process. A producer that waits for its iterator does no harm.
    """
    producers = dict(_PRODUCERS.items())
    for shelf in producers.values():
        shelf.close()
    join_threads(producers, EXIT_WAIT_S)


def _get_iterator(batches: Any) -> Iterator[Any]:
    try:
        return iter(batches)
    except TypeError:
        raise FeedError(
            f"expected an iterable of batches, got {batches!r:.80}.",
            fix="Pass a list or a generator of feeds: [{'x': array, …}, …].",
        ) from None


@dataclass(eq=False)
class _PrefetchQueue:
    """Bounded queue between the producer and the consumer of feeds.

    Attributes:
        room: The capacity.
        feeds: The feeds that are ready.
        ended: The exception after the last feed, if there are no more.
        closed: Whether the consumer has stopped.
    """

    room: int
    feeds: deque[Feed] = field(default_factory=deque[Feed])
    ended: BaseException | None = None
    closed: bool = False
    changed: Condition = field(default_factory=Condition)

    def wants_more(self) -> bool:
        """Wait for free capacity; return whether more feeds are wanted."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.feeds) < self.room)
            return not self.closed

    def put(self, feed: Feed) -> None:
        """Add a feed."""
        with self.changed:
            self.feeds.append(feed)
            self.changed.notify_all()

    def end(self, error: BaseException) -> None:
        """Mark the end of the feeds, with its exception."""
        with self.changed:
            self.ended = error
            self.changed.notify_all()

    def take(self) -> Feed:
        """Return the next feed; blocks until it is ready."""
        with self.changed:
            self.changed.wait_for(lambda: self.feeds or self.ended or self.closed)
            if self.feeds and not self.closed:
                self.changed.notify_all()
                return self.feeds.popleft()
            error, self.ended = self.ended, StopIteration()
            raise StopIteration if error is None or self.closed else error

    def close(self) -> None:
        """Stop the producer, and drop the feeds that are ready."""
        with self.changed:
            self.closed = True
            self.feeds.clear()
            self.changed.notify_all()


def _produce_feeds(
    shelf: _PrefetchQueue, batches: Iterator[Any], ready: Callable[[Any], Feed]
) -> None:
    """Body of the producer thread; holds no reference to the consumer."""
    try:
        try:
            while shelf.wants_more():
                shelf.put(ready(next(batches)))
        finally:
            if isinstance(batches, Generator):
                batches.close()
    except BaseException as error:  # any exception is raised in the consumer
        shelf.end(error)


def check_prefetch_count(ahead: Any) -> int:
    """Return a validated number of feeds.

    Raises:
        ProgramError: If `ahead` is not a positive integer.
    """
    if type(ahead) is not int or ahead < 1:
        raise ProgramError(f"invalid ahead={ahead!r:.80}.", fix="Use an integer of at least 1.")
    return ahead


def prepare_batch(
    declared: Mapping[str, VarInfo], devices: Devices, padding: Padding, batch: Any
) -> Feed:
    """Return a batch as private arrays of the declared dtypes on devices.

    Raises:
        FeedError: If the batch is not a dict, or contains unknown data or data of a different
            type.
    """
    if not isinstance(batch, Mapping):
        raise FeedError(
            f"expected a dict for a batch, got {batch!r:.80}.", fix="Pass {'x': array, …}."
        )
    feed = {k.name if isinstance(k, Var) else k: v for k, v in batch.items()}
    own = padding.pad(
        {name: _copy_converted(declared, name, value) for name, value in feed.items()}
    )
    with jax.enable_x64(True):
        return {
            name: _move_to_devices(declared, name, array, devices)
            for name, array in own.items()
        }


def _move_to_devices(
    declared: Mapping[str, VarInfo], name: str, array: Any, devices: Devices
) -> Any:
    """Move an array to devices; narrow dtypes are moved by the run."""
    if is_narrow(array.dtype):
        return array
    if devices.placement is not None:
        return devices.placement.fed(declared[name], array)
    return jax.device_put(array, devices.one)


def _copy_converted(declared: Mapping[str, VarInfo], name: Any, value: Any) -> Any:
    if name not in declared:
        raise FeedError(f"unknown data `{name}`.", fix=suggest(name, declared))
    array = convert_feed(declared[name], value)
    same = isinstance(array, np.ndarray) and np.may_share_memory(array, value)
    return np.array(array) if same else array
