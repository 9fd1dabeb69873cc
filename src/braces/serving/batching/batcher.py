"""The queue of a model: the next batch gathers while one runs in a thread.

Runs that are quicker than the hand-over to the thread take place in the event loop. An idle
model starts at once, or `wait_s` after the first request. Requests whose client left, or whose
time is over, are dropped before a run. If a batch fails, each of its requests is run alone, so
that one invalid request does not spoil the others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TypeAlias

from braces.lazy import asyncio
from braces.serving.batching.joining import (
    join_feeds,
    join_key,
    join_outputs,
    padded_size,
    split_feed,
    split_outputs,
)
from braces.serving.batching.model_metrics import ModelMetrics
from braces.serving.batching.quick_sizes import QuickSizes
from braces.serving.models.served_model import Arrays, ServedModel, row_count
from braces.serving.protocol.refusal import RefusalError, busy

LOGGER = logging.getLogger("braces.serving")
Outcome: TypeAlias = "Arrays | Exception"


@dataclass(slots=True, eq=False)
class Waiting:
    """A request in the queue.

    Attributes:
        feed: Its inputs.
        count: Its number of batch elements.
        key: The properties that joined requests have in common; `None` if it runs alone.
        done: The outputs.
    """

    feed: Arrays
    count: int
    key: tuple[object, ...] | None
    done: asyncio.Future[Arrays]


class Batcher:
    """The queue and the thread of a model.

    Args:
        model: The model.
        sizes: The batch sizes, the largest last; empty if requests are not joined.
        wait_s: The time that an idle model waits for more requests.
        most_waiting: The largest number of requests in the queue.

    Attributes:
        thread: The thread of the model; it ends after `close`.
    """

    def __init__(
        self, model: ServedModel, sizes: Sequence[int], wait_s: float, most_waiting: int
    ) -> None:
        self.model = model
        self.metrics = ModelMetrics()
        self.sizes: tuple[int, ...] = tuple(sizes) if model.signature.is_joined else ()
        has_few_types = bool(self.sizes) and not model.signature.free_sizes()
        self._quick = QuickSizes() if has_few_types and model.is_steady else None
        self._wait_s = wait_s if self.sizes else 0.0
        self._most_waiting = most_waiting
        self._waiting = deque[Waiting]()
        self._count = 0
        self._timer: asyncio.Handle | None = None
        self._is_running = self._is_closed = False
        self._work = SimpleQueue["tuple[asyncio.AbstractEventLoop, list[Waiting]] | None"]()
        self.thread = Thread(
            target=self._run_batches, name=f"braces-serve-{model.name}", daemon=True
        )
        self.thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests in the queue."""
        return len(self._waiting)

    @property
    def is_running(self) -> bool:
        """True while a batch runs."""
        return self._is_running

    def submit(self, feed: Arrays) -> asyncio.Future[Arrays]:
        """Add a request to the queue, and return the future of its outputs.

        The event loop of the call runs the queue. A cancelled future drops the request.

        Raises:
            RefusalError: If the queue is full, or the server ends; status 503.
        """
        if self._is_closed:
            raise busy("the server is shutting down.")
        if len(self._waiting) >= self._most_waiting:
            self.metrics.refused += 1
            raise busy(f"the queue of model `{self.model.name}` is full.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Arrays] = loop.create_future()
        count = row_count(self.model.signature, feed)
        key = join_key(self.model.signature, feed) if self.sizes and count else None
        self._waiting.append(Waiting(feed, count, key, done))
        self._count += count
        if not self._is_running:
            self._schedule(loop)
        return done

    def close(self) -> None:
        """Refuse all requests in the queue, and end the thread after the current batch."""
        self._is_closed = True
        for item in self._waiting:
            if not item.done.done():
                item.done.set_exception(busy("the server is shutting down."))
        self._waiting.clear()
        self._work.put(None)

    # ---- in the event loop -------------------------------------------------------------------

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a batch once the requests that are ready in the loop are in the queue."""
        is_full = bool(self.sizes) and self._count >= self.sizes[-1]
        if self._timer is not None:
            if not is_full:
                return
            self._timer.cancel()
        if is_full or not self._wait_s:
            self._timer = loop.call_soon(self._start, loop)
        else:
            self._timer = loop.call_later(self._wait_s, self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._is_running:
            return
        if not (batch := self._take()):
            return
        if self._quick is not None and self._quick.is_quick(self._size(batch)):
            self._answer(batch, self._outcomes(batch))
            if self._waiting:  # the loop reads further requests first
                self._timer = loop.call_soon(self._start, loop)
        else:
            self._is_running = True
            self._work.put((loop, batch))

    def _size(self, batch: list[Waiting]) -> int:
        """Return the batch size of a run; 0 if the requests run alone or in parts."""
        count = sum(item.count for item in batch)
        is_one_run = batch[0].key is not None and count <= self.sizes[-1]
        return padded_size(count, self.sizes) if is_one_run else 0

    def _take(self) -> list[Waiting]:
        """Remove the requests of the next batch from the queue."""
        batch, left, count = list[Waiting](), deque[Waiting](), 0
        for item in self._waiting:
            if item.done.done():
                self.metrics.dropped += 1
                self._count -= item.count
            elif not batch or self._fits(item, batch[0], count):
                batch.append(item)
                count += item.count
            else:
                left.append(item)
        self._waiting = left
        self._count -= count
        return batch

    def _fits(self, item: Waiting, first: Waiting, count: int) -> bool:
        return (
            item.key is not None
            and item.key == first.key
            and count + item.count <= self.sizes[-1]
        )

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], outcomes: list[Outcome]
    ) -> None:
        self._is_running = False
        self._answer(batch, outcomes)
        if self._waiting:
            self._start(loop)

    def _answer(self, batch: list[Waiting], outcomes: list[Outcome]) -> None:
        for item, outcome in zip(batch, outcomes, strict=True):
            if item.done.done():
                continue
            if isinstance(outcome, Exception):
                item.done.set_exception(outcome)
            else:
                item.done.set_result(outcome)

    # ---- in the thread -----------------------------------------------------------------------

    def _run_batches(self) -> None:
        while (work := self._work.get()) is not None:
            loop, batch = work
            outcomes = self._outcomes(batch)
            try:
                loop.call_soon_threadsafe(self._finish, loop, batch, outcomes)
            except RuntimeError:  # the loop was closed
                self._is_running = False

    def _outcomes(self, batch: list[Waiting]) -> list[Outcome]:
        started = perf_counter()
        try:
            outcomes: list[Outcome] = [*self._run_joined(batch)]
        except Exception as error:
            if len(batch) == 1:
                outcomes = [error]
            else:
                LOGGER.warning(
                    "model %s: a batch of %d requests failed, and is repeated one by one.",
                    self.model.name,
                    len(batch),
                )
                self.metrics.repeated += 1
                outcomes = [outcome for item in batch for outcome in self._outcomes([item])]
                return outcomes
        seconds = perf_counter() - started
        self.metrics.count_batch(len(batch), seconds)
        if self._quick is not None and (size := self._size(batch)):
            self._quick.add(size, seconds)
        return outcomes

    def _run_joined(self, batch: list[Waiting]) -> list[Arrays]:
        first, signature = batch[0], self.model.signature
        if first.key is None:
            return [self._checked(self.model.run(first.feed))]
        if first.count > self.sizes[-1]:
            parts = split_feed(signature, first.feed, self.sizes[-1])
            outputs = [
                next(iter(self._run_padded([part], [row_count(signature, part)])))
                for part in parts
            ]
            return [join_outputs(signature, outputs)]
        return self._run_padded([item.feed for item in batch], [item.count for item in batch])

    def _run_padded(self, feeds: list[Arrays], counts: list[int]) -> list[Arrays]:
        signature, count = self.model.signature, sum(counts)
        size = padded_size(count, self.sizes)
        self.metrics.elements += count
        self.metrics.padded += size - count
        outputs = self.model.run(join_feeds(signature, feeds, size))
        return [*split_outputs(signature, outputs, counts)]

    def _checked(self, outputs: Arrays) -> Arrays:
        missing = self.model.signature.outputs.keys() - outputs.keys()
        if missing:
            raise RefusalError(500, f"the model did not compute {sorted(missing)}.")
        return outputs
