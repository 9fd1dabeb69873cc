"""Unsharded axes, for operations that XLA does not partition correctly.

XLA's partitioner gives wrong numbers, refuses, or aborts the process if operands of some
operations are sharded along some axes: convolutions with dilation or groups, and windows with
dilation. `WHOLE` maps primitives to functions that return these axes, by the parameters of the
primitive. A kernel with such a primitive is evaluated with sharding constraints on the operands
and results of the primitive, which replicate these axes. All other axes, such as the batch
axis, keep their sharding. For primitives of `braces.lower.sharding.batch_shards` the axes of
one batch element are replicated, and each device applies them to its own elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from braces.lazy import extend, jax
from braces.lower.sharding.batch_shards import ELEMENT_RANKS, apply_to_batch_shard
from braces.ops.control.partition.kernel_cost import inner_jaxprs
from braces.ops.conv_pool.lax_conv import PARTS

Traced: TypeAlias = Any
"""A computation traced by JAX, or a part of one."""
Axes: TypeAlias = Iterable[int]


def _axes_of_convolution(equation: Traced) -> list[Axes]:
    """Return the axes of both operands and of the result of a convolution of JAX.

    With window dilation, or padding that crops, the spatial axes are unsharded. With groups, so
    are the axes of the groups.
    """
    params = equation.params
    specs = params["dimension_numbers"]
    by_feature, by_batch = params["feature_group_count"] > 1, params["batch_group_count"] > 1
    grouped, dilated = (
        by_feature or by_batch,
        _is_dilated(params, "lhs_dilation", "rhs_dilation"),
    )
    spatial = slice(2, None if dilated else 2)
    left = specs.lhs_spec[:1] * by_batch + specs.lhs_spec[1:2] * by_feature
    return [
        left + specs.lhs_spec[spatial],
        specs.rhs_spec[:2] * grouped + specs.rhs_spec[spatial],
        specs.out_spec[1:2] * grouped + specs.out_spec[spatial],
    ]


def _axes_of_platform_convolution(equation: Traced) -> list[Axes]:
    """Return the same for a platform-dependent convolution or a derivative of it.

    A derivative has strides and spacings as dilations, and crops padding beyond the reach of
    the window.
    """
    windows, rank = equation.params["windows"], len(equation.params["windows"].strides)
    order = CONVOLUTION_OPERANDS[equation.primitive.name]
    distances = [*windows.spacings, *windows.dilations]
    if order[-1] != "out":
        distances += windows.strides
    shapes = [operand.aval.shape for operand in (*equation.invars, *equation.outvars)]
    most = min(shapes[order.index("kernel")][:rank]) - 1 if order[-1] == "x" else math.inf
    is_spatial = max(distances) > 1 or any(not 0 <= pad <= most for pad in chain(*windows.pads))
    space = range(-1 - rank, -1) if is_spatial else ()
    kernel = (*range(rank if is_spatial else 0), *((-1, -2) if windows.groups > 1 else ()))
    value = (*space, *((-1,) if windows.groups > 1 else ()))
    return [kernel if name == "kernel" else value for name in order]


CONVOLUTION_OPERANDS = {
    f"convolution_{part}": (*(other for other in PARTS if other != part), part)
    for part in PARTS
}
"""The operands and result of platform-dependent convolutions, by primitive."""


def _axes_of_windows(equation: Traced) -> list[Axes]:
    """Return the axes along which windows with dilation span more than one entry."""
    params = equation.params
    if not _is_dilated(params, "base_dilation", "window_dilation"):
        return []
    sizes = zip(*(params[n] for n in SIZES_OF_WINDOWS), strict=True)
    return [[at for at, each in enumerate(sizes) if max(each) > 1]]


SIZES_OF_WINDOWS = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


def _is_dilated(params: Mapping[str, Any], *names: str) -> bool:
    """Return whether windows have dilation, or padding that crops."""
    return any(max(params[name], default=1) > 1 for name in names) or any(
        min(each) < 0 for each in params["padding"]
    )


UNSHARDED_AXES: dict[str, Callable[[Traced], list[Axes]]] = {
    "conv_general_dilated": _axes_of_convolution,
    **dict.fromkeys(CONVOLUTION_OPERANDS, _axes_of_platform_convolution),
    "reduce_window": _axes_of_windows,
    "reduce_window_max": _axes_of_windows,
    "reduce_window_min": _axes_of_windows,
    "reduce_window_sum": _axes_of_windows,
}
"""The unsharded axes of each operand and result; the last entry holds for those that follow."""


def compute_with_unsharded_axes(code: Traced, values: Any, mesh: Any) -> list[Any] | None:
    """Compute a kernel with unsharded axes for operations that XLA partitions incorrectly.

    Args:
        code: The kernel, as traced by JAX for these operands.
        values: The operands.
        mesh: The devices.

    Returns:
        The leaves of its results; `None` if it has no such operation.
    """
    if not _is_concerned(code.jaxpr):
        return None
    return _evaluate(code, mesh, *jax.tree.leaves(values))


def _is_concerned(code: Traced) -> bool:
    """Return whether a traced computation has an operation with unsharded axes."""
    return any(
        any(_get_whole_axes(equation))
        or equation.primitive.name in ELEMENT_RANKS
        or any(map(_is_concerned, inner_jaxprs(equation.params.values())))
        for equation in code.eqns
    )


def _get_whole_axes(equation: Traced) -> list[Axes]:
    rule = UNSHARDED_AXES.get(equation.primitive.name)
    return [] if rule is None else rule(equation)


def _evaluate(closed: Traced, mesh: Any, *operands: Any) -> list[Any]:
    """Evaluate a traced computation with sharding constraints."""
    code = closed.jaxpr
    env = dict(zip(code.constvars, closed.consts, strict=True))
    env |= zip(code.invars, operands, strict=True)

    def values_of(atoms: Iterable[Traced]) -> list[Any]:
        return [x.val if isinstance(x, extend.Literal) else env[x] for x in atoms]

    for equation in code.eqns:
        with equation.ctx.manager:
            results = _apply_operation(equation, values_of(equation.invars), mesh)
        env |= zip(equation.outvars, results, strict=True)
    return values_of(code.outvars)


def _apply_operation(equation: Traced, operands: Sequence[Any], mesh: Any) -> list[Any]:
    """Apply one operation, with constraints on its operands and results."""
    primitive, axes = equation.primitive, _get_whole_axes(equation)
    if primitive.name in ELEMENT_RANKS:
        return [apply_to_batch_shard(equation, *operands)]
    params = {name: _constrain_param(value, mesh) for name, value in equation.params.items()}
    pinned_operands = _replicate_all(operands, axes, mesh)
    outputs = primitive.bind(*pinned_operands, **primitive.get_bind_params(params))
    results = outputs if primitive.multiple_results else [outputs]
    return _replicate_all(results, axes[-1:], mesh)


def _constrain_param(value: Traced, mesh: Any) -> Traced:
    """Return a parameter of an operation, with constraints in its inner computations."""
    if isinstance(value, tuple) and any(isinstance(item, extend.ClosedJaxpr) for item in value):
        return tuple(_constrain_param(item, mesh) for item in value)
    if not isinstance(value, extend.ClosedJaxpr) or not _is_concerned(value.jaxpr):
        return value
    return jax.make_jaxpr(partial(_evaluate, value, mesh))(*value.in_avals)


def _replicate_all(values: Sequence[Any], axes: Sequence[Axes], mesh: Any) -> list[Any]:
    """Replicate values along axes; the last entry holds for all values that follow."""
    pairs = zip_longest(values, axes[: len(values)], fillvalue=axes[-1] if axes else ())
    return [_replicate_axes(value, along, mesh) for value, along in pairs]


def _replicate_axes(value: Any, axes: Axes, mesh: Any) -> Any:
    """Replicate a value along axes, and leave the others to XLA."""
    chosen = {axis % value.ndim for axis in axes if value.ndim}
    if not chosen:
        return value
    free = jax.sharding.PartitionSpec.UNCONSTRAINED
    parts = (None if axis in chosen else free for axis in range(value.ndim))
    spec = jax.sharding.PartitionSpec(*parts)
    return jax.lax.with_sharding_constraint(value, jax.sharding.NamedSharding(mesh, spec))
