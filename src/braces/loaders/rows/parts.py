"""The part of a batch that one process of a job reads, and the padding of the last batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.errors import FeedError, ProgramError
from braces.loaders.core.columns import Array
from braces.loaders.rows.order import Rows, row_numbers
from braces.runtime.devices.process_agreement import process_count, process_index

WEIGHT = "weight"
"""The key of the weights of rows: 0 for padded ones."""


@dataclass(frozen=True)
class BatchPart:
    """One of several equal parts of each batch.

    Attributes:
        index: Its number, from 0.
        count: The number of parts.
        batch_size: The number of rows that a batch is padded to; 0 if it is not padded.
    """

    index: int = 0
    count: int = 1
    batch_size: int = 0

    @property
    def unchanged(self) -> bool:
        """True if batches are read as they are."""
        return self.count == 1 and not self.batch_size

    def rows(self, rows: Rows) -> tuple[Rows, Array | None]:
        """Return the rows of this part, and their weights if batches are padded."""
        numbers = row_numbers(rows)
        weight = None
        if self.batch_size:
            missing = self.batch_size - len(numbers)
            weight = np.ones(self.batch_size, np.float32)
            weight[len(numbers) :] = 0
            numbers = np.concatenate([numbers, np.repeat(numbers[-1:], missing)])
        size = len(numbers) // self.count
        part = slice(self.index * size, (self.index + 1) * size)
        return numbers[part], None if weight is None else weight[part]


def find_part(process: int | None, count: int | None) -> tuple[int, int]:
    """Return the number of a process and the number of processes, by default of the job.

    Raises:
        ProgramError: If only one of them is given, or the process is out of range.
    """
    if process is None and count is None:
        return process_index(), process_count()
    if process is None or count is None or not 0 <= process < count:
        raise ProgramError(
            f"invalid process={process} with count={count}.",
            fix="Pass both: process=0, count=2, or none of them.",
        )
    return process, count


def check_divisible(rows: int, batch_size: int, count: int, smaller_last: bool) -> None:
    """Refuse batches that do not divide into equal parts.

    Raises:
        FeedError: If a batch does not divide by the number of processes.
    """
    last = rows % batch_size if smaller_last else 0
    if batch_size % count or last % count:
        size = batch_size if batch_size % count else last
        raise FeedError(
            f"a batch of {size} rows does not divide into equal parts for {count} processes.",
            given=f"rows={rows}, batch_size={batch_size}, count={count}",
            fix="Use a multiple as batch_size, and drop_last=True or pad_last=True.",
        )


def add_weight(batch: dict[str, Any], weight: Array) -> None:
    """Add the weights of rows; a column of this name is multiplied by them."""
    own = batch.get(WEIGHT)
    batch[WEIGHT] = weight if own is None else own * weight.astype(own.dtype)
