"""Rules of gathers, scatters and dynamic slices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.lazy import extend, jax, jnp

_jax: Any = jax
_np: Any = jnp

GATHERED = ("offset_dims", "collapsed_slice_dims", "start_index_map")
SCATTERED = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
BATCHING = ("operand_batching_dims", "start_indices_batching_dims")
"""The names of JAX's dimension numbers, and of our operators' attributes."""


def dynamic_slice(e: Equation, x: Value, *starts: Value) -> Var:
    """A dynamic slice; the words of a random key are taken whole."""
    var, start_vars = e.lift(x), list(map(e.lift, starts))
    start_vars += [e.lift_number(0)] * (var.ndim - len(start_vars))
    outputs = apply("dynamic_slice", {"x": (var,), "starts": start_vars}, {"sizes": e.shape})
    return outputs["out"][0]


def dynamic_update_slice(e: Equation, x: Value, update: Value, *starts: Value) -> Var:
    """A dynamic update of a slice; the words of a random key are replaced whole."""
    var, start_vars = e.lift(x), list(map(e.lift, starts))
    start_vars += [e.lift_number(0)] * (var.ndim - len(start_vars))
    operands = {"x": (var,), "update": (e.lift(update),), "starts": start_vars}
    return apply("dynamic_update_slice", operands)["out"][0]


def gather(e: Equation, x: Value, indices: Value) -> Var:
    """A gather, by JAX's dimension numbers."""
    numbers, attrs = e.params["dimension_numbers"], dict[str, Any]()
    for name in (*GATHERED, *BATCHING):
        attrs[name] = tuple(map(int, getattr(numbers, name)))
    attrs["slice_sizes"] = e.sizes(e.params["slice_sizes"])
    attrs["mode"] = _mode(e)
    fill_value_, nan = e.params["fill_value"], e.dtype.kind in "fcV"
    is_default = fill_value_ is None or (nan and np.isnan(fill_value_))
    gathered = emit("lax_gather", e.lift(x), e.lift(indices), **attrs)
    if attrs["mode"] == "clip" or is_default:
        return gathered
    in_bounds = emit(
        "lax_gather", emit("ones_like", e.lift(x), dtype="int32"), e.lift(indices), **attrs
    )
    number = e.lift(np.asarray(fill_value_, e.dtype))
    return emit("where", emit("equal", in_bounds, e.lift_number(1)), gathered, number)


def scatter(reduction: str, e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """A scatter, by JAX's dimension numbers."""
    numbers, values = e.params["dimension_numbers"], map(e.lift, (x, indices, updates))
    names = (*SCATTERED, "operand_batching_dims", "scatter_indices_batching_dims")
    attrs = dict[str, Any]()
    for ours, theirs in zip((*SCATTERED, *BATCHING), names, strict=True):
        attrs[ours] = tuple(map(int, getattr(numbers, theirs)))
    mode = "clip" if "CLIP" in str(e.params["mode"]) else "fill"  # XLA drops unless it clips
    return emit("lax_scatter", *values, **attrs, reduction=reduction, mode=mode)


def scatter_overwrite(
    e: Equation, x: Value, indices: Value, updates: Value
) -> Value | list[Value]:
    """A scatter that overwrites, or applies a function to the elements at the indices."""
    if e.params["update_jaxpr"] is not None:
        return _apply_at(e, x, indices, updates)
    return scatter("set", e, x, indices, updates)


def _apply_at(e: Equation, x: Value, indices: Value, updates: Value) -> list[Value]:
    """Apply a function to elements, as often as their indices occur."""
    closed = cast("Any", extend).ClosedJaxpr(
        e.params["update_jaxpr"], e.params["update_consts"]
    )
    update = _jax.vmap(cast("Any", extend).jaxpr_as_fun(closed))
    names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    options = {name: e.params[name] for name in names}

    def apply_repeatedly(x: Any, indices: Any, updates: Any) -> Any:
        once = _np.ones(updates.shape, np.int32)
        none = _np.zeros(x.shape, np.int32)
        counts = _jax.lax.scatter_add(none, indices, once, **options)

        def step(at: Any, so_far: Any) -> Any:
            flat = so_far.reshape(-1)
            (updated,) = update(flat, _np.zeros_like(flat))
            return _np.where(at < counts, updated.reshape(x.shape), so_far)

        return _jax.lax.fori_loop(0, counts.max(initial=0), step, x)

    return e.written(apply_repeatedly, x, indices, updates)


def scatter_mul(e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """A scatter-multiply; unique indices use gather, multiply and scatter."""
    if not _has_unique_indices(e, indices):
        return scatter("mul", e, x, indices, updates)
    current = _gather_targets(e, x, indices, updates)
    return scatter("set", e, x, indices, emit("multiply", current, e.lift(updates)))


def _has_unique_indices(e: Equation, indices: Value) -> bool:
    """Return whether all indices are unique."""
    return e.params["unique_indices"] or all(size == 1 for size in indices.shape[:-1])


def _gather_targets(e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """Return the elements that a scatter updates."""
    numbers, var = e.params["dimension_numbers"], e.lift(x)
    windows = tuple(map(int, numbers.update_window_dims))
    collapsed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter([updates.shape[axis] for axis in windows])
    return emit(
        "lax_gather",
        var,
        e.lift(indices),
        offset_dims=windows,
        collapsed_slice_dims=tuple(map(int, numbers.inserted_window_dims)),
        start_index_map=tuple(map(int, numbers.scatter_dims_to_operand_dims)),
        slice_sizes=tuple(1 if axis in collapsed else next(sizes) for axis in range(var.ndim)),
        operand_batching_dims=tuple(map(int, numbers.operand_batching_dims)),
        start_indices_batching_dims=tuple(map(int, numbers.scatter_indices_batching_dims)),
        mode=_mode(e),
    )


def scatter_sub(e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """A scatter-subtract."""
    return scatter("add", e, x, indices, -e.lift(updates))


def _mode(e: Equation) -> str:
    """Return the mode for out-of-bounds windows; promised in-bounds ones may use any."""
    return "fill" if "FILL" in str(e.params["mode"]) else "clip"


PLACES: Mapping[str, Rule] = {
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter_overwrite,
    "scatter-add": partial(scatter, "add"),
    "scatter-max": partial(scatter, "max"),
    "scatter-min": partial(scatter, "min"),
    "scatter-mul": scatter_mul,
    "scatter-sub": scatter_sub,
}
