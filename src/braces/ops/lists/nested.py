"""Lists of lists, as loops keep them: the values of all in one list, and how many each has.

    all = [a0, a1, a2,  b0,  c0, c1]      counts = [3, 1, 2]

`list_extend` puts one more list on top and `list_split` takes it off again; each is the
gradient of the other, as of `push` and `pop`. Compiled, either moves as many bytes as the one
list has room for, however many are kept.
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
"""The slot whose list has room of its own: it may be far shorter than the other one."""


def joined_places(types: Types, attrs: Attrs) -> AxisMap:
    """All lists have the same axes; a number has none."""
    del attrs
    axes = numbered(first_rank(types, "list"))
    inputs = {"list": (axes,), "values": (axes,), "count": ((),)}
    outputs = {"out": (axes,)} if "values" in types else {"values": (axes,), "rest": (axes,)}
    return mapped(types, inputs, outputs, fills={})


@op(axes=joined_places, lists=True, operations=0)
def list_extend(list: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """A list with the values of another one behind its own.

    Inputs:
        list: list<T>.
        values: list<T>.
        count: int[]. How many values there are; the gradient needs that, and not them.

    Outputs:
        out: list<T>.
    """
    del count
    if isinstance(list, Stack):
        return list.with_values(values.values())
    return _written(list, values)


@list_extend.infer
def infer_list_extend(context: Context, list: Type, values: Type, count: Type) -> ListType:
    """The type of the list; the other one must be like it."""
    found = a_list(context, list)
    check_value(context, found, a_list(context, values).element)
    check_place(context, count)
    return found


@list_extend.gradient
def list_extend_gradient(g: Backward) -> dict[str, Var]:
    """Split the cotangent of the list: its last values belong to the other one."""
    values, rest = split(g.out_grad, g["count"], _history_like(g["values"]))
    return {"list": rest, "values": values}


@op(outputs=("values", "rest"), axes=joined_places, lists=True, operations=0)
def list_split(
    list: Tensor, count: Tensor, *, history: History, capacity: Capacity | None = None
) -> tuple[Tensor, Tensor]:
    """The last values of a list, so many of them, and the list before them.

    Inputs:
        list: list<T>.
        count: int[]. From 0 to the length of the list.

    Attributes:
        history: The loop whose trips the values record.
        capacity: Room for this many of them when compiled; the executor's affair.

    Outputs:
        values: list<T> of this length.
        rest: list<T>.
    """
    if isinstance(list, Stack):
        below = list.below(list.count - int(count))
        return Stack.of(list.zero, [*_above(list, below)][::-1]), below
    assert capacity is not None
    count = count.astype(jnp.int32)
    values = resized(_read(list, list.count - count, capacity), capacity)
    none = jnp.asarray(0, jnp.int32)
    return Buffer(values, count, none, history), replace(list, count=list.count - count)


@list_split.infer
def infer_list_split(
    context: Context, list: Type, count: Type, **attrs: object
) -> tuple[ListType, ListType]:
    """The type of the list, twice."""
    del attrs
    check_place(context, count)
    found = a_list(context, list)
    return found, found


@list_split.gradient
def list_split_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent of the values behind that of the rest."""
    values, rest = g.grads["values"][0], g.grads["rest"][0]
    if values is None:
        values = filled_list(g["count"], g["list"], _history_like(g["values"]))
    return {"list": extend(g.zeros("rest") if rest is None else rest, values, g["count"])}


def _above(list: Stack, below: Stack) -> Iterator[object]:
    """The values of a list from the top down to a list that it was made of."""
    while list is not below:
        value, list = list.pop()
        yield value


# ---- buffers ---------------------------------------------------------------------------------


def _written(list: Buffer, values: Buffer) -> Buffer:
    """The list with others behind its values: a part of it, with these in it, is put back."""
    part = min(list.room, values.room)
    first = jnp.clip(list.count, 0, list.room - part)
    shift, places = list.count - first, jnp.arange(part, dtype=jnp.int32)
    new = (places >= shift) & (places < shift + values.count)
    moved = jnp.roll(values.values[:part], shift, 0)
    there = jax.lax.dynamic_slice_in_dim(list.values, first, part)
    whole = jnp.where(new.reshape(-1, *[1] * (moved.ndim - 1)), moved, there)
    written = jax.lax.dynamic_update_slice_in_dim(list.values, whole, first, 0)
    return replace(list, values=written, count=list.count + values.count)


def _read(list: Buffer, begin: Tensor, room: int) -> Tensor:
    """The values from a place on, as many as there may be; what is beyond them is anything."""
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
    made = apply(SPLIT, {"list": (list,), "count": (count,)}, {"history": history})
    return made["values"][0], made["rest"][0]


def _history_like(list: Var) -> str:
    """A history for lists that are as long as this one."""
    return history_of(list.table, list.name) or current_program().current.names.unique(
        "history"
    )


for _definition in (list_extend, list_split):
    linear(_definition)
