"""Interruptible loops: compiled loops that call Python at intervals to check for cancellation.

A loop without a known trip count runs in pieces. At the end of each piece it calls the FFI
target of `braces.lower.interrupt.run_handle` with its iteration, the number of the run's handle
and its own number, all `int64`. The result is the iteration at which the next piece ends, or
`STOPPED`: after a time limit, Ctrl-C or cancellation. The first piece is so long that short
loops never call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from braces.define.decorator import OPS
from braces.dims import substitute
from braces.dtypes import TensorType
from braces.ir.records import Body, Op, VarInfo
from braces.lazy import jax, jnp, lax
from braces.lower.interrupt.run_handle import FFI_TARGET
from braces.lower.xla.concrete_attributes import Sizes

MAX_FIRST_ITERATIONS, FIRST_PIECE_WORK, WORK_PER_OP = 4096, 1 << 22, 256
UNKNOWN_SIZE = 64


def build_interruptible_while(
    check: Callable[[Any], Any],
    step: Callable[[Any], Any],
    carry: Any,
    next_end: Callable[[Any], Any],
    first: int,
) -> tuple[Any, Any]:
    """Build a `while_loop` in pieces; return its carry and the end of its last piece.

    A piece that stopped before its end was the last one. So the outer loop does not evaluate
    the condition, which would be compiled twice.

    Args:
        check: The condition of the loop.
        step: One iteration.
        carry: The iteration, and anything.
        next_end: Returns the iteration at which the next piece ends, given the current one.
        first: The iteration at which the first piece ends.
    """

    def within(loop_carry: Any) -> Any:
        return check(loop_carry[0]) & (loop_carry[0][0] < loop_carry[1])

    def piece(loop_carry: Any) -> Any:
        carry, _ = loop_carry
        end = lax.cond(
            carry[0] == 0, lambda: jnp.asarray(first, "int64"), lambda: next_end(carry[0])
        )
        return lax.while_loop(
            within, lambda loop_carry: (step(loop_carry[0]), loop_carry[1]), (carry, end)
        )

    return lax.while_loop(
        lambda loop_carry: loop_carry[0][0] == loop_carry[1], piece, (carry, carry[0])
    )


def build_interruptible_scan(
    step: Callable[..., Any],
    carry: Any,
    xs: Any,
    length: int,
    reverse: bool,
    repeat: Callable[..., Any],
) -> Any:
    """Build a `lax.scan` with the loop `repeat`; the status of the run is a carry."""

    def slices_at(trip: Any) -> tuple[Any, Any]:
        at = length - 1 - trip if reverse else trip
        return at, jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, at, keepdims=False), xs)

    def iterate(loop_carry: Any) -> Any:
        trip, (values, rows), state = loop_carry
        at, slices = slices_at(trip)
        (values, state), outputs = step((values, state), slices)
        rows = jax.tree.map(
            lambda row, value: lax.dynamic_update_index_in_dim(row, value, at, 0), rows, outputs
        )
        return trip + 1, (values, rows), state

    def check(loop_carry: Any) -> Any:
        return (loop_carry[0] < length) & loop_carry[2].running

    zero = jnp.asarray(0, "int64")
    _, shapes = jax.eval_shape(step, carry, slices_at(zero)[1])
    rows = jax.tree.map(lambda row: jnp.zeros((length, *row.shape), row.dtype), shapes)
    _, (values, rows), state = repeat(check, iterate, (zero, (carry[0], rows), carry[1]))
    return (values, state), rows


def call_next_end(iteration: Any, run_number: Any, loop: int) -> Any:
    """Call back for the iteration at which the next piece ends, or `STOPPED`."""
    call = jax.ffi.ffi_call(FFI_TARGET, jax.ShapeDtypeStruct((), np.int64))
    return call(iteration, run_number, jnp.asarray(loop, "int64"))


def may_be_interruptible(body: Body) -> bool:
    """Return whether a block may contain interruptible loops."""
    return any(
        any(map(may_be_interruptible, bodies.values()))
        if OPS.get(op.type).transparent
        else bool(bodies)
        for op in body.ops
        if (bodies := op.bodies())
    )


# ---- length of the first piece ---------------------------------------------------------------


def first_iterations(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> int:
    """Return the iterations of the first piece, which takes some milliseconds."""
    work = sum(_estimate_block_work(body, infos, sizes) for body in op.bodies().values())
    return int(min(max(FIRST_PIECE_WORK // max(work, 1), 1), MAX_FIRST_ITERATIONS))


def _estimate_block_work(body: Body, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """Estimate the multiplications of a block from its types."""
    infos = {**infos, **body.vars}
    return sum(_estimate_op_work(op, infos, sizes) for op in body.ops)


def _estimate_op_work(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """Estimate one operator: the root of its three largest sizes, exact for matmuls."""
    inner = sum(_estimate_block_work(body, infos, sizes) for body in op.bodies().values())
    names = (*op.reads(), *op.binds())
    counts = sorted(_count_elements(infos[name], sizes) for name in names if name in infos)
    return WORK_PER_OP + prod(counts[-3:]) ** 0.5 + inner * UNKNOWN_SIZE


def _count_elements(info: VarInfo, sizes: Sizes) -> float:
    if not isinstance(info.type, TensorType):
        return 1
    shape = (substitute(size, sizes) for size in info.type.shape)
    return float(prod(size if isinstance(size, int) else UNKNOWN_SIZE for size in shape))
