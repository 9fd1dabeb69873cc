"""Lists as arrays: the rows that a loop collected, whose number is known only at run time.

The leading axis of `list_stack` is a dimension of its own, which the run tells: interpreted,
from the list; compiled, the executor assumes a number, is told the real one, and repeats the
run with it where they differ.
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
    mapped,
    numbered,
    shaped,
)
from braces.define.decorator import Capacity, History, Learned, Roomy, Tensor, op
from braces.define.type_inference import Context
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
    buffer,
    infer_begun,
    is_traced,
    list_attrs,
    resized,
    zeros_listed,
)


def stacked_places(types: Types, attrs: Attrs) -> AxisMap:
    """The axes of the values, and a new one in front."""
    del attrs
    indices = numbered(first_rank(types, "list"))
    return mapped(types, {"list": (indices,)}, {"out": (("place", *indices),)}, ["place"])


@op(axes=stacked_places, lists=True, operations=0)
def list_stack(list: Tensor, *, length: Learned, roomy: Roomy = False) -> Tensor:
    """The values of a list as one array, the oldest first.

    Inputs:
        list: list<T>.

    Attributes:
        length: The dimension that stands for the number of values.
        roomy: Whether that may be more; what is beyond the values is like the first.

    Outputs:
        out: T with a leading axis of `length`.
    """
    del roomy
    if isinstance(list, Stack):
        return list.stacked()
    rows = resized(list.values, int(length))
    real = jnp.arange(rows.shape[0]) < list.count
    return jnp.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, rows[:1])


@list_stack.infer
def infer_list_stack(
    context: Context, list: ListType, *, length: Size, roomy: bool
) -> TensorType:
    """The element with a leading axis."""
    del context, roomy
    return TensorType(list.element.dtype, (length, *list.element.shape))


@list_stack.gradient
def list_stack_gradient(g: Backward) -> dict[str, Var]:
    """The rows of the cotangent as a list."""
    return {"list": unstack(g.out_grad)}


@list_stack.jvp
def list_stack_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """The tangents of the list as one array."""
    del values
    return {"out": (stack(tangents["list"][0], attrs["length"]),)}


@list_stack.learned
def learn_length(list: Any, *, length: Size, roomy: bool) -> dict[str, Any]:
    """The number of rows is the number of values."""
    del roomy
    return {length.name: list.count} if isinstance(length, Dim) and length.name else {}


def unstacked_places(types: Types, attrs: Attrs) -> AxisMap:
    """The values have all axes but the first."""
    del attrs
    indices = numbered(first_rank(types, "x"))
    return mapped(types, {"x": (indices,)}, {"out": (indices[1:],)}, indices[:1])


@op(axes=unstacked_places, lists=True, operations=0)
def list_unstack(x: Tensor, count: Tensor | None = None) -> Tensor:
    """The rows of an array as a list, the last one on top.

    Inputs:
        x: T with a leading axis.
        count: i64[]. How many of the rows, from the first one on; all where it is absent.

    Outputs:
        out: list<T>.
    """
    if is_traced(x):
        rows = resized(x, max(1, x.shape[0]))  # a loop is traced even where it makes no trip
        length = x.shape[0] if count is None else count
        return buffer(rows, length)
    return Stack.of(jnp.zeros(x.shape[1:], x.dtype), x if count is None else x[: int(count)])


@list_unstack.infer
def infer_list_unstack(
    context: Context, x: TensorType, count: TensorType | None = None
) -> ListType:
    """A list of rows."""
    del context, count
    if not x.shape:
        raise ShapeError("A scalar has no rows.")
    return ListType(TensorType(x.dtype, x.shape[1:]))


@list_unstack.rounded
def list_of_real_rows(view: RowView, count: str) -> Op:
    """The list has as many values as there are rows."""
    (x,) = view.op.inputs["x"]
    if 0 not in view.axes("x") or view.op.inputs.get("count"):
        return view.op
    return view.op.with_(inputs={"x": (x,), "count": (count,)})


@list_unstack.gradient
def list_unstack_gradient(g: Backward) -> dict[str, Var]:
    """The cotangents of the rows as one array."""
    return {"x": stack(g.out_grad, g["x"].shape[0])}


@list_unstack.jvp
def list_unstack_jvp(
    values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]
) -> VarSlots:
    """The rows of the tangent as a list."""
    del values, attrs
    return {"out": (unstack(tangents["x"][0]),)}


def counted(types: Types, attrs: Attrs) -> AxisMap:
    """Nothing of the values is seen."""
    del attrs
    indices = numbered(first_rank(types, "list"))
    return mapped(types, {"list": (indices,)}, {"out": ((),)}, fills={})


@op(axes=counted, lists=True, differentiable=False, operations=0)
def list_length(list: Tensor) -> Tensor:
    """How many values a list has.

    Inputs:
        list: list<T>.

    Outputs:
        out: i64[].
    """
    return jnp.asarray(list.count, INT64)


@list_length.infer
def infer_list_length(context: Context, list: ListType) -> TensorType:
    """An integer scalar."""
    del context, list
    return TensorType(INT64, ())


@op(axes=shaped, infer=infer_begun, lists=True, differentiable=False, operations=0)
def list_filled(
    length: Tensor,
    *,
    dtype: DType,
    shape: Shape,
    history: History,
    capacity: Capacity | None = None,
) -> Tensor:
    """A list of so many zeros.

    Inputs:
        length: i64[].

    Attributes:
        dtype: The dtype of its values.
        shape: The shape of its values.
        history: The loop whose trips it records.
        capacity: Room for this many values when compiled; the executor's affair.

    Outputs:
        out: list<dtype[shape]>.
    """
    return zeros_listed(length, dtype, shape, history, capacity)


@list_stack.rounded
def unchanged(view: RowView, count: str) -> Op:
    """Its rows, or those in its values, may be padding."""
    del count
    return view.op


@list_stack.counted
def length_of(list: Var, **attrs: Any) -> Var:
    """Append a `list_length`."""
    del attrs
    return apply("list_length", {"list": (list,)})["out"][0]


def filled_list(length: Var, like: Var, history: str) -> Var:
    """Append a `list_filled` with the elements of another list."""
    found = like.type
    assert isinstance(found, ListType)
    attrs = list_attrs(found.element, history)
    return apply("list_filled", {"length": (length,)}, attrs)["out"][0]


def stack(list: Var, length: Size) -> Var:
    """Append a `list_stack`."""
    return apply("list_stack", {"list": (list,)}, {"length": length})["out"][0]


def unstack(x: Var) -> Var:
    """Append a `list_unstack`."""
    return apply("list_unstack", {"x": (x,)})["out"][0]
