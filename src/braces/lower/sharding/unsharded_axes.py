"""Axes kept whole on several devices, for operations that XLA does not partition correctly.

XLA's partitioner gives wrong numbers, refuses, or aborts the process where operands of some
operations are cut along some axes: convolutions with dilation or groups, and windows with
dilation. `WHOLE` maps primitives to functions that return these axes, by the parameters of the
primitive. A kernel with such a primitive is evaluated with the operands and results of the
primitive pinned to be whole along these axes. All other axes, such as the rows of a batch, lie
as before. Primitives of `braces.lower.sharding.batch_shards` have the axes whole that one item
of their batch has, and each device applies them to its own items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from braces.lazy import extend, jax
from braces.lower.sharding.batch_shards import INNER, apply_to_own_batch
from braces.ops.control.partition.kernel_cost import inner_computations
from braces.ops.conv_pool.lax_conv import PARTS

Traced: TypeAlias = Any
"""A computation that JAX traced, or a part of one."""
Axes: TypeAlias = Iterable[int]


def _of_convolution(equation: Traced) -> list[Axes]:
    """The axes of both operands and of the result of a convolution of JAX.

    Windows with dilation, or padding that crops, have their spatial axes whole. Groups have the
    axes whole along which they lie.
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


def _of_ways(equation: Traced) -> list[Axes]:
    """The same for a convolution or a derivative of it that depends on the platform.

    A derivative has strides and spacings as dilations, and crops what was padded by more than
    the window reads.
    """
    windows, rank = equation.params["windows"], len(equation.params["windows"].strides)
    order = OPERANDS[equation.primitive.name]
    apart = [*windows.spacings, *windows.dilations]
    if order[-1] != "out":
        apart += windows.strides
    shapes = [one.aval.shape for one in (*equation.invars, *equation.outvars)]
    most = min(shapes[order.index("kernel")][:rank]) - 1 if order[-1] == "x" else math.inf
    whole = max(apart) > 1 or any(not 0 <= pad <= most for pad in chain(*windows.pads))
    space = range(-1 - rank, -1) if whole else ()
    kernel = (*range(rank if whole else 0), *((-1, -2) if windows.groups > 1 else ()))
    value = (*space, *((-1,) if windows.groups > 1 else ()))
    return [kernel if name == "kernel" else value for name in order]


OPERANDS = {
    f"convolution_{part}": (*(other for other in PARTS if other != part), part)
    for part in PARTS
}
"""The operands and result of convolutions that depend on the platform, by primitive."""


def _of_windows(equation: Traced) -> list[Axes]:
    """The axes along which windows with dilation reach further than one entry."""
    params = equation.params
    if not _is_dilated(params, "base_dilation", "window_dilation"):
        return []
    sizes = zip(*(params[n] for n in SIZES_OF_WINDOWS), strict=True)
    return [[at for at, each in enumerate(sizes) if max(each) > 1]]


SIZES_OF_WINDOWS = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


def _is_dilated(params: Mapping[str, Any], *names: str) -> bool:
    """Tell if windows have dilation, or padding that crops."""
    return any(max(params[name], default=1) > 1 for name in names) or any(
        min(each) < 0 for each in params["padding"]
    )


WHOLE: dict[str, Callable[[Traced], list[Axes]]] = {
    "conv_general_dilated": _of_convolution,
    **dict.fromkeys(OPERANDS, _of_ways),
    "reduce_window": _of_windows,
    "reduce_window_max": _of_windows,
    "reduce_window_min": _of_windows,
    "reduce_window_sum": _of_windows,
}
"""The axes to be whole, for each operand and result; the last holds for those that follow."""


def with_whole_axes(code: Traced, values: Any, mesh: Any) -> list[Any] | None:
    """Compute a kernel whose operations have the axes whole that XLA does not partition right.

    Args:
        code: The kernel, as JAX traced it for these operands.
        values: The operands.
        mesh: The devices.

    Returns:
        The leaves of its results; `None` where it has no such operation.
    """
    if not _is_concerned(code.jaxpr):
        return None
    return _evaluate(code, mesh, *jax.tree.leaves(values))


def _is_concerned(code: Traced) -> bool:
    """Tell if a traced computation has an operation that needs whole axes."""
    return any(
        any(_whole_axes(one))
        or one.primitive.name in INNER
        or any(map(_is_concerned, inner_computations(one.params.values())))
        for one in code.eqns
    )


def _whole_axes(equation: Traced) -> list[Axes]:
    found = WHOLE.get(equation.primitive.name)
    return [] if found is None else found(equation)


def _evaluate(closed: Traced, mesh: Any, *operands: Any) -> list[Any]:
    """Evaluate a traced computation with pins."""
    code = closed.jaxpr
    env = dict(zip(code.constvars, closed.consts, strict=True))
    env |= zip(code.invars, operands, strict=True)

    def read(atoms: Iterable[Traced]) -> list[Any]:
        return [x.val if isinstance(x, extend.Literal) else env[x] for x in atoms]

    for equation in code.eqns:
        with equation.ctx.manager:
            made = _applied(equation, read(equation.invars), mesh)
        env |= zip(equation.outvars, made, strict=True)
    return read(code.outvars)


def _applied(equation: Traced, operands: Sequence[Any], mesh: Any) -> list[Any]:
    """Apply one operation, its operands and results pinned."""
    primitive, axes = equation.primitive, _whole_axes(equation)
    if primitive.name in INNER:
        return [apply_to_own_batch(equation, *operands)]
    params = {name: _inside(value, mesh) for name, value in equation.params.items()}
    given = _pinned(operands, axes, mesh)
    made = primitive.bind(*given, **primitive.get_bind_params(params))
    results = made if primitive.multiple_results else [made]
    return _pinned(results, axes[-1:], mesh)


def _inside(value: Traced, mesh: Any) -> Traced:
    """A parameter of an operation, with pins in the computations that it has."""
    if isinstance(value, tuple) and any(isinstance(one, extend.ClosedJaxpr) for one in value):
        return tuple(_inside(one, mesh) for one in value)
    if not isinstance(value, extend.ClosedJaxpr) or not _is_concerned(value.jaxpr):
        return value
    return jax.make_jaxpr(partial(_evaluate, value, mesh))(*value.in_avals)


def _pinned(values: Sequence[Any], axes: Sequence[Axes], mesh: Any) -> list[Any]:
    """Pin values to be whole along axes; the last of these hold for all that follow."""
    pairs = zip_longest(values, axes[: len(values)], fillvalue=axes[-1] if axes else ())
    return [_whole(value, along, mesh) for value, along in pairs]


def _whole(value: Any, axes: Axes, mesh: Any) -> Any:
    """Pin a value to be whole along axes, and leave the others to XLA."""
    chosen = {axis % value.ndim for axis in axes if value.ndim}
    if not chosen:
        return value
    free = jax.sharding.PartitionSpec.UNCONSTRAINED
    parts = (None if axis in chosen else free for axis in range(value.ndim))
    spec = jax.sharding.PartitionSpec(*parts)
    return jax.lax.with_sharding_constraint(value, jax.sharding.NamedSharding(mesh, spec))
