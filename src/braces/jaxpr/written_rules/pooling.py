"""Rules of reductions over windows, and of the elements that windows select.

The maximum, minimum and sum of windows are pooling operators, over three axes at a time. Exact
sums of integers, bools and other combining functions are reductions of all rows of a window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dims import product
from braces.dtypes import BOOL, is_float
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.jaxpr.rules.convolution import LAYOUTS, empty_of, in_order, pad_with_number
from braces.jaxpr.rules.shape import reshape_to
from braces.jaxpr.written_rules.windows import (
    Combine,
    Windows,
    fold_rows,
    reduce_rows,
    select_and_scatter,
    windows_of,
)
from braces.lazy import extend, jax, lax
from braces.passes.autodiff.forward_mode import jvp
from braces.passes.autodiff.reverse_mode import gradients

_jax: Any = jax
_lax: Any = lax


# ---- reductions ------------------------------------------------------------------------------


def pool(kind: str, e: Equation, x: Value) -> Value | Sequence[Value]:
    """The maximum, minimum or sum of each window."""
    if 0 in e.shape:
        return empty_of(e, x)
    is_exact_sum = kind == "sum" and e.dtype.kind in "iu"
    if is_exact_sum or e.dtype == BOOL:
        return e.written(partial(reduce_rows, kind, _reduced_windows(e)), x)
    pooled = e.lift(x)
    axes = [axis for axis in range(pooled.ndim) if _slides(e, axis)]
    # The last axes are reduced first: the first of equal elements is then that of all axes.
    for end in range(len(axes), 0, -max(LAYOUTS)):
        pooled = _pool_over(kind, e, pooled, axes[max(end - max(LAYOUTS), 0) : end])
    return pooled


def _slides(e: Equation, axis: int) -> bool:
    names = ("window_dimensions", "window_strides", "base_dilation")
    return any(e.params[name][axis] != 1 for name in names) or any(e.params["padding"][axis])


def _pool_over(kind: str, e: Equation, x: Var, axes: Sequence[int]) -> Var:
    """Pool over one to three axes."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*others, *axes)
    reordered = in_order(_pad_with_identity(kind, e, x, axes), order)
    sizes, space = reordered.shape[: len(others)], reordered.shape[len(others) :]
    pooled = _build_pool(kind, reshape_to(reordered, (product(sizes), 1, *space)), e, axes)
    restored = reshape_to(pooled, (*sizes, *pooled.shape[2:]))
    return in_order(restored, np.argsort(order).tolist())


def _pad_with_identity(kind: str, e: Equation, x: Var, axes: Sequence[int]) -> Var:
    """Pad the input of a pool, and dilate it, with the identity element."""
    dtype = np.dtype(x.dtype)
    bounds = np.iinfo(dtype) if dtype.kind in "iu" else None
    neutral: dict[str, Any] = {
        "sum": 0,
        "max": bounds.min if bounds else -np.inf,
        "min": bounds.max if bounds else np.inf,
    }
    config = [(0, 0, 0)] * x.ndim
    for axis in axes:
        config[axis] = (*e.params["padding"][axis], e.params["base_dilation"][axis] - 1)
    return pad_with_number(e, x, config, np.asarray(neutral[kind], dtype)[()])


def _build_pool(kind: str, x: Var, e: Equation, slid: Sequence[int]) -> Var:
    """Build one pool; a minimum is a negated maximum, and a sum a scaled mean."""
    rank = len(slid)
    window, stride, dilation = (
        tuple(e.params[name][axis] for axis in slid)
        for name in ("window_dimensions", "window_strides", "window_dilation")
    )
    attrs: dict[str, Any] = {
        "window": window, "stride": stride, "dilation": dilation, "layout": LAYOUTS[rank],
    }  # fmt: skip
    if kind == "max":
        return emit(f"max_pool{rank}d", x, **attrs)
    if kind == "min":
        return _reverse_order(emit(f"max_pool{rank}d", _reverse_order(x), **attrs))
    return in_dtype(emit(f"avg_pool{rank}d", x, **attrs) * math.prod(window), e.dtype)


def _reverse_order(x: Var) -> Var:
    """Reverse the order of numbers; integers are inverted, because negation overflows."""
    return emit("bitwise_invert", x) if np.dtype(x.dtype).kind in "iu" else -x


def fold_windows(e: Equation, *values: Value) -> list[Value]:
    """A reduction of the windows of arrays by a function, element after element."""
    if 0 in e.shape:
        return [emit("full", shape=t.shape, value=0, dtype=t.dtype) for t in e.types]
    combine = _function(e.params["jaxpr"], e.params["consts"])
    return e.written(partial(fold_rows, combine, _reduced_windows(e)), *values)


