"""A character transformer on Python's standard library, with PyTorch's loss beside it."""

from __future__ import annotations

from pathlib import Path


def pytorch_path() -> Path:
    """The program of the comparison; it runs where PyTorch is installed."""
    return Path(__file__).with_name("pytorch.py")
