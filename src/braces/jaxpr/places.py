"""Rules of primitives that take and put what lies at places that are values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.jaxpr.equation import Equation, Rule, Value

GATHERED = ("offset_dims", "collapsed_slice_dims", "start_index_map")
SCATTERED = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
BATCHING = ("operand_batching_dims", "start_indices_batching_dims")
"""What the dimension numbers of JAX are called there, and the attributes of our operators."""


def cut_out(e: Equation, x: Value, *starts: Value) -> Var:
    """A part of an array; a key of random numbers is taken whole."""
    var, places = e.lift(x), list(map(e.lift, starts))
    places += [e.lift_number(0)] * (var.ndim - len(places))
    made = apply("dynamic_slice", {"x": (var,), "starts": places}, {"sizes": e.shape})
    return made["out"][0]


def put_in(e: Equation, x: Value, update: Value, *starts: Value) -> Var:
    """An array with a part replaced; a key of random numbers is put whole."""
    var, places = e.lift(x), list(map(e.lift, starts))
    places += [e.lift_number(0)] * (var.ndim - len(places))
    operands = {"x": (var,), "update": (e.lift(update),), "starts": places}
    return apply("dynamic_update_slice", operands)["out"][0]


def gather(e: Equation, x: Value, indices: Value) -> Var:
    """Parts of an array at places, by JAX's own dimension numbers."""
    numbers, attrs = e.params["dimension_numbers"], dict[str, Any]()
    for name in (*GATHERED, *BATCHING):
        attrs[name] = tuple(map(int, getattr(numbers, name)))
    attrs["slice_sizes"] = e.sizes(e.params["slice_sizes"])
    attrs["mode"] = _mode(e)
    filled, nan = e.params["fill_value"], e.dtype.kind in "fcV"
    usual = filled is None or (nan and np.isnan(filled))
    if attrs["mode"] == "fill" and not usual:
        e.refuse(f"with {e.params['fill_value']} for what is out of range")
    return one("lax_gather", e.lift(x), e.lift(indices), **attrs)


def scatter(reduction: str, e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """Parts put to places, by JAX's own dimension numbers."""
    numbers, values = e.params["dimension_numbers"], map(e.lift, (x, indices, updates))
    names = (*SCATTERED, "operand_batching_dims", "scatter_indices_batching_dims")
    attrs = dict[str, Any]()
    for ours, theirs in zip((*SCATTERED, *BATCHING), names, strict=True):
        attrs[ours] = tuple(map(int, getattr(numbers, theirs)))
    return one("lax_scatter", *values, **attrs, reduction=reduction, mode=_mode(e))


def scatter_sub(e: Equation, x: Value, indices: Value, updates: Value) -> Var:
    """Parts taken away at places."""
    return scatter("add", e, x, indices, -e.lift(updates))


def _mode(e: Equation) -> str:
    """What becomes of parts that reach over an end; where none does, either."""
    return "fill" if "FILL" in str(e.params["mode"]) else "clip"


PLACES: Mapping[str, Rule] = {
    "dynamic_slice": cut_out,
    "dynamic_update_slice": put_in,
    "gather": gather,
    "scatter": partial(scatter, "set"),
    "scatter-add": partial(scatter, "add"),
    "scatter-max": partial(scatter, "max"),
    "scatter-min": partial(scatter, "min"),
    "scatter-sub": scatter_sub,
}
