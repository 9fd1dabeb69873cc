"""Optimization barriers between windows and pads of one value on several devices.

If an axis is sharded, XLA's partitioner extends the shard of each device by the neighbouring
entries that a window needs, with the padding value at both ends. It caches the extended operand
by the operand and the window, but not by the padding value: a second window of the same operand
gets the padding of the first. So the operands of each kernel that pads are behind an
separate optimization barrier, which makes them distinct operands. Copies do not suffice, nor
does a second identical barrier, which XLA merges with the first.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from braces.define.definition import Values
from braces.lazy import lax
from braces.ops.control.partition.kernel_cost import inner_jaxprs

WINDOW_PRIMITIVES = frozenset(
    {
        "conv_general_dilated", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "pad",
        "reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum",
        "select_and_gather_add", "select_and_scatter", "select_and_scatter_add",
    }
)  # fmt: skip
"""The primitives of JAX that XLA partitions as windows with a padding value."""


def with_barriers(code: Any, values: Values, path: str) -> Values:
    """Return the operands of a kernel, behind barriers if the kernel pads.

    Args:
        code: The kernel, as traced by JAX for these operands.
        values: The operands.
        path: The path of the operator, which makes the barrier unique.
    """
    if not _pads(code):
        return values
    values, _ = lax.optimization_barrier((values, np.uint32(crc32(path.encode()))))
    return values


def _pads(code: Any) -> bool:
    """Return whether a traced computation has a primitive that pads."""
    return any(
        equation.primitive.name in WINDOW_PRIMITIVES
        or any(map(_pads, inner_jaxprs(equation.params.values())))
        for equation in code.eqns
    )
