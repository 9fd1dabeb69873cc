"""Feeds that are made ready while the runs before them compute.

One thread reads the user's batches, brings each to the declared dtypes, and begins to move it
to the device; a few are ready at a time. What runs are given are arrays of their own, so that
an iterator may fill the same buffer again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self, TypeAlias, final
from weakref import finalize

import numpy as np

from braces.builder.var import Var
from braces.dtypes import is_narrow
from braces.errors import FeedError, ProgramError, suggest
from braces.ir.records import VarInfo
from braces.lazy import jax
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.feeds import convert
from braces.runtime.inputs.padding import Padding

Feed: TypeAlias = dict[str, Any]


@final
class Feeds:
    """Batches as feeds for runs, some of them ready ahead; what `Executor.feeds` gives.

    An iterator, to be read by one thread at a time. Where it is not read to its end, `close` or
    the end of a `with` block stops the thread, and so does letting go of it.

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
        read = _iterator(batches)
        self._shelf = shelf = _Shelf(ahead)
        self._stop = finalize(self, shelf.close)
        work = copy_context().run, _fill, shelf, read, ready
        self._thread = Thread(target=work[0], args=work[1:], name="braces feeds", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Feed:
        """The next feed; what the user's iterator raised, or a conversion, in its place."""
        return self._shelf.take()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Read no more batches; waits for the one that is being read.

        A generator of batches is closed then, in the thread that read it.
        """
        self._stop()
        self._thread.join()


def _iterator(batches: Any) -> Iterator[Any]:
    try:
        return iter(batches)
    except TypeError:
        raise FeedError(
            f"{batches!r:.80} cannot be read batch by batch.",
            fix="Give a list or a generator of feeds: [{'x': array, …}, …].",
        ) from None


@dataclass(eq=False)
class _Shelf:
    """Between the thread that makes feeds and the one that takes them.

    Attributes:
        room: How many feeds lie here at most.
        feeds: Those that are ready.
        ended: What is raised once they are taken, where no more will come.
        closed: Whether nobody wants more.
    """

    room: int
    feeds: deque[Feed] = field(default_factory=deque[Feed])
    ended: BaseException | None = None
    closed: bool = False
    changed: Condition = field(default_factory=Condition)

    def wants_more(self) -> bool:
        """Wait until there is room; whether anybody wants another feed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.feeds) < self.room)
            return not self.closed

    def put(self, feed: Feed) -> None:
        """Add a feed."""
        with self.changed:
            self.feeds.append(feed)
            self.changed.notify_all()

    def end(self, error: BaseException) -> None:
        """Say that no more come, and why."""
        with self.changed:
            self.ended = error
            self.changed.notify_all()

    def take(self) -> Feed:
        """The next feed; waits for it."""
        with self.changed:
            self.changed.wait_for(lambda: self.feeds or self.ended or self.closed)
            if self.feeds and not self.closed:
                self.changed.notify_all()
                return self.feeds.popleft()
            error, self.ended = self.ended, StopIteration()
            raise StopIteration if error is None or self.closed else error

    def close(self) -> None:
        """Want no more, and let go of what is ready."""
        with self.changed:
            self.closed = True
            self.feeds.clear()
            self.changed.notify_all()


def _fill(shelf: _Shelf, batches: Iterator[Any], ready: Callable[[Any], Feed]) -> None:
    """What the thread does; it knows nothing of who takes the feeds."""
    try:
        while shelf.wants_more():
            shelf.put(ready(next(batches)))
        if isinstance(batches, Generator):
            batches.close()
    except BaseException as error:  # whatever it is, it belongs to who takes the feeds
        shelf.end(error)


def check_ahead(ahead: Any) -> int:
    """A number of feeds.

    Raises:
        ProgramError: It is none.
    """
    if type(ahead) is not int or ahead < 1:
        raise ProgramError(
            f"ahead={ahead!r:.80} is no number of batches.", fix="Use an integer from 1."
        )
    return ahead


def on_devices(
    declared: Mapping[str, VarInfo], devices: Devices, padding: Padding, batch: Any
) -> Feed:
    """A batch as arrays of the declared dtypes on devices, which nobody else changes.

    Raises:
        FeedError: It is no dict, or has something unknown, or of another type.
    """
    if not isinstance(batch, Mapping):
        raise FeedError(f"A batch is {batch!r:.80}, and no dict.", fix="Give {'x': array, …}.")
    feed = {k.name if isinstance(k, Var) else k: v for k, v in batch.items()}
    own = padding.pad({name: _own(declared, name, value) for name, value in feed.items()})
    with jax.enable_x64(True):
        return {name: _put(declared, name, array, devices) for name, array in own.items()}


def _put(declared: Mapping[str, VarInfo], name: str, array: Any, devices: Devices) -> Any:
    """An array on devices; of less than 8 bits it is brought there by the run."""
    if is_narrow(array.dtype):
        return array
    if devices.placement is not None:
        return devices.placement.fed(declared[name], array)
    return jax.device_put(array, devices.one)


def _own(declared: Mapping[str, VarInfo], name: Any, value: Any) -> Any:
    if name not in declared:
        raise FeedError(f"The program has no data `{name}`.", fix=suggest(name, declared))
    array = convert(declared[name], value)
    same = isinstance(array, np.ndarray) and np.may_share_memory(array, value)
    return np.array(array) if same else array
