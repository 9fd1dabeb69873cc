"""What the gradient of a row-wise branch reads of the branch: kept, or computed again.

    y = partition(masks=[q, p], rows=x) captures [w]
        cases [
            (v, r) { a = matmul(r, w)  b = tanh(a)  return b },
            (v, r) { c = matmul(r, w)  d = sin(c)  return d },
        ]

The gradient of `tanh` reads `b`, which is an output already; that of `sin` reads `c`, which is
costly, so it becomes an output, with zeros from the other case:

    y, kept = partition(masks=[q, p], rows=x) captures [w]
        cases [ (v, r) { ...  zero = full()  return b, zero }, (v, r) { ...  return d, c } ]
    ... = partition(masks=[q, p], rows=[x, y_grad, y, kept]) {linear=[1]} captures [w]
        cases [ (v, r, y_grad, b, _) { ... }, (v, r, y_grad, _, c) { ... } ]

No row belongs to two cases, so what one case keeps takes the place where another keeps nothing,
if it has the type. A plain block in a case gives out what is kept of it. All else runs again:
what is not costly, what has no rows, and loops whose histories the gradient reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.plain_blocks.escaping_values import bound_inside, with_shown
from braces.ir.records import ARGUMENT, Body, Op, VarInfo
from braces.ir.views import Operand, Output, PartitionView
from braces.ir.walk import producers, rename_slots
from braces.ops.common.rules import zeros_of
from braces.ops.control.batch_axis.masking import follow_rows
from braces.ops.control.core.differentiation import Differentiation
from braces.ops.control.core.residuals import plan_keeping


@dataclass
class _Shared:
    """An output of the forward branch, and what each case puts there.

    Attributes:
        row: The type of a row.
        names: The value of a case, by its number; the others put zeros there.
        outer: The name of the output.
        read: The cases whose gradient reads it.
        linear: Whether it is linear in rows that the results are linear in.
    """

    row: TensorType
    names: dict[int, str]
    outer: str
    read: set[int]
    linear: bool

    def rows(self, count: Size) -> TensorType:
        """The type of so many rows."""
        return TensorType(self.row.dtype, (count, *self.row.shape))


def keep_rows(
    d: Differentiation, view: PartitionView, backward: Sequence[Body]
) -> tuple[list[Operand], list[Body]]:
    """Let the forward branch keep rows for the backward cases.

    Args:
        d: The differentiation that goes on.
        view: The forward branch, with plain blocks in its cases inlined.
        backward: The backward cases, each with what it reads of its forward case in it.

    Returns:
        Outputs of the forward branch as operands of the backward one, and the contents of
        backward cases that take them.
    """
    linear = [from_linear(view, k) for k in range(len(view.cases))]
    shared = [
        _Shared(
            _row(d.host.type_of(out.name)),
            dict(enumerate(out.results)),
            out.name,
            set(),
            any(name in linear[k] for k, name in enumerate(out.results)),
        )
        for out in view.outs
    ]
    for k, (body, after) in enumerate(zip(view.bodies, backward, strict=True)):
        for name in _worth_keeping(d, view, k, body, after):
            _put(d, view, shared, k, name, name in linear[k])
    _augment_forward(d, shared[len(view.outs) :])
    read = [one for one in shared if one.read]
    params, contents = list[list[str]](), list[Body]()
    for k, body in enumerate(backward):
        names, content = _taking(d, view, k, body, read)
        params.append(names)
        contents.append(content)
    each = zip(read, zip(*params, strict=True), strict=False)
    return [Operand(one.outer, names, one.linear) for one, names in each], contents


def from_linear(view: PartitionView, k: int) -> set[str]:
    """What a case computes from rows that its results are linear in.

    Where the branch is itself a gradient, these are cotangents and what follows from them.
    A row of padding has zeros for it, kept or not: the copy of a real row would be summed.
    """
    return _computed_from({row.params[k] for row in view.rows if row.linear}, view.bodies[k])


def _computed_from(
    names: set[str], body: Body, among: Collection[str] | None = None
) -> set[str]:
    """Some names and what follows from them, as long as it is among others."""
    found = set(names)
    for op in body.ops:
        if not found.isdisjoint(op.reads()):
            found.update(n for n in op.binds() if among is None or n in among)
    return found


def _put(
    d: Differentiation,
    view: PartitionView,
    shared: list[_Shared],
    k: int,
    name: str,
    linear: bool,
) -> None:
    """Find a place for a value of a case: where it is already, else where the case has none."""
    row = _row(view.bodies[k].vars[name].type)
    there = (one for one in shared if one.names.get(k) == name)
    free = (
        one for one in shared if k not in one.names and (one.row, one.linear) == (row, linear)
    )
    place = next(there, None) or next(free, None)
    if place is None:
        place = _Shared(row, {}, d.host.names.unique(f"{name}_kept"), set(), linear)
        d.host.new_var(place.outer, place.rows(_total(d, view)))
        shared.append(place)
    place.names[k] = name
    place.read.add(k)


def _total(d: Differentiation, view: PartitionView) -> Size:
    """How many rows there are in all."""
    mask = d.host.type_of(view.cases[0].mask)
    assert isinstance(mask, TensorType)
    return mask.shape[0]


def _row(type_: Type) -> TensorType:
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, type_.shape[1:])


# ---- what to keep ----------------------------------------------------------------------------


def _worth_keeping(
    d: Differentiation, view: PartitionView, k: int, body: Body, after: Body
) -> list[str]:
    """The values with rows that the gradient reads and that only costly operators make.

    What was masked is not kept: a kept row of padding is the copy of a real one.

        m = where(valid, x @ w, -inf)   max(m)   ->   m is made again from valid and x
    """
    forward = SymbolTable(parent=d.host).thaw(body)
    rows = _rows_in(forward, view.cases[k].count)
    made = producers(after.ops)
    own = [op for op in after.ops if not any(n in body.vars for n in op.binds())]
    read = [*(n for op in own for n in op.reads()), *after.results]
    plan = plan_keeping(forward, read, set(body.params), _may_run_again)
    case = PartitionView.of(d.op).bodies[k]
    bound = {*case.vars, *bound_inside(case)}  # not what got a new name as it was inlined
    masked = _computed_from({body.params[0]}, body, rows.keys())
    could = [n for n in plan.values if n in bound - masked and rows.get(n) == {0}]
    others = {*plan.values, *plan.lists} - set(could)
    others |= {n for n in read if n in made and made[n] not in own and n not in body.vars}
    again = {id(made[n]) for n in others if n in made}
    return [n for n in could if id(made[n]) not in again]


def _may_run_again(op: Op) -> bool:
    return not op.bodies() and not OPS.get(op.type).costly


def _rows_in(forward: SymbolTable, count: Size) -> dict[str, set[int]]:
    """The axes of the values of a case that are rows, or may be; of others nothing is said.

    A repetition that is as long as there are rows is theirs where it meets them.
    """
    count = forward.unifier.resolve(count)
    try:
        known = follow_rows(forward, count, dict.fromkeys(forward.params, (0,)))
    except BracesError:  # nothing tells where they are
        return {}
    found = dict[str, set[int]]()
    for name, whats in known.items():
        sizes = zip(whats, shape_of(forward.type_of(name)), strict=False)
        axes = {
            axis
            for axis, (what, size) in enumerate(sizes)
            if what == "rows" or (what == "same" and forward.unifier.resolve(size) == count)
        }
        if "rows" in whats:
            found[name] = axes
    return found


# ---- both branches ---------------------------------------------------------------------------


def _augment_forward(d: Differentiation, new: Sequence[_Shared]) -> None:
    """The forward branch with more outputs: its values, and zeros from the other cases."""
    if not new:
        return
    view, contents = PartitionView.of(d.op), list[Body]()
    for k, (case, body) in enumerate(zip(view.cases, view.bodies, strict=True)):
        table = SymbolTable(parent=d.host)
        table.thaw(with_shown(body, (one.names[k] for one in new if one.names.get(k))))
        with d.program.building(table):
            for one in new:
                one.names[k] = one.names.get(k) or zeros_of(one.rows(case.count)).name
        contents.append(table.freeze())
    results = [tuple(one.names[k] for k in range(len(contents))) for one in new]
    outs = [Output(one.outer, names) for one, names in zip(new, results, strict=True)]
    d.replace(replace(view.containing(contents), outs=(*view.outs, *outs)).to_op())


def _taking(
    d: Differentiation, view: PartitionView, k: int, body: Body, shared: Sequence[_Shared]
) -> tuple[list[str], Body]:
    """A backward case that takes kept rows instead of computing them, and their names in it."""
    names, count = SymbolTable(parent=d.program.current).thaw(body).names, view.cases[k].count
    renamed = {
        one.names[k]: names.unique(f"{one.names[k]}_again") for one in shared if k in one.read
    }
    ops = tuple(op.with_(outputs=rename_slots(op.outputs, renamed)) for op in body.ops)
    infos = dict(body.vars)
    infos |= {new: VarInfo(new, infos[old].type) for old, new in renamed.items()}
    params: list[str] = []
    for one in shared:
        params.append(one.names[k] if k in one.read else names.unique(one.outer))
        infos[params[-1]] = VarInfo(params[-1], one.rows(count), ARGUMENT)
    taking = Body((*body.params, *params), body.results, infos, ops)
    return params, d.eliminate(taking, body.results)
