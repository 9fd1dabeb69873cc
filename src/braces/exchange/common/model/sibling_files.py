"""Files that lie beside a model, and nowhere else."""

from __future__ import annotations

from pathlib import Path


def place_beside(folder: Path, location: str) -> Path | None:
    """The path of a file that a model names; `None` where it would leave the model's folder."""
    root = folder.resolve()
    if not location or "\0" in location:
        return None
    path = (root / location).resolve()
    return path if path.is_relative_to(root) else None