def _reduced_windows(e: Equation) -> Windows:
    return windows_of(e, e.eqn.invars[0].aval.shape, e.eqn.outvars[0].aval.shape)


def _function(jaxpr: Any, consts: Sequence[Any]) -> Combine:
    """Return the function of a jaxpr on numbers as one on vectors."""
    library = cast("Any", extend)
    return _jax.vmap(library.jaxpr_as_fun(library.ClosedJaxpr(jaxpr, consts)))


# ---- selection in windows --------------------------------------------------------------------


def selected_add(e: Equation, source: Value, operand: Value) -> Value | Sequence[Value]:
    """A scatter-add to the selected element of each window: the gradient of a pool."""
    if _is_wide(operand):
        return e.written(partial(_add_selected, e), source, operand)
    x, pooled = _selecting_pool(e, operand)
    (grad,) = gradients(pooled, x, in_dtype(e.lift(source), pooled.dtype))
    return in_dtype(emit("zeros_like", x) if grad is None else grad, e.dtype)


def _is_wide(operand: Value) -> bool:
    """Return whether doubles do not hold the elements."""
    dtype = np.dtype(operand.dtype)
    return dtype.kind in "iu" and dtype.itemsize == 8


def _add_selected(e: Equation, source: Any, operand: Any) -> Any:
    """Add to the selected elements; padding may be selected, as by JAX."""
    bounds, zero = np.iinfo(operand.dtype), np.zeros((), operand.dtype)
    worst = bounds.min if _selecting_kind(e) == "max" else bounds.max
    edges = e.params["padding"]
    padded = _lax.pad(operand, operand.dtype.type(worst), [(*edge, 0) for edge in edges])
    inner = [(0, 0)] * operand.ndim
    windows = windows_of(e, padded.shape, source.shape, padding=inner)
    select = partial(_bind, e.params["select_prim"])
    sums = select_and_scatter(select, None, windows, padded, source, zero)
    return _lax.pad(sums, zero, [(-low, -high, 0) for low, high in edges])


def _bind(primitive: Any, *arrays: Any) -> list[Any]:
    return [primitive.bind(*arrays)]


def selected_gather(e: Equation, tangents: Value, operand: Value) -> Var:
    """A gather of the selected element of each window: the tangent of a pool."""
    if _is_wide(operand):
        e.refuse("64-bit integers")
    x, pooled = _selecting_pool(e, operand)
    (tangent,) = jvp(pooled, x, e.lift(tangents))
    return emit("zeros_like", pooled) if tangent is None else tangent


def _selecting_pool(e: Equation, operand: Value) -> tuple[Var, Var]:
    """Return the operand, and the pool that selects the same elements."""
    # A separate variable, to differentiate with respect to it. Doubles hold 32-bit integers.
    x = emit("identity", e.lift(operand))
    if not is_float(x.dtype):
        x = emit("cast", x, dtype="float64")
    ones = (1,) * x.ndim
    params = {"base_dilation": ones, "window_dilation": ones, **e.params}
    pooled = pool(_selecting_kind(e), replace(e, eqn=e.eqn.replace(params=params)), x)
    return x, cast("Var", pooled)


def _selecting_kind(e: Equation) -> str:
    """Return the pool that selects elements by a comparison."""
    kind = {"ge": "max", "le": "min"}.get(e.params["select_prim"].name)
    if kind is None:
        e.refuse(f"select_prim={e.params['select_prim'].name}")
    return kind


def scatter_selected(e: Equation, operand: Value, source: Value, init: Value) -> list[Value]:
    """A scatter to the element of each window that a function selects, by another function."""
    select = _function(e.params["select_jaxpr"], e.params["select_consts"])
    scatter = None
    if not _is_sum(e.params["scatter_jaxpr"]):
        scatter = _function(e.params["scatter_jaxpr"], e.params["scatter_consts"])
    windows = windows_of(e, *(atom.aval.shape for atom in e.eqn.invars[:2]))
    return e.written(
        partial(select_and_scatter, select, scatter, windows), operand, source, init
    )


def _is_sum(jaxpr: Any) -> bool:
    """Return whether a function of two numbers is their sum."""
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    return names == ["add"] and set(jaxpr.eqns[0].invars) == set(jaxpr.invars)


POOLING: Mapping[str, Rule] = {
    "reduce_window": fold_windows,
    "reduce_window_max": partial(pool, "max"),
    "reduce_window_min": partial(pool, "min"),
    "reduce_window_sum": partial(pool, "sum"),
    "select_and_gather_add": selected_gather,
    "select_and_scatter": scatter_selected,
    "select_and_scatter_add": selected_add,
}
