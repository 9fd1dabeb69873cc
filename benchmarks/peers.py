"""Optional libraries for comparisons, and their common settings."""

from __future__ import annotations

import os
from importlib.util import find_spec

OPTIONAL = ("equinox", "torch", "tensorflow", "paddle", "onnxruntime", "matplotlib")


def installed(name: str) -> bool:
    """Whether a library can be imported."""
    return find_spec(name) is not None


def cores() -> int:
    """The number of processors of this process, and of threads of each side."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
