"""Out-of-memory errors, raised before a run donates its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.errors import RunError

LARGE_BYTES = 1 << 28
"""Smaller allocations are not probed."""


def needed_bytes(code: Any) -> int:
    """Return the bytes that compiled code allocates in each run, temporaries included.

    Results in donated buffers need no allocation.
    """
    analysis = code.memory_analysis()
    if analysis is None:
        return 0
    allocated = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return int(analysis.temp_size_in_bytes + allocated)


def probe_memory(size_bytes: int, device: Any) -> None:
    """Probe an allocation before a run, which would lose its state if it failed later.

    An accelerator reports its free memory. A CPU does not: there the memory is allocated, and
    released unused.

    Raises:
        RunError: If the allocation fails.
    """
    memory: Mapping[str, int] = device.memory_stats() or {}
    if "bytes_limit" in memory:
        free = memory["bytes_limit"] - memory["bytes_in_use"]
        if size_bytes > free:
            raise out_of_memory(f"{size_bytes:,} bytes, of which {free:,} are free on {device}")
        return
    try:
        np.empty(size_bytes, "uint8")  # nothing is written, so it costs nothing
    except MemoryError:
        raise out_of_memory(f"{size_bytes:,} bytes") from None


def out_of_memory(asked: str) -> RunError:
    """Return the error for a refused allocation."""
    return RunError(
        "out of memory.",
        given=asked,
        fix="Use smaller shapes, or a machine with more memory.",
    )
