"""One run of a model of another package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """A file, and its feeds: the first input of the example.

    Attributes:
        name: The file's name in its package; `examples.real_models` has its feeds.
        path: Its path.
    """

    name: str
    path: Path

    def __str__(self) -> str:
        return self.name
