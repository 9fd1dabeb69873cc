"""One run of a model of another package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.real_models.cases import CASES
from suites.onnx_files.feeds import feeds_of


@dataclass(frozen=True)
class Task:
    """A file, and its feeds.

    Attributes:
        name: The file's name in its package.
        path: Its path.
        batch: The number of examples, for the random numbers of `suites.onnx_files`; 0 for the
            first input of `examples.real_models`.
    """

    name: str
    path: Path
    batch: int = 0

    def __str__(self) -> str:
        return f"{self.name}, batch {self.batch}" if self.batch else self.name

    def feed(self) -> Mapping[str, np.ndarray]:
        """The inputs of one run."""
        if self.batch:
            return feeds_of(self.name).make(self.batch)
        return CASES[self.name]()[0].feeds[0]
