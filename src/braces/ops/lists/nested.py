"""Lists of lists as residuals: a flat list of all elements, and the count of each list.

    all = [a0, a1, a2,  b0,  c0, c1]      counts = [3, 1, 2]

`list_extend` appends one more list and `list_split` takes it off again; each is the gradient of
the other, like push and pop. Compiled, both copy as many bytes as the capacity of the one list,
independent of the number of elements on the flat list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from braces.builder.append import apply
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.decorator import Capacity, History, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dtypes import ListType, Type
from braces.lazy import jax, jnp
from braces.ops.common.rules import Backward
from braces.ops.control.core.residuals import find_filling_loop
from braces.ops.lists.list_to_array import append_filled, append_length
from braces.ops.lists.random_access import (
    check_index,
    check_value,
    declare_linear,
    require_list,
)
from braces.ops.lists.stack import ListBuffer, Stack, resize_buffer

EXTEND, SPLIT = "list_extend", "list_split"
OWN_CAPACITY_SLOT = {EXTEND: "values", SPLIT: "values"}
"""The slot whose list has a separate capacity, often far smaller than that of the other."""


def extended_list_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: all lists have the same axes, a count has none."""
    del attrs
    axes = numbered_indices(first_rank(types, "list"))
    inputs = {"list": (axes,), "values": (axes,), "count": ((),)}
    outputs = {"out": (axes,)} if "values" in types else {"values": (axes,), "rest": (axes,)}
    return make_axis_map(types, inputs, outputs, fills={})


@op(axes=extended_list_axes, lists=True, operations=0)
def list_extend(list: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """Append the elements of a list to another list.

    Inputs:
        list: list<T>.
        values: list<T>.
        count: int[]. The length of `values`; the gradient reads it instead of them.

    Outputs:
        out: list<T>.
    """
    del count
    if isinstance(list, Stack):
        return list.with_values(values.values())
    return _append_buffer(list, values)


@list_extend.infer
def infer_list_extend(
    context: InferenceContext, list: Type, values: Type, count: Type
) -> ListType:
    """Return the type of the list; the other one must have the same."""
    list_type = require_list(context, list)
    check_value(context, list_type, require_list(context, values).element)
    check_index(context, count)
    return list_type


@list_extend.gradient
def list_extend_gradient(g: Backward) -> dict[str, Var]:
    """Split the cotangent of the list: its last elements belong to the other one."""
    values, rest = append_split(g.out_grad, g["count"], _history_like(g["values"]))
    return {"list": rest, "values": values}


@op(outputs=("values", "rest"), axes=extended_list_axes, lists=True, operations=0)
def list_split(
    list: Tensor, count: Tensor, *, history: History, capacity: Capacity | None = None
) -> tuple[Tensor, Tensor]:
    """Split a list into its last `count` elements and the list before them.

    Inputs:
        list: list<T>.
        count: int[]. From 0 to the length of the list.

    Attributes:
        history: The loop whose iterations fill `values`.
        capacity: Capacity of `values` when compiled, set by the executor.

    Outputs:
        values: list<T> of this length.
        rest: list<T>.
    """
    if isinstance(list, Stack):
        below = list.below(list.count - int(count))
        return Stack.of(list.zero, [*_above(list, below)][::-1]), below
    assert capacity is not None
    count = count.astype(jnp.int32)
    values = resize_buffer(_read_slice(list, list.count - count, capacity), capacity)
    none = jnp.asarray(0, jnp.int32)
    return ListBuffer(values, count, none, history), replace(list, count=list.count - count)


@list_split.infer
def infer_list_split(
    context: InferenceContext, list: Type, count: Type, **attrs: object
) -> tuple[ListType, ListType]:
    """Return the type of the list, twice."""
    del attrs
    check_index(context, count)
    list_type = require_list(context, list)
    return list_type, list_type


@list_split.gradient
def list_split_gradient(g: Backward) -> dict[str, Var]:
    """Append the cotangent of the values to that of the rest."""
    values, rest = g.grads["values"][0], g.grads["rest"][0]
    if values is None:
        values = append_filled(g["count"], g["list"], _history_like(g["values"]))
    return {
        "list": append_extend(g.zeros("rest") if rest is None else rest, values, g["count"])
    }


def _above(list: Stack, below: Stack) -> Iterator[object]:
    """Yield the elements of a list from the top down to a list below it."""
    while list is not below:
        value, list = list.pop()
        yield value


# ---- buffers ---------------------------------------------------------------------------------


def _append_buffer(list: ListBuffer, values: ListBuffer) -> ListBuffer:
    """Append the elements of a list by one update slice of the smaller capacity."""
    part = min(list.room, values.room)
    first = jnp.clip(list.count, 0, list.room - part)
    shift, places = list.count - first, jnp.arange(part, dtype=jnp.int32)
    new = (places >= shift) & (places < shift + values.count)
    shifted = jnp.roll(values.values[:part], shift, 0)
    old_slice = jax.lax.dynamic_slice_in_dim(list.values, first, part)
    new_slice = jnp.where(new.reshape(-1, *[1] * (shifted.ndim - 1)), shifted, old_slice)
    written = jax.lax.dynamic_update_slice_in_dim(list.values, new_slice, first, 0)
    return replace(list, values=written, count=list.count + values.count)


def _read_slice(list: ListBuffer, begin: Tensor, room: int) -> Tensor:
    """Return a slice of `room` elements; elements beyond the end are undefined."""
    part = min(list.room, room)
    first = jnp.clip(begin, 0, list.room - part)
    return jnp.roll(jax.lax.dynamic_slice_in_dim(list.values, first, part), first - begin, 0)


# ---- building --------------------------------------------------------------------------------


def append_extend(list: Var, values: Var, count: Var | None = None) -> Var:
    """Append a `list_extend`."""
    count = append_length(values) if count is None else count
    return apply(EXTEND, {"list": (list,), "values": (values,), "count": (count,)})["out"][0]


def append_split(list: Var, count: Var, history: str) -> tuple[Var, Var]:
    """Append a `list_split`."""
    results = apply(SPLIT, {"list": (list,), "count": (count,)}, {"history": history})
    return results["values"][0], results["rest"][0]


def _history_like(list: Var) -> str:
    """Return a history name for lists as long as this one."""
    return find_filling_loop(list.table, list.name) or current_program().current.names.unique(
        "history"
    )


for _definition in (list_extend, list_split):
    declare_linear(_definition)
