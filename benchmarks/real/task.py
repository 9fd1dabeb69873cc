"""One run of a model that another package ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """A file, and what it is fed: the first input that the example gives it.

    Attributes:
        name: The file's name in its package; `examples.real_models` says what it is fed.
        path: Where it lies.
    """

    name: str
    path: Path

    def __str__(self) -> str:
        return self.name
