"""Shared helpers of the tests of checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import braces as br


def state() -> br.Scope:
    """A scope with something to save."""
    scope = br.Scope()
    scope.var("w").set([1.0, 2.0])
    scope.var("random_state").set(np.array([3, 4], np.uint32))
    return scope


def steps(folder: Path) -> list[int]:
    """The steps that files of a folder are called by."""
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.iterdir())
