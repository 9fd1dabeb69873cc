"""Conversion between lists and arrays; the number of elements is data-dependent.

The leading axis of `list_stack` is a data-dependent size. Interpreted, it is the length of the
list. Compiled, the executor assumes a size, reads the real one from the run, and repeats the
run if they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.builder.append import apply
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.axes.axis_rules import constant_axes
from braces.define.decorator import Capacity, History, Learned, Roomy, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Shape, Size
from braces.dtypes import INT64, DType, ListType, TensorType
from braces.errors import ShapeError
from braces.ir.records import Op
from braces.lazy import jnp
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.row_semantics import RowView
from braces.ops.common.rules import Backward
from braces.ops.lists.stack import (
    Stack,
    infer_begun,
    is_traced,
    list_attrs,
    make_buffer,
    make_zero_list,
    resize_buffer,
)


def stacked_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: the axes of the elements, and a new one in front."""
    del attrs
    indices = numbered_indices(first_rank(types, "list"))
    return make_axis_map(
        types, {"list": (indices,)}, {"out": (("place", *indices),)}, ["place"]
    )


@op(axes=stacked_axes, lists=True, operations=0)
def list_stack(list: Tensor, *, length: Learned, roomy: Roomy = False) -> Tensor:
    """Stack the elements of a list to an array, the oldest first.

    Inputs:
        list: list<T>.

    Attributes:
        length: The dimension of the number of elements.
        roomy: Whether it may be larger; padding then repeats the first element.

    Outputs:
        out: T with a leading axis of `length`.
    """
    del roomy
    if isinstance(list, Stack):
        return list.stacked()
    rows = resize_buffer(list.values, int(length))
    real = jnp.arange(rows.shape[0]) < list.count
    return jnp.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, rows[:1])


@list_stack.infer
def infer_list_stack(
    context: InferenceContext, list: ListType, *, length: Size, roomy: bool
) -> TensorType:
    """Return the element type with a leading axis."""
    del context, roomy
    return TensorType(list.element.dtype, (length, *list.element.shape))


@list_stack.gradient
def list_stack_gradient(g: Backward) -> dict[str, Var]:
    """Unstack the cotangent to a list."""
    return {"list": append_unstack(g.out_grad)}


@list_stack.jvp
def list_stack_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """Stack the tangents of the list."""
    del values
    return {"out": (append_stack(tangents["list"][0], attrs["length"]),)}


@list_stack.learned
def learn_length(list: Any, *, length: Size, roomy: bool) -> dict[str, Any]:
    """Return the data-dependent size: the length of the list."""
    del roomy
    return {length.name: list.count} if isinstance(length, Dim) and length.name else {}


def unstacked_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: the elements have all axes but the first."""
    del attrs
    indices = numbered_indices(first_rank(types, "x"))
    return make_axis_map(types, {"x": (indices,)}, {"out": (indices[1:],)}, indices[:1])


@op(axes=unstacked_axes, lists=True, operations=0)
def list_unstack(x: Tensor, count: Tensor | None = None) -> Tensor:
    """Unstack an array to a list, the last element on top.

    Inputs:
        x: T with a leading axis.
        count: i64[]. The number of leading rows to use; all by default.

    Outputs:
        out: list<T>.
    """
    if is_traced(x):
        rows = resize_buffer(
            x, max(1, x.shape[0])
        )  # a loop is traced even with a trip count of 0
        length = x.shape[0] if count is None else count
        return make_buffer(rows, length)
    return Stack.of(jnp.zeros(x.shape[1:], x.dtype), x if count is None else x[: int(count)])


@list_unstack.infer
def infer_list_unstack(
    context: InferenceContext, x: TensorType, count: TensorType | None = None
) -> ListType:
    """Return the list type of the rows."""
    del context, count
    if not x.shape:
        raise ShapeError("expected an array of rank 1 or more, got a scalar.")
    return ListType(TensorType(x.dtype, x.shape[1:]))


@list_unstack.rounded
def unstack_valid_rows(view: RowView, count: str) -> Op:
    """With a padded batch, the list has as many elements as there are valid rows."""
    (x,) = view.op.inputs["x"]
    if 0 not in view.axes("x") or view.op.inputs.get("count"):
        return view.op
    return view.op.with_(inputs={"x": (x,), "count": (count,)})


@list_unstack.gradient
def list_unstack_gradient(g: Backward) -> dict[str, Var]:
    """Stack the cotangents of the elements."""
    return {"x": append_stack(g.out_grad, g["x"].shape[0])}


@list_unstack.jvp
def list_unstack_jvp(
    values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]
) -> VarSlots:
    """Unstack the tangent."""
    del values, attrs
    return {"out": (append_unstack(tangents["x"][0]),)}


def list_length_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: the values of the elements are not read."""
    del attrs
    indices = numbered_indices(first_rank(types, "list"))
    return make_axis_map(types, {"list": (indices,)}, {"out": ((),)}, fills={})


@op(axes=list_length_axes, lists=True, differentiable=False, operations=0)
def list_length(list: Tensor) -> Tensor:
    """Return the length of a list.

    Inputs:
        list: list<T>.

    Outputs:
        out: i64[].
    """
    return jnp.asarray(list.count, INT64)


@list_length.infer
def infer_list_length(context: InferenceContext, list: ListType) -> TensorType:
    """Return an integer scalar type."""
    del context, list
    return TensorType(INT64, ())


@op(axes=constant_axes, infer=infer_begun, lists=True, differentiable=False, operations=0)
def list_filled(
    length: Tensor,
    *,
    dtype: DType,
    shape: Shape,
    history: History,
    capacity: Capacity | None = None,
) -> Tensor:
    """Return a list of `length` zeros.

    Inputs:
        length: i64[].

    Attributes:
        dtype: The dtype of its elements.
        shape: The shape of its elements.
        history: The loop whose iterations fill it.
        capacity: Capacity when compiled, set by the executor.

    Outputs:
        out: list<dtype[shape]>.
    """
    return make_zero_list(length, dtype, shape, history, capacity)


@list_stack.rounded
def keep_operator(view: RowView, count: str) -> Op:
    """Keep the operator with a padded batch: its rows or elements may contain padding."""
    del count
    return view.op


@list_stack.counted
def append_length(list: Var, **attrs: Any) -> Var:
    """Append a `list_length`."""
    del attrs
    return apply("list_length", {"list": (list,)})["out"][0]


def append_filled(length: Var, like: Var, history: str) -> Var:
    """Append a `list_filled` with the element type of another list."""
    list_type = like.type
    assert isinstance(list_type, ListType)
    attrs = list_attrs(list_type.element, history)
    return apply("list_filled", {"length": (length,)}, attrs)["out"][0]


def append_stack(list: Var, length: Size) -> Var:
    """Append a `list_stack`."""
    return apply("list_stack", {"list": (list,)}, {"length": length})["out"][0]


def append_unstack(x: Var) -> Var:
    """Append a `list_unstack`."""
    return apply("list_unstack", {"x": (x,)})["out"][0]
