"""Data sets of grain as batches."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from braces.errors import FeedError, ProgramError
from braces.lazy import grain
from braces.loaders.core.data_set import check_position
from braces.loaders.streams import SizedStreamBatches, Stream, StreamBatches
from braces.loaders.workers import close_at_exit, prepare_grain

LONGEST = 1 << 62
"""The length from which on a data set of grain counts as repeated without end."""
_PARALLEL = "iterators_in_use_states"
KEPT = 64
"""The number of states that are kept: of more batches than are usually read ahead."""


def grain_batches(stream: Stream, workers: int) -> StreamBatches:
    """Return the data set of a pipeline of grain.

    Raises:
        FeedError: If the pipeline repeats without end.
        ProgramError: If `workers` do not apply to the pipeline.
    """
    prepare_grain()
    stacking = stream.stacking
    source = stream.source
    if not isinstance(source, grain.MapDataset):
        if workers:
            raise ProgramError(
                "`workers` cannot be applied to an IterDataset.",
                fix="Call .mp_prefetch(...) in the pipeline.",
            )
        return GrainStream(stream)
    if stacking.batch_size and not stacking.pad_last:
        source = source.batch(stacking.batch_size, drop_remainder=stacking.drop_last)
        stream = replace(stream, source=source, stacking=replace(stacking, batch_size=0))
    elif stacking.batch_size:
        raise ProgramError(
            "`pad_last` cannot be applied to a data set of grain.",
            fix="Use grain.experimental.batch_and_pad as batch_fn of .batch(...).",
        )
    if len(source) >= LONGEST:
        raise FeedError(
            "the data set of grain repeats without end.", fix="Remove .repeat() from it."
        )
    return GrainBatches(stream, workers)


class Anchor(NamedTuple):
    """The state of an iterator before a batch, as JSON text."""

    epoch: int
    batch: int
    text: str


class GrainStream(StreamBatches):
    """Batches of an `IterDataset` of grain, which resumes by the state of its iterator.

    A state is good for the same pipeline with the same number of workers. Without a state, the
    batches before a position are read and dropped.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._anchors = deque[Anchor](maxlen=KEPT)

    def state(self, epoch: int, batch: int) -> Any:  # noqa: D102 - inherited
        anchor = self._anchor(epoch, batch)
        return None if anchor is None else [anchor.epoch, anchor.batch, anchor.text]

    def load_state(self, state: Any) -> None:  # noqa: D102 - inherited
        entries = cast("list[Any]", state) if isinstance(state, list) else []
        if [type(entry) for entry in entries] == [int, int, str]:
            self._anchors.append(Anchor(*entries))

    def _anchor(self, epoch: int, batch: int) -> Anchor | None:
        known = [a for a in list(self._anchors) if a.epoch == epoch and a.batch <= batch]
        return max(known, key=lambda anchor: anchor.batch, default=None)

    def _passed(self, rows: Iterator[Any], number: int, following: int) -> None:
        try:
            text = json.dumps(cast("Any", rows).get_state())
        except (TypeError, ValueError, NotImplementedError):
            return  # a transformation of the user without a state, or not of plain JSON
        self._anchors.append(Anchor(number, following, text))

    def _iterator(self, number: int, start: int) -> tuple[Iterator[Any], int]:
        rows, first = super()._iterator(number, start)
        close_at_exit(rows)
        anchor = self._anchor(number, start) if start else None
        if anchor is None:
            return rows, first
        try:
            _check_workers(anchor, rows)
            cast("Any", rows).set_state(json.loads(anchor.text))
        except FeedError:
            cast("Any", rows).close()
            raise
        except Exception:  # grain does not check states
            cast("Any", rows).close()
            self._anchors.clear()
            return self._iterator(number, start)
        return rows, anchor.batch

    def named(self, names: Sequence[str]) -> StreamBatches:  # noqa: D102 - inherited
        named = super().named(names)
        if isinstance(named, GrainStream):
            named._anchors = self._anchors
        return named


def _check_workers(anchor: Anchor, rows: Any) -> None:
    """Refuse the state of another number of worker processes, whose batches differ.

    Raises:
        FeedError: If the numbers differ.
    """
    stored, own = _worker_counts(json.loads(anchor.text)), _worker_counts(rows.get_state())
    if stored and own and stored != own:
        raise FeedError(
            "the number of workers of the data set changed.",
            given=f"{stored[0]} in the checkpoint, {own[0]} now",
            fix=f"Read with {stored[0]} workers in mp_prefetch, or begin with fresh=True.",
        )


def _worker_counts(state: Any) -> list[int]:
    """Return the numbers of parallel iterators in a state of grain, from outside inwards."""
    if isinstance(state, list):
        return sum(map(_worker_counts, cast("list[Any]", state)), list[int]())
    if not isinstance(state, dict):
        return []
    entries = cast("dict[Any, Any]", state)
    inner = sum(map(_worker_counts, entries.values()), list[int]())
    parallel = entries.get(_PARALLEL)
    return [len(cast("list[Any]", parallel)), *inner] if isinstance(parallel, list) else inner


class GrainBatches(SizedStreamBatches):
    """Batches of a `MapDataset` of grain; an element is a batch.

    Epoch `e` is the elements from `e * len(source)` on, so that grain shuffles each epoch in
    another order, and `start` reads no other batches.
    """

    def __init__(self, stream: Stream, workers: int = 0) -> None:
        super().__init__(stream)
        self._workers = workers

    def _iterator(self, number: int, start: int) -> tuple[Iterator[Any], int]:
        source, size = self._stream.source, len(self)
        check_position(number, start, size)
        part = source.repeat(number + 1)[number * size + start :]
        if not self._workers:
            rows: Iterator[Any] = iter(part.to_iter_dataset())
            close_at_exit(rows)
            return rows, start
        options = grain.MultiprocessingOptions(num_workers=self._workers)
        read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        rows = iter(part.to_iter_dataset(read).mp_prefetch(options))
        close_at_exit(rows)
        return rows, start
