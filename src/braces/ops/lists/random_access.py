"""Values of lists at places that are told in the run: read, replaced, put in, taken out.

Places count from 0, negative ones from the end; one out of range is an error in the run. What
reads has an adjoint that adds, what puts in one that takes out, so gradients of any order stay
here. Interpreted, a value is found in a few leaps; compiled, it is a part of a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.define.axes.axis_map import Attrs, AxisMap, Types, first_rank, mapped, numbered
from braces.define.axes.flop_count import for_each
from braces.define.completion import KernelOp
from braces.define.decorator import Capacity, History, Indices, Tensor, op
from braces.define.type_inference import Context
from braces.dtypes import INT64, ListType, TensorType, Type
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.lazy import jnp
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import AddInto, Backward, zeros_of
from braces.ops.indexing.take import integers, outside
from braces.ops.lists.cotangents import differentiable, zeros_like

OUTSIDE = "A place is outside of the list."
BEGIN = "list_begin"
GROWING = frozenset(("list_push", "list_insert", "list_resize", "list_extend"))
"""The operators that give a list which may be longer than the one that they are given."""
LONGEST = 2**31 - 1


# ---- types -----------------------------------------------------------------------------------


def places(types: Types, attrs: Attrs) -> AxisMap:
    """Lists and values have the same axes; a place, a scalar, has none."""
    del attrs
    axes = numbered(first_rank(types, "list"))
    inputs = {"list": (axes,), "index": ((),), "length": ((),), "value": (axes,)}
    return mapped(types, inputs, {"out": (axes,), "before": ((),)}, fills={})


def a_list(context: Context, given: Type) -> ListType:
    """The type of a list, with what is known of its sizes.

    Raises:
        DTypeError: It is an array.
    """
    if not isinstance(given, ListType):
        raise DTypeError(
            f"{context.type} needs a list, not the array {given}.",
            fix="Begin one with br.create_list, or br.list_unstack(x) of the rows of an array.",
        )
    return given.map_sizes(context.unifier.resolve)


def check_place(context: Context, index: Type) -> None:
    """Refuse a place that is no integer scalar.

    Raises:
        DTypeError: It is no integer.
        ShapeError: It is no scalar.
    """
    if not isinstance(index, TensorType) or index.shape:
        raise ShapeError(f"{context.type} needs one place, an integer scalar, not {index}.")
    integers(context.type, index.dtype)


def check_value(context: Context, list: ListType, value: Type) -> None:
    """Refuse a value of another type than the list has.

    Raises:
        DTypeError: It is of another type.
    """
    if list.element != value.map_sizes(context.unifier.resolve):
        raise DTypeError(
            f"A {list} cannot take a {value}.",
            fix="All values of a list have one dtype and shape; br.cast and br.reshape help.",
        )


def infer_changed(context: Context, list: Type, index: Type, *value: Type) -> ListType:
    """The type of the list; a value must be like those that it has."""
    found = a_list(context, list)
    check_place(context, index)
    for given in value:
        check_value(context, found, given)
    return found


# ---- operators -------------------------------------------------------------------------------


@op(axes=places, lists=True, operations=0)
def list_get(list: Tensor, index: Indices) -> Tensor:
    """The value of a list at a place.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.

    Outputs:
        out: T.

    Raises:
        IndexRangeError: In a run, there is no such place.
    """
    return list.get(index)


@list_get.infer
def infer_list_get(context: Context, list: Type, index: Type) -> TensorType:
    """The type of the values."""
    found = a_list(context, list)
    check_place(context, index)
    return found.element


@list_get.gradient
def list_get_gradient(g: Backward) -> dict[str, AddInto]:
    """The cotangent, added at its place to a list of zeros."""
    index = g["index"]
    return {"list": AddInto(g.out_grad, lambda total, x: one("list_add_at", total, index, x))}


@op(axes=places, lists=True, infer=infer_changed, operations=for_each("value"))
def list_add_at(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """A list with something added to its value at a place: the adjoint of `list_get`.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.
        value: T.

    Outputs:
        out: list<T>.

    Raises:
        IndexRangeError: In a run, there is no such place.
    """
    return list.set(index, list.get(index) + value)


@list_add_at.gradient
def list_add_at_gradient(g: Backward) -> dict[str, Var]:
    """The list receives the cotangent, the value what that has at its place."""
    grads = {"list": g.out_grad}
    if g.wants("value"):
        grads["value"] = one("list_get", g.out_grad, g["index"])
    return grads


@op(axes=places, lists=True, infer=infer_changed, operations=0)
def list_set(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """A list with another value at a place.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.
        value: T.

    Outputs:
        out: list<T>, as long as the other one.

    Raises:
        DTypeError: The value is not of the type of those in the list.
        IndexRangeError: In a run, there is no such place.
    """
    return list.set(index, value)


@list_set.gradient
def list_set_gradient(g: Backward) -> dict[str, Var]:
    """The value receives what is at its place, the list all else."""
    grad, index = g.out_grad, g["index"]
    grads = {"list": one("list_set", grad, index, _zeros_for(grad))}
    if g.wants("value"):
        grads["value"] = one("list_get", grad, index)
    return grads


@op(axes=places, lists=True, infer=infer_changed, operations=0)
def list_insert(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """A list with one more value, before the one at a place; at its length, behind all.

    Inputs:
        list: list<T>.
        index: int[]. From minus the length of the list to that length; negative ones count
            from the end.
        value: T.

    Outputs:
        out: list<T>, longer by one.

    Raises:
        DTypeError: The value is not of the type of those in the list.
        IndexRangeError: In a run, there is no such place.
    """
    return list.insert(index, value)


@list_insert.gradient
def list_insert_gradient(g: Backward) -> dict[str, Var]:
    """The value receives what is at its place, the list all else."""
    at = _from_front(g["index"], g.out_grad, -1)
    grads = {"list": one("list_erase", g.out_grad, at)}
    if g.wants("value"):
        grads["value"] = one("list_get", g.out_grad, at)
    return grads


def _from_front(index: Var, list: Var, longer: int) -> Var:
    """A place from the front, in a list that is by so many values longer than this one."""
    wide = one("cast", index, dtype=INT64)
    return one("where", wide < 0, wide + one("list_length", list) + longer, wide)


def _zeros_for(list: Var) -> Var:
    """Zeros like the values of a list."""
    found = list.type
    assert isinstance(found, ListType)
    return zeros_of(found.element)


@op(axes=places, lists=True, infer=infer_changed, operations=0)
def list_erase(list: Tensor, index: Indices) -> Tensor:
    """A list without the value at a place.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.

    Outputs:
        out: list<T>, shorter by one.

    Raises:
        IndexRangeError: In a run, there is no such place.
    """
    return list.erase(index)


@list_erase.gradient
def list_erase_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent, with a zero where the value was."""
    at = _from_front(g["index"], g.out_grad, 1)
    return {"list": one("list_insert", g.out_grad, at, _zeros_for(g.out_grad))}


