"""List operators with a dynamic index: get, set, insert, erase, resize.

Indices count from 0, negative ones from the end; an index out of range is a run-time error. The
adjoint of a get is an add, and that of an insert is an erase. So gradients of any order consist
of these operators. Interpreted, a lookup takes logarithmic time (`Stack`). Compiled, it reads
an element of a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.completion import KernelOp
from braces.define.decorator import Capacity, History, Indices, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dtypes import INT64, ListType, TensorType, Type
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.lazy import jnp
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import AddInto, Backward, build_zeros
from braces.ops.indexing.take import check_integers, out_of_range_code
from braces.ops.lists.cotangents import has_cotangent, zeros_like

OUT_OF_RANGE = "A list index is out of range."
BEGIN_OP = "list_begin"
GROWING_OPS = frozenset(("list_push", "list_insert", "list_resize", "list_extend"))
"""Operators whose result may be longer than their input list."""
MAX_LENGTH = 2**31 - 1


# ---- types -----------------------------------------------------------------------------------


def index_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: lists and elements have the same axes, an index has none."""
    del attrs
    axes = numbered_indices(first_rank(types, "list"))
    inputs = {"list": (axes,), "index": ((),), "length": ((),), "value": (axes,)}
    return make_axis_map(types, inputs, {"out": (axes,), "before": ((),)}, fills={})


def require_list(context: InferenceContext, input_type: Type) -> ListType:
    """Return the type of a list, with known sizes resolved.

    Raises:
        DTypeError: If the input is an array.
    """
    if not isinstance(input_type, ListType):
        raise DTypeError(
            f"{context.type}: expected a list, got the array {input_type}.",
            fix="Create one with br.lists.create, or br.lists.unstack(x) from an array.",
        )
    return input_type.map_sizes(context.unifier.resolve)


def check_index(context: InferenceContext, index: Type) -> None:
    """Reject an index that is not an integer scalar.

    Raises:
        DTypeError: If the index is not an integer.
        ShapeError: If the index is not a scalar.
    """
    if not isinstance(index, TensorType) or index.shape:
        raise ShapeError(f"{context.type}: expected an integer scalar as index, got {index}.")
    check_integers(context.type, index.dtype)


def check_value(context: InferenceContext, list: ListType, value: Type) -> None:
    """Reject a value whose type is not the element type of the list.

    Raises:
        DTypeError: If the type of the value differs.
    """
    if list.element != value.map_sizes(context.unifier.resolve):
        raise DTypeError(
            f"expected an element of type {list.element} for {list}, got {value}.",
            fix="Use one dtype and shape for all elements; br.cast and br.reshape help.",
        )


def infer_changed(context: InferenceContext, list: Type, index: Type, *value: Type) -> ListType:
    """Return the type of the list; a value must have its element type."""
    list_type = require_list(context, list)
    check_index(context, index)
    for value_type in value:
        check_value(context, list_type, value_type)
    return list_type


# ---- operators -------------------------------------------------------------------------------


@op(axes=index_axes, lists=True, operations=0)
def list_get(list: Tensor, index: Indices) -> Tensor:
    """Return the element of a list at an index.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.

    Outputs:
        out: T.

    Raises:
        IndexRangeError: If the index is out of range at run time.
    """
    return list.get(index)


@list_get.infer
def infer_list_get(context: InferenceContext, list: Type, index: Type) -> TensorType:
    """Return the element type."""
    list_type = require_list(context, list)
    check_index(context, index)
    return list_type.element


@list_get.gradient
def list_get_gradient(g: Backward) -> dict[str, AddInto]:
    """Add the cotangent at the index to a list of zeros."""
    index = g["index"]
    return {"list": AddInto(g.out_grad, lambda total, x: emit("list_add_at", total, index, x))}


