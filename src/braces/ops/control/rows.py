"""What operators do with an axis of selected rows.

A compiled row-wise branch works on its rows and some padding. Most operators treat each row on
its own, and padding stays padding. What mixes rows must leave the padding out: its inputs are
masked with what changes nothing. What cannot be masked so is refused when the branch is built.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type, is_float
from braces.errors import ProgramError
from braces.ir.program import Program
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.walk import map_bodies, with_captures
from braces.ops.build import Var, one, var_of
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
class _View:
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


def mask_rows(program: Program, table: SymbolTable, rows: Size, valid: str) -> None:
    """Leave padding out of everything in a block that mixes rows.

    Args:
        program: The program that is built.
        table: The block; operators are put into it.
        rows: The size that rows have, and nothing else where it is symbolic.
        valid: The variable that tells rows from padding.

    Raises:
        ProgramError: An operator mixes rows in a way that has no mask, or may do so where the
            number of rows is fixed, so that they cannot be told from other axes.
    """
    done, follows = list[Op](), set(table.params)
    pending, table.ops = table.ops, done
    for op in pending:
        if not follows.isdisjoint(op.reads()):
            follows.update(op.binds())
        done.extend(_masked(program, table, op, rows, valid, follows))
    table.touch()


def _masked(
    program: Program,
    table: SymbolTable,
    op: Op,
    rows: Size,
    valid: str,
    follows: Container[str],
) -> list[Op]:
    """The operators that take the place of one operator."""
    op = _inside(program, table, op, rows, valid)
    types = {n: table.type_of(n) for n in (*op.reads(), *op.binds())}
    view = _View(op, types, rows, follows)
    if not view.touches():
        return [op]
    fills = _fills(view)
    if not fills:
        return [op]
    if not isinstance(rows, Dim):
        raise _refused(view, f"It may mix the {rows} rows; give the batch dimension a name.")
    before = len(table.ops)
    with program.building(table), program.at(op.source):
        mask = var_of(program, _owner(table, valid), valid)
        inputs = {
            slot: tuple(_fill(program, table, view, n, fills.get(slot), mask) for n in names)
            for slot, names in op.inputs.items()
        }
        made = op.with_(inputs=inputs)
        if view.base == "mean":
            made = _mean(program, table, view, made, mask)
    extra = table.ops[before:]
    del table.ops[before:]
    return [*extra, made]


def _owner(table: SymbolTable, name: str) -> SymbolTable:
    owner = table.table_of(name)
    assert owner is not None, name
    return owner


def _inside(program: Program, table: SymbolTable, op: Op, rows: Size, valid: str) -> Op:
    """The operator with its sub-blocks masked."""

    def change(body: Body) -> Body:
        inner = SymbolTable(parent=table).thaw(body)
        mask_rows(program, inner, rows, valid)
        return inner.freeze(body.results)

    return with_captures(map_bodies(op, change)) if op.bodies() else op


# ---- the rule of each operator ---------------------------------------------------------------


def _fills(view: _View) -> dict[str, Any]:
    """What to mask with, by input slot; nothing where rows are kept apart."""
    for family, rule in _RULES:
        if family(view):
            return rule(view)
    raise _refused(view)


def _refused(view: _View, fix: str = "") -> ProgramError:
    return ProgramError(
        f"{view.op.type} mixes the rows of a row-wise branch, which cannot be done compiled.",
        at=view.op.describe(),
        fix=fix or "Compute it on all rows outside, and use add_input for the result.",
    )


def _rowwise(view: _View) -> dict[str, Any]:
    if any(view.tangled(name) for name in view.op.binds()):
        raise _refused(view)
    if view.base == "loop" and any(0 in view.axes(n) for n in view.op.inputs.get("sliced", ())):
        raise _refused(view)
    if view.keeps() or view.op.bodies():
        return {}
    if view.derived:
        return {slot: 0 for slot in view.op.inputs if slot.endswith("_grad")}
    if any(view.axes(n) for n in view.op.reads()) and not _lists(view):
        raise _refused(view)
    return {}


def _lists(view: _View) -> bool:
    return OPS.get(view.op.type).lists


def _batched(view: _View) -> dict[str, Any]:
    if any(view.axes(n) not in ([], [0]) or view.tangled(n) for n in view.op.reads()):
        raise _refused(view)
    return _rowwise(view)


def _reduced(view: _View) -> dict[str, Any]:
    (name,) = view.op.inputs["x"]
    rows = view.axes(name)
    axes = _axes(view, name)
    if view.tangled(name):
        raise _refused(view)
    if view.derived or not set(rows) & axes:
        return {}  # the derivative of a reduction reads what the reduction read: it is masked
    return {"x": REDUCTIONS[view.base]}


def _axes(view: _View, name: str) -> set[int]:
    type_ = view.types[name]
    assert isinstance(type_, TensorType)
    axis = view.op.attrs.get("axis")
    if axis is None:
        return set(range(type_.rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    return {int(str(a)) % max(1, type_.rank) for a in given}


def _along_axis(view: _View) -> dict[str, Any]:
    for slot, names in view.op.inputs.items():
        for name in names:
            rank_matters = (
                slot in ("indices", "labels", "updates") and view.base != "take_along_axis"
            )
            if view.tangled(name) or (
                not rank_matters and set(view.axes(name)) & _axes(view, name)
            ):
                raise _refused(view)
    if view.derived and not view.keeps():
        return {slot: 0 for slot in view.op.inputs if slot.endswith("_grad")}
    return {}


def _contracted(view: _View) -> dict[str, Any]:
    if not isinstance(view.rows, Dim):
        return (
            {}
            if view.keeps() and not _leads_contracted(view)
            else dict.fromkeys(view.op.inputs, 0)
        )
    counts = [len(view.axes(n)) for n in view.op.reads()]
    kept = sum(len(view.axes(n)) for n in view.op.binds())
    if any(view.tangled(n) for n in (*view.op.reads(), *view.op.binds())):
        raise _refused(view)
    return {} if kept >= sum(counts) else dict.fromkeys(view.op.inputs, 0)


def _leads_contracted(view: _View) -> bool:
    """Whether a product sums over rows that cannot be told by their size."""
    right = view.op.inputs.get("y", ())
    left = view.op.inputs.get("x", ())
    vectors = [n for n in left if view.axes(n) and len(_shape(view, n)) == 1]
    return bool(vectors) or any(view.axes(n) and len(_shape(view, n)) <= 2 for n in right)


def _shape(view: _View, name: str) -> Sequence[Size]:
    type_ = view.types[name]
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def _reshaped(view: _View) -> dict[str, Any]:
    (source,), (target,) = view.op.inputs["x"], view.op.outputs["out"]
    given, made = view.types[source], view.types[target]
    assert isinstance(given, TensorType)
    assert isinstance(made, TensorType)
    rows = view.axes(source)
    if rows and (view.axes(target) != rows or given.shape[: rows[0]] != made.shape[: rows[0]]):
        raise _refused(view)
    return {}


def _indexed(view: _View) -> dict[str, Any]:
    name = next(iter(view.op.inputs["x"]))
    index = view.op.attrs["index"]
    assert isinstance(index, tuple)
    kept = [entry for entry in index if entry != "new"]
    axes = view.axes(name)
    if view.tangled(name) or any(axis < len(kept) and kept[axis] != ":" for axis in axes):
        raise _refused(view)
    return {}


def _scattered(view: _View) -> dict[str, Any]:
    if view.axes(view.op.inputs["x"][0]):
        raise _refused(view)
    return {"updates": 0}


def _partitioned(view: _View) -> dict[str, Any]:
    return {"masks": False}


def _of(names: frozenset[str] | Sequence[str]) -> Callable[[_View], bool]:
    return lambda view: view.base in names


_RULES: Sequence[tuple[Callable[[_View], bool], Callable[[_View], dict[str, Any]]]] = (
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


# ---- masks -----------------------------------------------------------------------------------


def _fill(
    program: Program, table: SymbolTable, view: _View, name: str, fill: Any, mask: Var
) -> str:
    axes = view.axes(name)
    if fill is None or not axes:
        return name
    var = var_of(program, _owner(table, name), name)
    if var.dtype == bool:
        condition = _along(mask, axes[0], var.ndim)
        return one("logical_and" if fill is False else "logical_or",
                   var, condition if fill is False else ~condition).name  # fmt: skip
    for axis in axes:
        var = one("where", _along(mask, axis, var.ndim), var, _number(fill, var))
    return var.name


def _along(mask: Var, axis: int, rank: int) -> Var:
    if rank == 1:
        return mask
    shape = tuple(mask.shape[0] if i == axis else 1 for i in range(rank))
    return one("reshape", mask, shape=shape)


def _number(fill: Any, var: Var) -> Any:
    if fill not in (LOWEST, HIGHEST):
        return fill
    if is_float(var.dtype):
        return float("-inf") if fill == LOWEST else float("inf")
    info = np.iinfo(var.dtype)
    return int(info.min if fill == LOWEST else info.max)


def _mean(program: Program, table: SymbolTable, view: _View, op: Op, mask: Var) -> Op:
    """A mean of rows: their sum over their number."""
    (name,), (out,) = op.inputs["x"], op.outputs["out"]
    var = var_of(program, _owner(table, name), name)
    total = one("sum", var, axis=op.attrs["axis"], keepdims=op.attrs["keepdims"])
    type_ = table.type_of(out)
    assert isinstance(type_, TensorType)
    axes = sorted(_axes(view, view.op.inputs["x"][0]))
    others = [var.shape[a] for a in axes if var.shape[a] != view.rows]
    number = one("sum", one("cast", mask, dtype=type_.dtype))
    for size in others:
        number = number * one("size", value=size, dtype=type_.dtype)
    if total.dtype != type_.dtype:
        total = one("cast", total, dtype=type_.dtype)
    return op.with_(type="divide", inputs={"x": (total.name,), "y": (number.name,)}, attrs={})
