"""Which operators keep rows apart, and how the others are masked.

A compiled row-wise branch works on its rows and some padding. Most operators treat each row on
its own, and padding stays padding. What mixes rows must leave the padding out: its inputs are
masked with what changes nothing. What cannot be masked so is refused when the branch is built.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type
from braces.errors import ProgramError
from braces.ir.records import Op
from braces.ops.define import OPS

ROWWISE = frozenset(
    [
        "abs",
        "absolute_error",
        "add",
        "arctan2",
        "arccos",
        "arcsin",
        "arctan",
        "broadcast_to",
        "cast",
        "ceil",
        "clip",
        "constant",
        "cos",
        "cosh",
        "divide",
        "elu",
        "embedding",
        "equal",
        "erf",
        "exp",
        "expand_dims",
        "expm1",
        "flatten",
        "floor",
        "floor_divide",
        "full",
        "full_like",
        "gather_nd",
        "gelu",
        "greater",
        "greater_equal",
        "hard_sigmoid",
        "hard_tanh",
        "huber_loss",
        "hypot",
        "identity",
        "isfinite",
        "isinf",
        "isnan",
        "leaky_relu",
        "less",
        "less_equal",
        "list_add",
        "list_empty",
        "list_pop",
        "list_push",
        "list_zeros",
        "log",
        "log1p",
        "log2",
        "logaddexp",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "loop",
        "matrix_transpose",
        "maximum",
        "minimum",
        "mish",
        "moveaxis",
        "multiply",
        "negative",
        "not_equal",
        "one_hot",
        "ones_like",
        "pow",
        "reciprocal",
        "relu",
        "relu6",
        "remainder",
        "round",
        "rsqrt",
        "selu",
        "sigmoid",
        "sigmoid_binary_cross_entropy",
        "sign",
        "silu",
        "sin",
        "sinh",
        "softplus",
        "softsign",
        "sqrt",
        "square",
        "squared_error",
        "squeeze",
        "stop_gradient",
        "subtract",
        "swapaxes",
        "switch",
        "tan",
        "tanh",
        "transpose",
        "trunc",
        "where",
        "zeros_like",
    ]
)
"""Each row of the result comes from the same row of the inputs."""

BATCHED = frozenset(("conv1d", "conv2d", "max_pool2d", "avg_pool2d", "group_norm"))
"""Row-wise along axis 0."""

ALONG_AXIS = frozenset(
    [
        "argmax",
        "argmin",
        "argsort",
        "concat",
        "cosine_similarity",
        "cumprod",
        "cumsum",
        "flip",
        "glu",
        "kl_divergence",
        "l2_normalize",
        "layer_norm",
        "log_softmax",
        "repeat",
        "rms_norm",
        "roll",
        "softmax",
        "softmax_cross_entropy",
        "softmax_cross_entropy_soft",
        "sort",
        "split",
        "stack",
        "std",
        "take",
        "take_along_axis",
        "topk",
        "unstack",
        "var",
    ]
)
"""Row-wise along every axis but the one in their attribute."""

LOWEST, HIGHEST = "lowest", "highest"
REDUCTIONS: Mapping[str, Any] = {
    "sum": 0, "mean": 0, "prod": 1, "max": LOWEST, "min": HIGHEST, "any": False, "all": True,
    "logsumexp": LOWEST, "norm": 0,
}  # fmt: skip
"""What a reduction takes in without changing its result."""

CONTRACTIONS = frozenset(("matmul", "dot", "einsum", "tensordot", "outer"))


@dataclass
class RowView:
    """One operator and where the rows are in its inputs and outputs."""

    op: Op
    types: Mapping[str, Type]
    rows: Size
    follows: Container[str]

    def axes(self, name: str) -> list[int]:
        """The axes of a variable that are rows.

        A number of rows that is fixed may be the size of other axes too: then it is the leading
        axis of what follows from the block's parameters.
        """
        type_ = self.types[name]
        shape = type_.element.shape if isinstance(type_, ListType) else type_.shape
        if not isinstance(self.rows, Dim):
            return [0] if name in self.follows and shape[:1] == (self.rows,) else []
        return [i for i, size in enumerate(shape) if size == self.rows]

    def tangled(self, name: str) -> bool:
        """Whether the number of rows is part of a larger expression."""
        type_ = self.types[name]
        shape = type_.element.shape if isinstance(type_, ListType) else type_.shape
        return any(_mentions(size, self.rows) and size != self.rows for size in shape)

    @property
    def base(self) -> str:
        """The type without its transforms."""
        return self.op.type.partition(".")[0]

    @property
    def derived(self) -> bool:
        """Whether this is a derivative made from a kernel."""
        return "." in self.op.type

    def touches(self) -> bool:
        """Whether rows are in it at all."""
        names = [*self.op.reads(), *self.op.binds()]
        return any(self.axes(n) or self.tangled(n) for n in names)

    def keeps(self) -> bool:
        """Whether all outputs have rows."""
        return all(self.axes(name) for name in self.op.binds())


def _mentions(size: Size, rows: Size) -> bool:
    return isinstance(size, Dim) and isinstance(rows, Dim) and str(rows) in size.names()


def fills_of(view: RowView) -> dict[str, Any]:
    """What to mask with, by input slot; nothing where rows are kept apart."""
    for family, rule in _RULES:
        if family(view):
            return rule(view)
    raise refused(view)


def refused(view: RowView, fix: str = "") -> ProgramError:
    """The error for an operator that mixes rows without a mask for it."""
    return ProgramError(
        f"{view.op.type} mixes the rows of a row-wise branch, which cannot be done compiled.",
        at=view.op.describe(),
        fix=fix or "Compute it on all rows outside, and use add_input for the result.",
    )


def _rowwise(view: RowView) -> dict[str, Any]:
    if any(view.tangled(name) for name in view.op.binds()):
        raise refused(view)
    if view.base == "loop" and any(0 in view.axes(n) for n in view.op.inputs.get("sliced", ())):
        raise refused(view)
    if view.keeps() or view.op.bodies():
        return {}
    if view.derived:
        return {slot: 0 for slot in view.op.inputs if slot.endswith("_grad")}
    if any(view.axes(n) for n in view.op.reads()) and not _lists(view):
        raise refused(view)
    return {}


def _lists(view: RowView) -> bool:
    return OPS.get(view.op.type).lists


def _batched(view: RowView) -> dict[str, Any]:
    if any(view.axes(n) not in ([], [0]) or view.tangled(n) for n in view.op.reads()):
        raise refused(view)
    return _rowwise(view)


def _reduced(view: RowView) -> dict[str, Any]:
    (name,) = view.op.inputs["x"]
    rows = view.axes(name)
    axes = operated_axes(view, name)
    if view.tangled(name):
        raise refused(view)
    if view.derived or not set(rows) & axes:
        return {}  # the derivative of a reduction reads what the reduction read: it is masked
    return {"x": REDUCTIONS[view.base]}


def operated_axes(view: RowView, name: str) -> set[int]:
    """The axes that the operator works along; all of them where it says none."""
    type_ = view.types[name]
    assert isinstance(type_, TensorType)
    axis = view.op.attrs.get("axis")
    if axis is None:
        return set(range(type_.rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    return {int(str(a)) % max(1, type_.rank) for a in given}


def _along_axis(view: RowView) -> dict[str, Any]:
    for slot, names in view.op.inputs.items():
        for name in names:
            rank_matters = (
                slot in ("indices", "labels", "updates") and view.base != "take_along_axis"
            )
            if view.tangled(name) or (
                not rank_matters and set(view.axes(name)) & operated_axes(view, name)
            ):
                raise refused(view)
    if view.derived and not view.keeps():
        return {slot: 0 for slot in view.op.inputs if slot.endswith("_grad")}
    return {}


def _contracted(view: RowView) -> dict[str, Any]:
    if not isinstance(view.rows, Dim):
        return (
            {}
            if view.keeps() and not _leads_contracted(view)
            else dict.fromkeys(view.op.inputs, 0)
        )
    counts = [len(view.axes(n)) for n in view.op.reads()]
    kept = sum(len(view.axes(n)) for n in view.op.binds())
    if any(view.tangled(n) for n in (*view.op.reads(), *view.op.binds())):
        raise refused(view)
    return {} if kept >= sum(counts) else dict.fromkeys(view.op.inputs, 0)


def _leads_contracted(view: RowView) -> bool:
    """Whether a product sums over rows that cannot be told by their size."""
    right = view.op.inputs.get("y", ())
    left = view.op.inputs.get("x", ())
    vectors = [n for n in left if view.axes(n) and len(_shape(view, n)) == 1]
    return bool(vectors) or any(view.axes(n) and len(_shape(view, n)) <= 2 for n in right)


def _shape(view: RowView, name: str) -> Sequence[Size]:
    type_ = view.types[name]
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def _reshaped(view: RowView) -> dict[str, Any]:
    (source,), (target,) = view.op.inputs["x"], view.op.outputs["out"]
    given, made = view.types[source], view.types[target]
    assert isinstance(given, TensorType)
    assert isinstance(made, TensorType)
    rows = view.axes(source)
    if rows and (view.axes(target) != rows or given.shape[: rows[0]] != made.shape[: rows[0]]):
        raise refused(view)
    return {}


def _indexed(view: RowView) -> dict[str, Any]:
    name = next(iter(view.op.inputs["x"]))
    index = view.op.attrs["index"]
    assert isinstance(index, tuple)
    kept = [entry for entry in index if entry != "new"]
    axes = view.axes(name)
    if view.tangled(name) or any(axis < len(kept) and kept[axis] != ":" for axis in axes):
        raise refused(view)
    return {}


def _scattered(view: RowView) -> dict[str, Any]:
    if view.axes(view.op.inputs["x"][0]):
        raise refused(view)
    return {"updates": 0}


def _partitioned(view: RowView) -> dict[str, Any]:
    return {"masks": False}


def _of(names: frozenset[str] | Sequence[str]) -> Callable[[RowView], bool]:
    return lambda view: view.base in names


_RULES: Sequence[tuple[Callable[[RowView], bool], Callable[[RowView], dict[str, Any]]]] = (
    (_of(ROWWISE), _rowwise),
    (_of(BATCHED), _batched),
    (_of(tuple(REDUCTIONS)), _reduced),
    (_of(ALONG_AXIS), _along_axis),
    (_of(CONTRACTIONS), _contracted),
    (_of(("reshape",)), _reshaped),
    (_of(("getitem", "setitem_add")), _indexed),
    (_of(("scatter_add", "scatter_nd_add")), _scattered),
    (_of(("partition",)), _partitioned),
)
