"""Rules of elementwise operators, casts, shapes, constants and reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import code_of
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.operators.counterparts import is_short_float
from braces.exchange.onnx.writer.primitives.shape import (
    add_axes,
    expand_to,
    reshape_to,
)
from braces.extend.operators import translated
from braces.extend.types import BOOL, INT64, Dim, TensorType, is_float

PROMOTING = ("add", "divide", "matmul", "maximum", "minimum", "multiply", "subtract")
FLOATS = (
    "ceil", "exp", "floor", "log", "negative", "relu", "sigmoid", "sqrt", "tanh",
)  # fmt: skip
NORMALISING = ("log_softmax", "softmax")
REDUCING = ("logsumexp", "max", "norm", "sum")


def promoted(kind: str, n: NodeDesc) -> str | None:
    """Export as one node with operands in the dtype of the result."""
    dtype = n.result().dtype
    if dtype == BOOL or dtype.kind == "c" or (kind == "Div" and not is_float(dtype)):
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype)


def elementwise(kind: str, n: NodeDesc) -> str | None:
    """Export as one unary node on floats."""
    dtype = n.result().dtype
    if not is_float(dtype) or dtype.kind == "c":
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype)


def normalised(kind: str, n: NodeDesc) -> str | None:
    """A softmax."""
    dtype = n.result().dtype
    if not is_float(dtype) or dtype.kind == "c" or not isinstance(n.attr("axis"), int):
        return None
    return widths.widened_op(n.g, kind, *n.promoted(), dtype=dtype, axis=n.attr("axis"))


def reduced(kind: str, n: NodeDesc) -> str | None:
    """A reduction over axes."""
    axis, dtype = n.attr("axis"), n.result().dtype
    if dtype == BOOL or dtype.kind == "c" or axis == () or not n.type("x").rank:
        return None
    all_axes = range(n.type("x").rank) if axis is None else axis
    axes = (all_axes,) if isinstance(all_axes, int) else tuple(all_axes)
    if any(n.type("x").shape[at] == 0 for at in axes):
        return None  # ONNX leaves its result open
    keepdims_ = int(n.attr("keepdims"))
    beside = (n.g.integers(*axes),)
    return widths.widened_op(
        n.g, kind, *n.promoted(), dtype=dtype, beside=beside, keepdims=keepdims_
    )


def mean(n: NodeDesc) -> str | None:
    """A mean; one over the space of images is a global pool, which convolutions can fuse."""
    x, axis = n.type("x"), n.attr("axis")
    axes: Sequence[int] = (axis,) if isinstance(axis, int) else axis or ()
    is_space = [a % x.rank for a in axes] == list(range(2, x.rank)) != []
    if is_space and n.attr("keepdims") and is_short_float(x.dtype) and 0 not in x.shape:
        return widths.widened_op(n.g, "GlobalAveragePool", n.input("x"), dtype=x.dtype)
    return reduced("ReduceMean", n)


def same(n: NodeDesc) -> str:
    """The identity."""
    return n.g.op("Identity", next(n.g.name(name) for name in n.op.reads()))


def same_integers(n: NodeDesc) -> str:
    """A cast to int64."""
    return widths.cast_value(n.g, n.input("x"), n.type("x").dtype, INT64)


def fence(n: NodeDesc) -> str:
    """The value of a fence."""
    return n.g.op("Identity", n.input("x"))


def constant(n: NodeDesc) -> str:
    """A constant."""
    return n.g.constant(n.attr("value").array())


def cast(n: NodeDesc) -> str | None:
    """A cast."""
    source_dtype, to = n.type("x").dtype, n.result().dtype
    if "c" in (source_dtype.kind, to.kind):
        return None
    return n.g.op("Cast", n.input("x"), to=code_of(to))


def reshape(n: NodeDesc) -> str:
    """A reshape."""
    return reshape_to(n.g, n.input("x"), n.result().shape)


def broadcast(n: NodeDesc) -> str:
    """A broadcast."""
    return expand_to(n.g, n.input("x"), n.result().shape, n.result().dtype)


def concat(n: NodeDesc) -> str:
    """A concatenation."""
    return n.g.op("Concat", *n.promoted(), axis=n.attr("axis"))


def new_axes(n: NodeDesc) -> str:
    """New axes of size 1."""
    axis = n.attr("axis")
    return add_axes(n.g, n.input("x"), (axis,) if isinstance(axis, int) else axis)


def where(n: NodeDesc) -> str | None:
    """An elementwise selection."""
    (condition, yes, no), dtype = n.op.reads(), n.result().dtype
    if dtype.kind == "c":
        return None
    types = ((operand, n.g.type(operand)) for operand in (yes, no))
    first, second = (
        widths.cast_value(n.g, n.g.name(operand), type_.dtype, dtype)
        for operand, type_ in types
        if isinstance(type_, TensorType)
    )
    return widths.widened_where(n.g, n.g.name(condition), first, second, dtype)


def split(n: NodeDesc) -> list[list[str]] | None:
    """Consecutive parts of an axis."""
    x, count = n.type("x"), len(n.types)
    axis: int = n.attr("axis") % x.rank
    if not widths.is_supported("Split", x.dtype):
        return None
    sizes = n.g.shape([n.result(at).shape[axis] for at in range(count)])
    return [n.g.several("Split", n.input("x"), sizes, count=count, axis=axis)]


def triangle(upper: bool, n: NodeDesc) -> str | None:
    """The upper or lower triangle of matrices."""
    dtype = n.result().dtype
    if dtype.kind == "c":
        return None
    diagonal = (n.g.constant(n.attr("k"), INT64),)
    return widths.widened_op(
        n.g, "Trilu", n.input("x"), dtype=dtype, beside=diagonal, upper=int(upper)
    )


def float_test(kind: str, n: NodeDesc) -> str | None:
    """A test of floats for special values."""
    dtype = n.type("x").dtype
    if not is_float(dtype) or dtype.kind == "c":
        return None
    return widths.widened_query(n.g, kind, n.input("x"), dtype=dtype)


def arange(n: NodeDesc) -> str | None:
    """An `arange` of integers."""
    start, stop, step = (n.attr(name) for name in ("start", "stop", "step"))
    dtype = n.result().dtype
    if not isinstance(step, int) or dtype.kind not in "iuf":
        return None
    if any(isinstance(bound, float) for bound in (start, stop)):
        return None
    g = n.g
    bounds = (0, start) if stop is None else (start, stop)
    range_name = g.op("Range", *map(g.number, bounds), g.constant(step, INT64))
    return widths.cast_value(g, range_name, INT64, dtype)


def size(n: NodeDesc) -> str:
    """A size as a number."""
    return widths.cast_value(n.g, n.g.number(n.attr("value")), INT64, n.result().dtype)


def nonzero(n: NodeDesc) -> list[list[str]] | None:
    """The indices of nonzero elements, one array per axis; with a fixed count by the kernel."""
    x, g = n.type("x"), n.g
    if isinstance(n.attr("count"), int) or x.dtype.kind == "c":
        return None
    indices_ = g.op("NonZero", widths.cast_value(g, n.input("x"), x.dtype, BOOL))
    return [[g.op("Gather", indices_, g.constant(at, INT64), axis=0) for at in range(x.rank)]]


def data_dependent_size(n: NodeDesc) -> str:
    """A data-dependent size."""
    value, size = same_integers(n), n.attr("size")
    if isinstance(size, Dim) and size.name:
        n.g.told[size.name] = add_axes(n.g, value, (0,)), -1
    return value


def resize(n: NodeDesc) -> str | None:
    """A resize to symbolic sizes; between known sizes by the kernel."""
    x, shape = n.type("x"), n.result().shape
    resized = [pair for pair in zip(x.shape, shape, strict=True) if pair[0] != pair[1]]
    if all(isinstance(size, int) for pair in resized for size in pair) or n.attr("antialias"):
        return None
    has_region = n.attr("coordinates") == "tf_crop_and_resize"
    if x.dtype.kind == "c" or (has_region and n.attr("region") is None):
        return None
    g, scales = n.g, n.attr("scales")
    region = g.constant(np.asarray(n.attr("region"), np.float32)) if has_region else ""
    return widths.widened_op(
        g, "Resize", *n.promoted(), dtype=n.result().dtype, beside=(region, "", g.shape(shape)),
        mode=n.attr("mode"), coordinate_transformation_mode=n.attr("coordinates"),
        nearest_mode=n.attr("nearest_mode"), cubic_coeff_a=n.attr("cubic_coefficient"),
        exclude_outside=int(n.attr("exclude_outside")),
        extrapolation_value=float(n.attr("extrapolation_value")),
    ) if scales is None else None  # fmt: skip


def _each(
    rule: Callable[[str, NodeDesc], str | None], op_types: Sequence[str]
) -> dict[str, Rule]:
    names = translated("braces", "onnx")
    return {op_type: partial(rule, names[op_type]) for op_type in op_types}


TENSOR: Mapping[str, Rule] = {
    **_each(promoted, PROMOTING),
    **_each(elementwise, FLOATS),
    **_each(normalised, NORMALISING),
    **_each(reduced, REDUCING),
    "arange": arange,
    "as_size": data_dependent_size,
    "broadcast_to": broadcast,
    "cast": cast,
    "concat": concat,
    "constant": constant,
    "countable": same_integers,
    "ensure_shape": same,
    "error_if": same,
    "expand_dims": new_axes,
    "fence": fence,
    "identity": same,
    "isinf": partial(float_test, "IsInf"),
    "isnan": partial(float_test, "IsNaN"),
    "mean": mean,
    "nonzero": nonzero,
    "refuse_gradient": same,
    "reshape": reshape,
    "resize": resize,
    "size": size,
    "stop_gradient": same,
    "split": split,
    "tril": partial(triangle, False),
    "triu": partial(triangle, True),
    "where": where,
}
