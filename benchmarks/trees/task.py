"""Trees as rows of a shift-reduce parser, and the initial values of the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = dict[str, Any]

WORDS, REDUCE, NOTHING = 7, -1, -2
"""How many words there are; what a row says to reduce; and what lies behind its end."""
MOST_TRIPS, STILL = 8, 1e-2
"""How often the trees are read at most; how little the roots move when they stand still."""


@dataclass(frozen=True)
class Task:
    """The inputs of all sides.

    Attributes:
        rows: The number of trees.
        height: The height of the highest tree.
        width: The width of a vector.
        seed: The seed of the trees.
    """

    rows: int = 6
    height: int = 3
    width: int = 6
    seed: int = 1

    def __str__(self) -> str:
        steps = sum(map(len, self.trees))
        return f"{self.rows} trees of {steps} steps, vectors of {self.width}"

    @property
    def depth(self) -> int:
        """The maximum number of vectors on the stack."""
        return self.height + 2

    @cached_property
    def trees(self) -> list[list[int]]:
        """The words and reductions of each tree."""
        rng = np.random.default_rng(self.seed)

        def tree(height: int) -> list[int]:
            if height == 0 or rng.random() < 0.2:
                return [int(rng.integers(0, WORDS))]
            return [*tree(height - 1), *tree(height - 1), REDUCE]

        return [tree(self.height) for _ in range(self.rows)]

    @cached_property
    def feed(self) -> Values:
        """The trees as rows of one length, and their lengths."""
        lengths = list(map(len, self.trees))
        steps = np.full((self.rows, max(lengths)), NOTHING, "int32")
        for row, tree in zip(steps, self.trees, strict=True):
            row[: len(tree)] = tree
        return {"steps": steps, "lengths": np.array(lengths, "int32")}

    @cached_property
    def values(self) -> Values:
        """The parameters: `emb` of words, `join` of two vectors, `read` of the context."""
        rng, n = np.random.default_rng(3), self.width
        return {
            "emb": rng.normal(0, 0.5, (WORDS, n)),
            "join": rng.normal(0, 0.5, (2 * n, n)),
            "read": rng.normal(0, 0.3, (n, n)),
        }

    @property
    def weights(self) -> Any:
        """The weight of each number of the roots in the loss."""
        return np.arange(1.0, self.width + 1)