@op(axes=index_axes, lists=True, infer=infer_changed, operations=count_per_element("value"))
def list_add_at(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Add a value to an element of a list: the adjoint of `list_get`.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.
        value: T.

    Outputs:
        out: list<T>.

    Raises:
        IndexRangeError: If the index is out of range at run time.
    """
    return list.set(index, list.get(index) + value)


@list_add_at.gradient
def list_add_at_gradient(g: Backward) -> dict[str, Var]:
    """The list gets the cotangent; the value gets its element at the index."""
    grads = {"list": g.out_grad}
    if g.wants("value"):
        grads["value"] = emit("list_get", g.out_grad, g["index"])
    return grads


@op(axes=index_axes, lists=True, infer=infer_changed, operations=0)
def list_set(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Replace the element of a list at an index.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.
        value: T.

    Outputs:
        out: list<T>, as long as the other one.

    Raises:
        DTypeError: If the value does not have the element type of the list.
        IndexRangeError: If the index is out of range at run time.
    """
    return list.set(index, value)


@list_set.gradient
def list_set_gradient(g: Backward) -> dict[str, Var]:
    """The value gets the element at the index, the list all others."""
    grad, index = g.out_grad, g["index"]
    grads = {"list": emit("list_set", grad, index, _zeros_for(grad))}
    if g.wants("value"):
        grads["value"] = emit("list_get", grad, index)
    return grads


@op(axes=index_axes, lists=True, infer=infer_changed, operations=0)
def list_insert(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """Insert a value before the element at an index; at the length of the list, append it.

    Inputs:
        list: list<T>.
        index: int[]. From minus the length of the list to that length; negative ones count
            from the end.
        value: T.

    Outputs:
        out: list<T>, longer by one.

    Raises:
        DTypeError: If the value does not have the element type of the list.
        IndexRangeError: If the index is out of range at run time.
    """
    return list.insert(index, value)


@list_insert.gradient
def list_insert_gradient(g: Backward) -> dict[str, Var]:
    """The value gets the element at the index, the list all others."""
    at = _from_front(g["index"], g.out_grad, -1)
    grads = {"list": emit("list_erase", g.out_grad, at)}
    if g.wants("value"):
        grads["value"] = emit("list_get", g.out_grad, at)
    return grads


def _from_front(index: Var, list: Var, longer: int) -> Var:
    """Return a nonnegative index, for a list longer by `longer` than this one."""
    wide = emit("cast", index, dtype=INT64)
    return emit("where", wide < 0, wide + emit("list_length", list) + longer, wide)


def _zeros_for(list: Var) -> Var:
    """Return zeros of the element type of a list."""
    list_type = list.type
    assert isinstance(list_type, ListType)
    return build_zeros(list_type.element)


@op(axes=index_axes, lists=True, infer=infer_changed, operations=0)
def list_erase(list: Tensor, index: Indices) -> Tensor:
    """Remove the element of a list at an index.

    Inputs:
        list: list<T>.
        index: int[]; negative ones count from the end.

    Outputs:
        out: list<T>, shorter by one.

    Raises:
        IndexRangeError: If the index is out of range at run time.
    """
    return list.erase(index)


@list_erase.gradient
def list_erase_gradient(g: Backward) -> dict[str, Var]:
    """Insert a zero at the index into the cotangent."""
    at = _from_front(g["index"], g.out_grad, 1)
    return {"list": emit("list_insert", g.out_grad, at, _zeros_for(g.out_grad))}


@op(outputs=("out", "before"), axes=index_axes, lists=True, operations=0)
def list_resize(list: Tensor, length: Indices) -> tuple[Tensor, Tensor]:
    """Truncate a list to a length, or pad it with zeros.

    Inputs:
        list: list<T>.
        length: int[]. Not negative.

    Outputs:
        out: list<T> of this length.
        before: i64[]. The previous length.

    Raises:
        IndexRangeError: If the length is negative or too large at run time.
    """
    return list.resized(length), jnp.asarray(list.count, INT64)


@list_resize.infer
def infer_list_resize(
    context: InferenceContext, list: Type, length: Type
) -> tuple[ListType, TensorType]:
    """Return the list type and an integer scalar type."""
    list_type = require_list(context, list)
    check_index(context, length)
    return list_type, TensorType(INT64, ())


@list_resize.gradient
def list_resize_gradient(g: Backward) -> dict[str, Var]:
    """Resize the cotangent to the previous length; added elements get nothing."""
    grad = g.grads["out"][0]
    return {} if grad is None else {"list": append_resize(grad, g["before"])}


def append_resize(list: Var, length: Any) -> Var:
    """Append a `list_resize`; return the list."""
    return apply("list_resize", {"list": (list,), "length": (length,)})["out"][0]


@op(axes="... -> ...", lists=True, operations=0)
def list_begin(list: Tensor, *, history: History, capacity: Capacity | None = None) -> Tensor:
    """Give a list a capacity for more elements; inserted when programs are compiled.

    Inputs:
        list: list<T>.

    Attributes:
        history: The loop whose iterations fill it.
        capacity: Capacity when compiled, set by the executor.

    Outputs:
        out: list<T>.
    """
    return list if capacity is None else list.begun(capacity, history)


@list_begin.infer
def infer_list_begin(context: InferenceContext, list: Type, **attrs: Any) -> ListType:
    """Return the type of the list."""
    del attrs
    return require_list(context, list)


@list_begin.gradient
def list_begin_gradient(g: Backward) -> dict[str, Var]:
    """Return the cotangent unchanged."""
    return {"list": g.out_grad}


# ---- range checks ----------------------------------------------------------------------------


@list_get.checked(IndexRangeError, OUT_OF_RANGE)
def get_outside(list: Tensor, index: Indices) -> Tensor:
    """True where the index is out of range."""
    return out_of_range_code(index, list.count)


@list_erase.checked(IndexRangeError, OUT_OF_RANGE)
def erase_outside(list: Tensor, index: Indices) -> Tensor:
    """True where the index is out of range."""
    return out_of_range_code(index, list.count)


@list_set.checked(IndexRangeError, OUT_OF_RANGE)
def set_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """True where the index is out of range."""
    del value
    return out_of_range_code(index, list.count)


@list_add_at.checked(IndexRangeError, OUT_OF_RANGE)
def add_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """True where the index is out of range."""
    del value
    return out_of_range_code(index, list.count)


@list_insert.checked(IndexRangeError, OUT_OF_RANGE)
def insert_outside(list: Tensor, index: Indices, value: Tensor) -> Tensor:
    """True where the index is out of range; the length of the list is allowed."""
    del value
    return out_of_range_code(index, list.count + 1, lowest=-list.count)


@list_resize.checked(IndexRangeError, "A list length is negative or too large.")
def length_outside(list: Tensor, length: Indices) -> Tensor:
    """True where the length is negative, or far too large."""
    del list
    return out_of_range_code(length, MAX_LENGTH, lowest=0)


# ---- tangents --------------------------------------------------------------------------------


def declare_linear(definition: KernelOp) -> None:
    """Declare that an operator is linear in its lists and elements."""

    def rule(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
        operands = {
            slot: tangents.get(slot) or tuple(map(_zero_tangent, vars_))
            for slot, vars_ in values.items()
            if definition.input(slot)
        }
        results = apply(definition.type, operands, attrs)
        return {
            slot: outputs for slot, outputs in results.items() if has_cotangent(outputs[0].type)
        }

    definition.jvp(rule)


def _zero_tangent(var: Var) -> Var:
    """Return a zero tangent; an index is returned unchanged."""
    return zeros_like(var) if has_cotangent(var.type) else var


for _definition in (
    list_get, list_add_at, list_set, list_insert, list_erase, list_resize, list_begin,
):  # fmt: skip
    declare_linear(_definition)
