"""The order of the rows of an epoch, cut into batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.int64]] | slice
"""The rows of one batch: their indices, or a range in stored order."""


@dataclass(frozen=True)
class Order:
    """The order of the rows in each epoch.

    The order of epoch `e` is `np.random.default_rng((seed, e)).permutation(rows)`, so that it
    follows from two integers.

    Attributes:
        rows: The number of rows.
        batch_size: The number of rows of a batch.
        seed: The seed.
        shuffle: Whether the rows are permuted; otherwise they are in stored order.
        drop_last: Whether a smaller last batch is left out.
    """

    rows: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False

    def __len__(self) -> int:
        """Return the number of batches."""
        return (self.rows if self.drop_last else self.rows + self.batch_size - 1) // (
            self.batch_size
        )

    def permutation(self, epoch: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the rows of an epoch in their order."""
        if not self.shuffle:
            return np.arange(self.rows)
        return np.random.default_rng((self.seed, epoch)).permutation(self.rows)

    def batches(self, epoch: int) -> Callable[[int], Rows]:
        """Return a function from the number of a batch of an epoch to its rows."""
        size = self.batch_size
        if not self.shuffle:
            return lambda i: slice(i * size, min((i + 1) * size, self.rows))
        order = self.permutation(epoch)
        return lambda i: order[i * size : (i + 1) * size]
