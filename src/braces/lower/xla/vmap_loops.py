"""Loops with independent iterations, vectorized by JAX.

The axis maps of operators let passes move most of such a loop out of it
(`braces.passes.loops.vectorize_before`). The remaining operators, such as a norm with separate
weights in each iteration, take the same time iteration by iteration on one device. On several
devices, which may share the iterations, JAX vectorizes the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import bytes_of
from braces.ir.records import BLOCK, Op
from braces.ir.walk import all_bodies
from braces.ops.control.core.block_op import BlockOp


def is_vectorizable(
    loop: Op, length: int, size: Callable[[Size], int], most_bytes: int
) -> bool:
    """Return whether all iterations of a loop without memories can be one computation.

    Args:
        loop: The loop.
        length: The trip count.
        size: Returns a size as a number.
        most_bytes: The largest size of the values of all iterations, in bytes.
    """
    bodies = [body for own in loop.bodies().values() for body, _ in all_bodies(own)]
    if not all(_is_plain(op) for body in bodies for op in body.ops):
        return False
    each = (bytes_of(info.type) for body in bodies for info in body.vars.values())
    return length * sum(map(size, each)) <= most_bytes


def _is_plain(op: Op) -> bool:
    definition = OPS.get(op.type)
    return op.type == BLOCK or not (definition.lists or isinstance(definition, BlockOp))
