"""Files next to a model, confined to its folder."""

from __future__ import annotations

from pathlib import Path


def sibling_path(folder: Path, location: str) -> Path | None:
    """Return the path of a file that a model names; `None` if it leaves the model's folder."""
    root = folder.resolve()
    if not location or "\0" in location:
        return None
    path = (root / location).resolve()
    return path if path.is_relative_to(root) else None
