"""The gradient of a switch: a switch on the same index.

What the backward cases read of the forward cases is kept as extra outputs of the forward
switch, with zeros from the cases that did not make it. Histories of loops inside a case pass
through all cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from braces.dtypes import ListType, TensorType
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.views import Output, SwitchView, names_read, view_of
from braces.ir.walk import producers, rename_body
from braces.ops.build import Var, var_of
from braces.ops.control.cotangents import collect, zeros_like
from braces.ops.control.derivatives import Differentiation
from braces.ops.control.keeping import Keeping, fixpoint_keep, take_list, with_recomputed
from braces.ops.lists import EMPTY
from braces.ops.rules import zeros_of


@dataclass(frozen=True)
class _Half:
    """One case and its gradient, while it is being built.

    Attributes:
        forward: The block of the case.
        table: The block of its gradient, inside the case.
        grads: The cotangents that the gradient knows.
    """

    forward: SymbolTable
    table: SymbolTable
    grads: Mapping[str, Var]


@dataclass(frozen=True)
class _Kept:
    """What the gradient of one case reads, as an output of the forward switch.

    Attributes:
        case: The number of the case.
        name: As it is called there.
        outer: The output.
    """

    case: int
    name: str
    outer: str


def switch_gradient(d: Differentiation) -> None:
    """Build the backward switch, let the forward cases keep what it reads, give cotangents."""
    view = _with_rests(d, SwitchView.of(d.op))
    wanted = [name for name in view.captures if d.wants(name)]
    grads = dict(d.grads)
    for out in view.outputs:
        if isinstance(d.host.type_of(out.name), ListType) and out.name not in grads:
            grads[out.name] = d.zero_list(out.name)
    # The cotangents are variables of the block being built, which stands inside the host.
    forwards = [SymbolTable(parent=d.program.current).thaw(body) for body in view.cases]
    halves = [_half(d, view, k, forward, grads, wanted) for k, forward in enumerate(forwards)]
    given = [name for name in wanted if any(name in half.grads for half in halves)]
    if not given:
        return
    fixed = [
        fixpoint_keep(_closed(d, half, given), half.forward, set(), d.lists, d.eliminate)
        for half in halves
    ]
    plans = [plan for _, plan in fixed]
    values, lists = _keep(d, view, forwards, plans)
    cases = [
        _reading(d, k, with_recomputed(body, forwards[k], plan), values, lists)
        for k, (body, plan) in enumerate(fixed)
    ]
    _append_backward(d, view, cases, lists, given)


# ---- what the cases leave --------------------------------------------------------------------


def _with_rests(d: Differentiation, view: SwitchView) -> SwitchView:
    """Let the switch return what its cases leave of lists that come from outside.

    The cotangent of such a rest is as long as the rest, which only the case would know.
    """
    made, more = producers(d.host.ops), list[Output]()
    for case, body in enumerate(view.cases):
        read = names_read(body)
        for start, end in (pair for op in body.ops for pair in _lists_through(op, body)):
            empty = start in made and made[start].type == EMPTY
            if end in read or start in body.vars or empty:
                continue
            rest = d.host.new_var(d.host.names.unique("rest"), body.vars[end].type).name
            more.append(view.output(rest, {case: end}, start))
    if not more:
        return view
    view = replace(view, outputs=(*view.outputs, *more))
    d.replace(view.to_op())
    return SwitchView.of(d.op)


def _lists_through(op: Op, body: Body) -> Iterator[tuple[str, str]]:
    """The lists that enter a loop or a switch inside a case, and what comes out of it."""
    view = view_of(op)
    if view is None:
        return
    for end in op.binds():
        if isinstance(body.vars[end].type, ListType):
            sources = view.sources(end)
            starts = (n for block, n in sources if block is None or n not in block.vars)
            yield from ((start, end) for start in islice(starts, 1))


# ---- the backward cases ----------------------------------------------------------------------


def _half(
    d: Differentiation,
    view: SwitchView,
    case: int,
    forward: SymbolTable,
    grads: Mapping[str, Var],
    wanted: Sequence[str],
) -> _Half:
    table, seeds = SymbolTable(parent=forward), dict[str, Var]()
    with d.program.building(table):
        for out in view.outputs:
            if out.name in grads:
                collect(seeds, out.results[case], grads[out.name])
        return _Half(forward, table, d.backprop(forward, seeds, set(wanted)))


def _closed(d: Differentiation, half: _Half, given: Sequence[str]) -> Body:
    """The backward case; it returns a cotangent for every capture, zeros included."""
    with d.program.building(half.table):
        grads = [
            half.grads[name] if name in half.grads else zeros_like(d.var(name))
            for name in given
        ]
    return half.table.freeze(grad.name for grad in grads)


def _reading(
    d: Differentiation, case: int, body: Body, values: Sequence[_Kept], lists: Sequence[_Kept]
) -> Body:
    """A backward case that reads what is kept, and hands on what is left of histories."""
    rests = [d.lists.rest_of(k.name) if k.case == case else k.outer for k in lists]
    names = {k.name: k.outer for k in (*values, *lists) if k.case == case}
    return rename_body(body.with_(results=(*body.results, *rests)), names)


# ---- both switches ---------------------------------------------------------------------------


def _keep(
    d: Differentiation,
    view: SwitchView,
    forwards: Sequence[SymbolTable],
    plans: Sequence[Keeping],
) -> tuple[list[_Kept], list[_Kept]]:
    """Give the forward switch extra outputs: the values and the histories that are kept."""
    values, lists, more = list[_Kept](), list[_Kept](), list[Output]()
    for case, (forward, plan) in enumerate(zip(forwards, plans, strict=True)):
        for name in plan.values:
            outer = d.host.new_var(d.host.names.unique(f"{name}_kept"), forward.type_of(name))
            zeros = [
                _zeros(d, table, forward, name) for table in forwards if table is not forward
            ]
            more.append(Output(outer.name, (*zeros[:case], name, *zeros[case:])))
            values.append(_Kept(case, name, outer.name))
        for name in plan.lists:
            kept = take_list(d.lists, forward, name)
            start = d.empty_list(kept.element, kept.history, kept.param)
            outer = d.host.new_var(d.host.names.unique("history"), ListType(kept.element))
            d.lists.started(outer.name, start)
            more.append(view.output(outer.name, {case: name}, start))
            lists.append(_Kept(case, name, outer.name))
    contents = tuple(table.freeze() for table in forwards)
    d.replace(replace(view, contents=contents, outputs=(*view.outputs, *more)).to_op())
    return values, lists


def _zeros(d: Differentiation, table: SymbolTable, forward: SymbolTable, name: str) -> str:
    """Zeros in one case for what another case keeps."""
    type_ = forward.type_of(name)
    assert isinstance(type_, TensorType), f"the history {name} has no cotangent"
    with d.program.building(table):
        return zeros_of(type_).name


def _append_backward(
    d: Differentiation,
    view: SwitchView,
    cases: Sequence[Body],
    lists: Sequence[_Kept],
    given: Sequence[str],
) -> None:
    """The backward switch, in the block that is being built."""
    table = d.program.current
    name = table.names.unique(f"{d.op.name}_grad")
    types = [table.type_of(origin) for origin in given]
    grads = [
        table.new_var(table.names.unique(f"{origin}_grad"), type_).name
        for origin, type_ in zip(given, types, strict=True)
    ]
    rests: list[str] = []
    for kept in lists:
        type_ = d.host.type_of(kept.outer)
        rests.append(table.new_var(table.names.unique(kept.outer), type_).name)
        d.lists.left(kept.outer, rests[-1])
    table.append(view.like(name, cases, [*grads, *rests]).to_op())
    for origin, grad in zip(given, grads, strict=True):
        d.give(origin, var_of(d.program, table, grad))
