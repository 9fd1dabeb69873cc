"""Kernels on several devices, with workarounds for bugs of XLA's partitioner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.define.definition import Values
from braces.lazy import jax
from braces.lower.sharding.unsharded_axes import compute_with_unsharded_axes
from braces.lower.sharding.window_barriers import with_barriers


def compute_on_devices(
    compute: Callable[[Values], Any], values: Values, path: str, mesh: Any
) -> Any:
    """Compute a kernel, traced once to find the workarounds that it needs.

    Args:
        compute: The kernel, as a function of its operands.
        values: Its operands.
        path: The path of the operator.
        mesh: The devices.
    """
    code, shapes = jax.make_jaxpr(compute, return_shape=True)(values)
    values = with_barriers(code, values, path)
    results = compute_with_unsharded_axes(code, values, mesh)
    if results is None:
        return compute(values)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)
