"""Memory that the machine refuses: an error of the run, before anything was taken over."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.errors import RunError

LARGE_BYTES = 1 << 28
"""Less than this is not asked for beforehand."""


def needed_bytes(code: Any) -> int:
    """What compiled code allocates in each run: its results, and what it needs meanwhile."""
    found = code.memory_analysis()
    if found is None:
        return 0
    return int(found.temp_size_in_bytes + found.output_size_in_bytes)


def require(size_bytes: int) -> None:
    """See whether the machine would give so much; a run that fails later has lost its state.

    Raises:
        RunError: It would not.
    """
    try:
        np.empty(size_bytes, "uint8")  # nothing is written, so it costs nothing
    except MemoryError:
        raise out_of_memory(f"{size_bytes:,} bytes") from None


def out_of_memory(asked: str) -> RunError:
    """The error for it."""
    return RunError(
        "There is not enough memory for this run.",
        given=asked,
        fix="Use smaller shapes, or a machine with more memory.",
    )
