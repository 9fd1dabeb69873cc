"""The order of the rows of an epoch, cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from braces.loaders.core.columns import Indices

Rows: TypeAlias = Indices | range
"""The rows of one batch: their indices, or a range in stored order."""


@dataclass(frozen=True)
class Order:
    """The order of the rows in each epoch.

    The order of epoch `e` is `np.random.default_rng((seed, e)).permutation(rows)`, so that it
    follows from two integers. Rows that are read in several groups are permuted within their
    group, and the groups among each other.

    Attributes:
        rows: The number of rows.
        batch_size: The number of rows of a batch.
        seed: The seed.
        shuffle: Whether the rows are permuted; otherwise they are in stored order.
        drop_last: Whether a smaller last batch is left out.
        groups: The numbers of rows of the groups.
    """

    rows: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    groups: Sequence[int] = field(default=())

    def __len__(self) -> int:
        """Return the number of batches."""
        return count_batches(self.rows, self.batch_size, self.drop_last)

    def permutation(self, epoch: int) -> Indices:
        """Return the rows of an epoch in their order."""
        if not self.shuffle:
            return np.arange(self.rows)
        rng = np.random.default_rng((self.seed, epoch))
        if len(self.groups) < 2:
            return rng.permutation(self.rows)
        starts = np.cumsum([0, *self.groups])
        drawn = rng.permutation(len(self.groups))
        return np.concatenate([starts[g] + rng.permutation(self.groups[int(g)]) for g in drawn])

    def batches(self, epoch: int) -> Callable[[int], tuple[Rows, int]]:
        """Return a function from the number of a batch to its rows and the length 0."""
        size, rows = self.batch_size, self.rows
        if not self.shuffle:
            return lambda i: (range(i * size, min((i + 1) * size, rows)), 0)
        order = self.permutation(epoch)
        return lambda i: (order[i * size : (i + 1) * size], 0)

    def record(self) -> dict[str, Any]:
        """Return the order as plain JSON."""
        return {
            "rows": self.rows,
            "batch_size": self.batch_size,
            "seed": self.seed if self.shuffle else None,
            "drop_last": self.drop_last,
            "groups": len(self.groups) if self.shuffle and len(self.groups) > 1 else None,
        }


def count_batches(rows: int, size: int, drop_last: bool) -> int:
    """Return the number of batches of rows."""
    return rows // size if drop_last else -(-rows // size)


def row_numbers(rows: Rows) -> Indices:
    """Return the rows of a batch as indices."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
