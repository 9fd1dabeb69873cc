"""Residuals of a partitioned branch: rows saved for its gradient, or recomputed.

    y = partition(masks=[q, p], rows=x) captures [w]
        cases [
            (v, r) { a = matmul(r, w)  b = tanh(a)  return b },
            (v, r) { c = matmul(r, w)  d = sin(c)  return d },
        ]

A residual of a case reaches the backward case in one of these ways:

| way | residual | transfer |
|---|---|---|
| parameter | row input or capture | read again by the backward branch |
| output | a result of the case | the output becomes a row input |
| save | rows of an expensive operator | a new output, zeros from other cases |
| share | as `save`, same type in another case | the same new output |
| recompute | all else | operators run again in the backward case |

The gradient of `tanh` reads `b`, which is an output already. The gradient of `sin` reads `c`,
the result of an expensive operator. So `c` becomes an output, with zeros from the other case:

    y, kept = partition(masks=[q, p], rows=x) captures [w]
        cases [ (v, r) { ...  zero = full()  return b, zero }, (v, r) { ...  return d, c } ]
    ... = partition(masks=[q, p], rows=[x, y_grad, y, kept]) {linear=[1]} captures [w]
        cases [ (v, r, y_grad, b, _) { ... }, (v, r, y_grad, _, c) { ... } ]

Each row belongs to at most one case, so residuals of one type from different cases share an
output. A residual inside a plain block becomes an output of the block first. Cheap operators,
values without rows, and loops whose residual lists the gradient reads are recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.plain_blocks.escaping_values import bound_inside, with_exported
from braces.ir.records import ARGUMENT, Body, Op, VarInfo
from braces.ir.views import Operand, Output, PartitionView
from braces.ir.walk import descendants, producers, rename_slots
from braces.ops.common.rules import build_zeros
from braces.ops.control.batch_axis.axis_kinds import AxisKind, batch_axes
from braces.ops.control.batch_axis.masking import analyze_row_axes
from braces.ops.control.core.differentiation import VjpContext
from braces.ops.control.core.residuals import Way, plan_residuals


@dataclass
class _ResidualOutput:
    """An output of the forward branch that carries a residual of one or more cases.

    Attributes:
        outer: The name of the output.
        row: The type of a row.
        linear: Whether it is linear in the linear row inputs.
        names: The value of each case, by its position; other cases return zeros.
        readers: The cases whose gradients read it.
    """

    outer: str
    row: TensorType
    linear: bool
    names: dict[int, str] = field(default_factory=dict[int, str])
    readers: set[int] = field(default_factory=set[int])

    def rows(self, count: Size) -> TensorType:
        """Return the type of `count` rows."""
        return TensorType(self.row.dtype, (count, *self.row.shape))


def save_row_residuals(
    d: VjpContext, view: PartitionView, backward: Sequence[Body]
) -> tuple[list[Operand], list[Body]]:
    """Let the forward branch save rows for the backward cases.

    Args:
        d: The context of the differentiation.
        view: The forward branch, with plain blocks in its cases inlined.
        backward: The backward cases, still with the forward operators that they read.

    Returns:
        Outputs of the forward branch as operands of the backward branch, and the contents of
        backward cases with these as parameters.
    """
    outputs = _assign_outputs(d, view, backward)
    _augment_forward(d, outputs[len(view.outs) :])
    used = [output for output in outputs if output.readers]
    params, contents = list[list[str]](), list[Body]()
    for k, body in enumerate(backward):
        names, content = _take_residuals(d, view, k, body, used)
        params.append(names)
        contents.append(content)
    each = zip(used, zip(*params, strict=True), strict=False)
    return [Operand(output.outer, names, output.linear) for output, names in each], contents


def find_linear_values(view: PartitionView, k: int) -> set[str]:
    """Return the names that a case computes from its linear row inputs.

    Where the branch is itself a gradient, these are cotangents and values computed from them.
    They are zero in padding, saved or not: a copy of a valid row would be counted in sums.
    """
    linear = (row.params[k] for row in view.rows if row.linear)
    return descendants(view.bodies[k].ops, linear)


def _dependents(names: set[str], body: Body, among: Collection[str]) -> set[str]:
    """Return the given names and their dependents, restricted to `among`."""
    dependents = set(names)
    for op in body.ops:
        if not dependents.isdisjoint(op.reads()):
            dependents.update(n for n in op.binds() if n in among)
    return dependents


def _assign_outputs(
    d: VjpContext, view: PartitionView, backward: Sequence[Body]
) -> list[_ResidualOutput]:
    """Assign an output to each residual: its present one, one free in the case, or a new one.

    Returns:
        The present outputs with rows, then the new ones.
    """
    linear = [find_linear_values(view, k) for k in range(len(view.cases))]
    outputs = [
        _ResidualOutput(
            out.name,
            _row_type(d.host.type_of(out.name)),
            any(name in linear[k] for k, name in enumerate(out.results)),
            dict(enumerate(out.results)),
        )
        for out in view.outs
    ]
    for k, (body, after) in enumerate(zip(view.bodies, backward, strict=True)):
        for name in _find_expensive_residuals(d, view, k, body, after):
            kind = _row_type(body.vars[name].type), name in linear[k]
            present = (o for o in outputs if o.names.get(k) == name)
            free = (o for o in outputs if k not in o.names and (o.row, o.linear) == kind)
            output = next(chain(present, free), None)
            if output is None:
                output = _ResidualOutput(d.host.names.unique(f"{name}_kept"), *kind)
                d.host.new_var(output.outer, output.rows(_total_rows(d, view)))
                outputs.append(output)
            output.names[k] = name
            output.readers.add(k)
    return outputs


def _total_rows(d: VjpContext, view: PartitionView) -> Size:
    """Return the total number of rows."""
    mask = d.host.type_of(view.cases[0].mask)
    assert isinstance(mask, TensorType)
    return mask.shape[0]


def _row_type(type_: Type) -> TensorType:
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, type_.shape[1:])


# ---- selection of residuals ------------------------------------------------------------------


def _find_expensive_residuals(
    d: VjpContext, view: PartitionView, k: int, body: Body, after: Body
) -> list[str]:
    """Return residuals with rows that only expensive operators compute.

    Masked values are not saved: a saved row of padding is a copy of a valid row.

        m = where(valid, x @ w, -inf)   max(m)   ->   m is recomputed from valid and x
    """
    forward = SymbolTable(parent=d.host).thaw(body)
    rows = _row_axes(forward, view.cases[k].count)
    producer_of = producers(after.ops)
    own = [op for op in after.ops if not any(n in body.vars for n in op.binds())]
    needed = [*(n for op in own for n in op.reads()), *after.results]
    plan = plan_residuals(forward, needed, set(body.params), _is_recomputable)
    case = PartitionView.of(d.op).bodies[k]
    bound = {*case.vars, *bound_inside(case)}  # without names that inlining created
    masked = _dependents({body.params[0]}, body, rows.keys())
    arrays = plan.names(Way.SAVE)
    candidates = [n for n in arrays if n in bound - masked and rows.get(n) == (0,)]
    others = {*arrays, *plan.names(Way.SAVE_LIST)} - set(candidates)
    others |= {
        n
        for n in needed
        if n in producer_of and producer_of[n] not in own and n not in body.vars
    }
    recomputed = {id(producer_of[n]) for n in others if n in producer_of}
    return [n for n in candidates if id(producer_of[n]) not in recomputed]


def _is_recomputable(op: Op) -> bool:
    return not op.bodies() and not OPS.get(op.type).costly


def _row_axes(forward: SymbolTable, count: Size) -> dict[str, tuple[int, ...]]:
    """Return the axes of values that are rows or may be, for values that have rows.

    A repetition of the size of the rows counts as rows, as it is where it meets them.
    """
    count = forward.unifier.resolve(count)
    try:
        kinds_of = analyze_row_axes(forward, count, dict.fromkeys(forward.params, (0,)))
    except BracesError:  # the analysis is undecided
        return {}
    return {
        name: batch_axes(kinds, shape_of(forward.type_of(name)), count)
        for name, kinds in kinds_of.items()
        if AxisKind.BATCH in kinds
    }


# ---- both branches ---------------------------------------------------------------------------


def _augment_forward(d: VjpContext, new: Sequence[_ResidualOutput]) -> None:
    """Add outputs to the forward branch: residuals, and zeros from cases without one."""
    if not new:
        return
    view, contents, results = PartitionView.of(d.op), list[Body](), list[list[str]]()
    for k, (case, body) in enumerate(zip(view.cases, view.bodies, strict=True)):
        table = SymbolTable(parent=d.host)
        table.thaw(with_exported(body, (item.names[k] for item in new if k in item.names)))
        with d.program.building(table):
            results.append(
                [item.names.get(k) or build_zeros(item.rows(case.count)).name for item in new]
            )
        contents.append(table.freeze())
    by_output = zip(new, zip(*results, strict=True), strict=True)
    outs = [Output(item.outer, names) for item, names in by_output]
    d.replace(replace(view.containing(contents), outs=(*view.outs, *outs)).to_op())


def _take_residuals(
    d: VjpContext,
    view: PartitionView,
    k: int,
    body: Body,
    shared: Sequence[_ResidualOutput],
) -> tuple[list[str], Body]:
    """Return parameter names and body of a backward case that reads saved rows."""
    names, count = SymbolTable(parent=d.program.current).thaw(body).names, view.cases[k].count
    renamed = {
        item.names[k]: names.unique(f"{item.names[k]}_again")
        for item in shared
        if k in item.readers
    }
    ops = tuple(op.with_(outputs=rename_slots(op.outputs, renamed)) for op in body.ops)
    infos = dict(body.vars)
    infos |= {new: VarInfo(new, infos[old].type) for old, new in renamed.items()}
    params: list[str] = []
    for item in shared:
        params.append(item.names[k] if k in item.readers else names.unique(item.outer))
        infos[params[-1]] = VarInfo(params[-1], item.rows(count), ARGUMENT)
    case = Body((*body.params, *params), body.results, infos, ops)
    return params, d.eliminate(case, body.results)