@op(outputs=("out", "before"), axes=places, lists=True, operations=0)
def list_resize(list: Tensor, length: Indices) -> tuple[Tensor, Tensor]:
    """The first values of a list, so many of them, with zeros where there are fewer.

    Inputs:
        list: list<T>.
        length: int[]. Not negative.

    Outputs:
        out: list<T> of this length.
        before: i64[]. How many values there were.

    Raises:
        IndexRangeError: In a run, the length is negative, or far too large.
    """
    return list.resized(length), jnp.asarray(list.count, INT64)


@list_resize.infer
def infer_list_resize(
    context: Context, list: Type, length: Type
) -> tuple[ListType, TensorType]:
    """The type of the list, and an integer."""
    found = a_list(context, list)
    check_place(context, length)
    return found, TensorType(INT64, ())


@list_resize.gradient
def list_resize_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent in the length that there was; what was added receives nothing."""
    grad = g.grads["out"][0]
    return {} if grad is None else {"list": resize(grad, g["before"])}


def resize(list: Var, length: Any) -> Var:
    """Append a `list_resize`, and give the list."""
    return apply("list_resize", {"list": (list,), "length": (length,)})["out"][0]


@op(axes="... -> ...", lists=True, operations=0)
def list_begin(list: Tensor, *, history: History, capacity: Capacity | None = None) -> Tensor:
    """The values of a list in one that has room for more; made where programs are compiled.

    Inputs:
        list: list<T>.

    Attributes:
        history: The loop whose trips it records.
        capacity: Room for this many values when compiled; the executor's affair.

    Outputs:
        out: list<T>.
    """
    return list if capacity is None else list.begun(capacity, history)


@list_begin.infer
def infer_list_begin(context: Context, list: Type, **attrs: Any) -> ListType:
    """The type of the list."""
    del attrs
    return a_list(context, list)


@list_begin.gradient
def list_begin_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent."""
    return {"list": g.out_grad}


# ---- what is out of range --------------------------------------------------------------------


@list_get.checked(IndexRangeError, OUTSIDE)
def get_outside(list: Tensor, index: Indices) -> Tensor:
    """Where there is no such place."""
    return outside(index, list.count)


@list_erase.checked(IndexRangeError, OUTSIDE)
def erase_outside(list: Tensor, index: Indices) -> Tensor:
    """Where there is no such place."""
    return outside(index, list.count)


@list_set.checked(IndexRangeError, OUTSIDE)
def set_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Where there is no such place."""
    del value
    return outside(index, list.count)


@list_add_at.checked(IndexRangeError, OUTSIDE)
def add_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Where there is no such place."""
    del value
    return outside(index, list.count)


@list_insert.checked(IndexRangeError, OUTSIDE)
def insert_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Where there is no such place, not even behind all."""
    del value
    return outside(index, list.count + 1, lowest=-list.count)


@list_resize.checked(IndexRangeError, "A list cannot have this length.")
def length_outside(list: Tensor, length: Indices) -> Tensor:
    """Where the length is negative, or far too large."""
    del list
    return outside(length, LONGEST, lowest=0)


# ---- tangents --------------------------------------------------------------------------------


def linear(definition: KernelOp) -> None:
    """Say that an operator is linear in its lists and in what it puts there."""

    def rule(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        operands = {
            slot: tangents.get(slot) or tuple(map(_still, given))
            for slot, given in values.items()
            if definition.input(slot)
        }
        made = apply(definition.type, operands, attrs)
        return {slot: found for slot, found in made.items() if differentiable(found[0].type)}

    definition.jvp(rule)


def _still(var: Var) -> Var:
    """The tangent of what does not move; places stay as they are."""
    return zeros_like(var) if differentiable(var.type) else var


for _definition in (
    list_get, list_add_at, list_set, list_insert, list_erase, list_resize, list_begin,
):  # fmt: skip
    linear(_definition)
