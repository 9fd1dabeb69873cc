"""Data sets of grain as batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from braces.errors import FeedError, ProgramError
from braces.lazy import grain
from braces.loaders.core.data_set import check_position
from braces.loaders.streams import SizedStreamBatches, Stream, StreamBatches
from braces.loaders.workers import prepare_grain

LONGEST = 1 << 62
"""The length from which on a data set of grain counts as repeated without end."""


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
        return StreamBatches(stream)
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
            return iter(part.to_iter_dataset()), start
        options = grain.MultiprocessingOptions(num_workers=self._workers)
        read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        return iter(part.to_iter_dataset(read).mp_prefetch(options)), start
