"""Batched operations that each device applies to its own shard of the batch.

XLA's partitioner gathers the whole operand of some batched operations on every device, and
gives the operation a memory layout that the CPU does not accept. It aborts the process if an
axis of one batch element is sharded. `INNER` maps primitives with one operand and one result to
the number of trailing axes that one element has. JAX's `custom_partitioning` informs the
partitioner that these axes are replicated, and that all others may be sharded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from braces.lazy import batching, jax, layouts, partitioning

Traced: TypeAlias = Any
"""An operation traced by JAX."""

ELEMENT_RANKS: dict[str, Callable[[Traced], int]] = {
    "fft": lambda equation: len(equation.params["fft_lengths"]),
}
"""The number of axes that one batch element has, by primitive."""


def apply_to_batch_shard(equation: Traced, operand: Any) -> Any:
    """Apply a batched operation, on each device to its own shard of the batch.

    Args:
        equation: The operation, whose primitive is one of `INNER`.
        operand: Its operand.
    """
    primitive, inner = equation.primitive, ELEMENT_RANKS[equation.primitive.name](equation)
    params = primitive.get_bind_params(equation.params)
    # The text of compiled code does not show which operation this is, but its constants do.
    number = np.uint32(crc32(f"{primitive} {params}".encode()))

    def compute(x: Any, number: Any) -> Any:
        del number
        return primitive.bind(x, **params)

    @batching.custom_vmap
    def apply(x: Any) -> Any:
        return _partitioned(compute, x.ndim, inner)(x, number)

    @apply.def_vmap
    def apply_to_batch(size: int, batched: Any, x: Any) -> Any:
        del size, batched
        return apply(x), True

    return apply(operand)


def _partitioned(compute: Callable[..., Any], rank: int, inner: int) -> Callable[..., Any]:
    """Return an operation on one array and a number, with the partition of its batch axes."""
    replicated = (None,) * inner

    def partition(mesh: Any, operands: Any, result: Any) -> Any:
        del result
        cut = (*operands[0].sharding.spec, *(None,) * rank)[: rank - inner]
        specs = jax.sharding.PartitionSpec(*cut, *replicated), jax.sharding.PartitionSpec()
        own, alike = (jax.sharding.NamedSharding(mesh, spec) for spec in specs)
        return mesh, _row_major(compute), own, (own, alike)

    operation = partitioning.custom_partitioning(compute)
    batch = [f"batch{axis}" for axis in range(rank - inner)]
    before, after = ([f"{end}{axis}" for axis in range(inner)] for end in ("in", "out"))
    operation.def_partition(
        partition=partition,
        sharding_rule=f"{' '.join(batch + before)}, -> {' '.join(batch + after)}",
        need_replication_factors=(*before, *after),
    )
    return operation


def _row_major(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a computation whose first operand and result are row-major."""

    def by_rows(x: Any) -> Any:
        return layouts.with_layout_constraint(x, layouts.Layout(tuple(range(x.ndim))))

    return lambda x, *more: by_rows(compute(by_rows(x), *more))
