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
from braces.define.axes.axis_map import Attrs, AxisMap, Types, first_rank, mapped, numbered
from braces.define.decorator import Capacity, History, Tensor, op
from braces.define.type_inference import Context
from braces.dtypes import ListType, Type
from braces.lazy import jax, jnp
from braces.ops.common.rules import Backward
from braces.ops.control.core.residuals import history_of
from braces.ops.lists.list_to_array import filled_list, length_of
from braces.ops.lists.random_access import a_list, check_place, check_value, linear
from braces.ops.lists.stack import Buffer, Stack, resized

EXTEND, SPLIT = "list_extend", "list_split"
APART = {EXTEND: "values", SPLIT: "values"}
"""The slot whose list has a capacity of its own, often far smaller than that of the other."""


def joined_places(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: all lists have the same axes, a count has none."""
    del attrs
    axes = numbered(first_rank(types, "list"))
    inputs = {"list": (axes,), "values": (axes,), "count": ((),)}
    outputs = {"out": (axes,)} if "values" in types else {"values": (axes,), "rest": (axes,)}
    return mapped(types, inputs, outputs, fills={})


@op(axes=joined_places, lists=True, operations=0)
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
def infer_list_extend(context: Context, list: Type, values: Type, count: Type) -> ListType:
    """Return the type of the list; the other one must have the same."""
    list_type = a_list(context, list)
    check_value(context, list_type, a_list(context, values).element)
    check_place(context, count)
    return list_type


@list_extend.gradient
def list_extend_gradient(g: Backward) -> dict[str, Var]:
    """Split the cotangent of the list: its last elements belong to the other one."""
    values, rest = split(g.out_grad, g["count"], _history_like(g["values"]))
    return {"list": rest, "values": values}


@op(outputs=("values", "rest"), axes=joined_places, lists=True, operations=0)
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
    values = resized(_read_slice(list, list.count - count, capacity), capacity)
    none = jnp.asarray(0, jnp.int32)
    return Buffer(values, count, none, history), replace(list, count=list.count - count)


@list_split.infer
def infer_list_split(
    context: Context, list: Type, count: Type, **attrs: object
) -> tuple[ListType, ListType]:
    """Return the type of the list, twice."""
    del attrs
    check_place(context, count)
    list_type = a_list(context, list)
    return list_type, list_type


@list_split.gradient
def list_split_gradient(g: Backward) -> dict[str, Var]:
    """Append the cotangent of the values to that of the rest."""
    values, rest = g.grads["values"][0], g.grads["rest"][0]
    if values is None:
        values = filled_list(g["count"], g["list"], _history_like(g["values"]))
    return {"list": extend(g.zeros("rest") if rest is None else rest, values, g["count"])}


def _above(list: Stack, below: Stack) -> Iterator[object]:
    """Yield the elements of a list from the top down to a list below it."""
    while list is not below:
        value, list = list.pop()
        yield value


# ---- buffers ---------------------------------------------------------------------------------


def _append_buffer(list: Buffer, values: Buffer) -> Buffer:
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


def _read_slice(list: Buffer, begin: Tensor, room: int) -> Tensor:
    """Return a slice of `room` elements; elements beyond the end are undefined."""
    part = min(list.room, room)
    first = jnp.clip(begin, 0, list.room - part)
    return jnp.roll(jax.lax.dynamic_slice_in_dim(list.values, first, part), first - begin, 0)


# ---- building --------------------------------------------------------------------------------


def extend(list: Var, values: Var, count: Var | None = None) -> Var:
    """Append a `list_extend`."""
    count = length_of(values) if count is None else count
    return apply(EXTEND, {"list": (list,), "values": (values,), "count": (count,)})["out"][0]


def split(list: Var, count: Var, history: str) -> tuple[Var, Var]:
    """Append a `list_split`."""
    results = apply(SPLIT, {"list": (list,), "count": (count,)}, {"history": history})
    return results["values"][0], results["rest"][0]


def _history_like(list: Var) -> str:
    """Return a history name for lists as long as this one."""
    return history_of(list.table, list.name) or current_program().current.names.unique(
        "history"
    )


for _definition in (list_extend, list_split):
    linear(_definition)
