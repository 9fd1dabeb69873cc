"""Gradients of switches (a switch on the same index) and plain blocks (a single case).

    y = switch(index=i) captures [x]
        cases [ { s = sin(x)  e = exp(s)  return e }, { return x } ]

The gradient with respect to `x`, where `y_grad` is the cotangent of `y`:

    y, kept = switch(index=i) captures [x]
        cases [ { s = sin(x)  e = exp(s)  return e, e }, { zero = full()  return x, zero } ]
    x_grad = switch(index=i) captures [y_grad, kept, x]
        cases [
            { s_grad = multiply(y_grad, kept)  c = cos(x)  g = multiply(s_grad, c)  return g },
            { return y_grad },
        ]

A residual of a case is an extra output of the forward switch, with zeros from the other cases.
Only the backward case of the executed case reads it. Every backward case returns a cotangent
for every capture, zeros where it has none.

The residual list of a loop inside a case starts outside of the switch and is an output. The
executed case returns the list with its pushes, every other case returns the empty list. In the
backward switch, the executed case returns the remainder, and the others return the list as it
is. If a case shortens a list from outside, the switch also returns the remainder: its length is
needed outside for a cotangent of that length.

A plain block is one case that always runs:

    y = block() captures [x, w]            y, m_kept = block() captures [x, w]
      body {                                 body { ...  return y, m }
        m = matmul(x=x, y=w)               w_grad = block() captures [y_grad, m_kept, x]
        y = sin(x=m)                         body {
        return y                               c = cos(x=m_kept)  g = multiply(x=y_grad, y=c)
      }                                        ...  return w_grad_1
                                             }

A block with `recompute` saves nothing: its gradient recomputes it (rematerialization). A fence
prevents the compiler from reusing forward values (CSE), and from starting before a cotangent is
available.

    w_grad = block() {recompute=true} captures [y_grad, x, w]
      body {
        x_0 = fence(gate=y_grad, x=x)
        m = matmul(x=x_0, y=w)  c = cos(x=m)  ...  return w_grad_1
      }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from braces.builder.append import call
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dtypes import ListType, TensorType
from braces.ir.records import Body, Op
from braces.ir.views import BlockView, CasesView, Output, SwitchView, names_read, view_of
from braces.ir.walk import free_names, producers, rename_body
from braces.ops.array.identity import FENCE
from braces.ops.common.rules import build_zeros
from braces.ops.control.core.differentiation import VjpContext
from braces.ops.control.core.residuals import (
    ResidualPlan,
    Way,
    detach_list_start,
    plan_residuals,
    prepend_recomputed,
    prune_and_plan_residuals,
)
from braces.ops.lists.cotangents import accumulate_cotangent, has_cotangent, zeros_like
from braces.ops.lists.list_to_array import append_length
from braces.ops.lists.stack import EMPTY

View = TypeVar("View", SwitchView, BlockView)


@dataclass(frozen=True)
class _DifferentiatedCase:
    """One case and its gradient under construction.

    Attributes:
        forward: The block of the case.
        table: The block of its gradient, inside the case.
        grads: The cotangents computed in the gradient.
    """

    forward: SymbolTable
    table: SymbolTable
    grads: Mapping[str, Var]


@dataclass(frozen=True)
class _CaseResidual:
    """A residual of one case, as an output of the forward switch.

    Attributes:
        case: The position of the case.
        name: Its name in the case.
        way: `SAVE`, `SAVE_LIST` or `PASS_THROUGH`.
        output: The output.
    """

    case: int
    name: str
    way: Way
    output: Output

    @property
    def outer(self) -> str:
        """The name of the output."""
        return self.output.name


@dataclass(frozen=True)
class _WantedCotangent:
    """A cotangent requested of the backward operator.

    Attributes:
        name: The outer name of the variable.
        inner: Its name in the cases.
    """

    name: str
    inner: str


def switch_gradient(d: VjpContext) -> None:
    """Build the backward switch, save residuals in the forward cases, report cotangents."""
    view = _return_remainders(d, SwitchView.of(d.op))
    _differentiate(
        d, view, [_WantedCotangent(name, name) for name in view.captures if d.needs_grad(name)]
    )


def block_gradient(d: VjpContext) -> None:
    """Build the backward block, which reads saved residuals or recomputes the block.

    The cotangent of a value bound by the block may be requested, too. It has contributions from
    outside and from the rest of the block.
    """
    view = _return_remainders(d, BlockView.of(d.op))
    wanted = [_WantedCotangent(name, name) for name in view.captures if d.needs_grad(name)]
    inside = {out.results[0]: out.name for out in view.outputs if d.is_requested(out.name)}
    wanted += [_WantedCotangent(name, inner) for inner, name in inside.items()]
    _differentiate(d, view, wanted)


def _differentiate(
    d: VjpContext, view: SwitchView | BlockView, wanted: Sequence[_WantedCotangent]
) -> None:
    grads = {name: _rename_on_clash(view, grad) for name, grad in d.grads.items()}
    for out in view.outputs:
        if isinstance(d.host.type_of(out.name), ListType) and out.name not in grads:
            grads[out.name] = d.zero_list(out.name)
    # The cotangents are variables of the block being built, which stands inside the host.
    forwards = [d.program.current.within(d.op).thaw(body) for body in view.cases]
    gradients = [
        _differentiate_case(d, view, k, forward, grads, wanted)
        for k, forward in enumerate(forwards)
    ]
    available = [
        wanted_grad
        for wanted_grad in wanted
        if any(wanted_grad.inner in case.grads for case in gradients)
    ]
    if not available:
        return
    bodies = [_return_cotangents(d, case, available) for case in gradients]
    if isinstance(view, BlockView) and view.recompute:
        gates = {grad.name for grad in grads.values()}
        _append_backward(
            d, view, [_recompute_behind_fence(d, bodies[0], forwards[0], gates)], [], available
        )
        return
    planned = [
        prune_and_plan_residuals(body, forward, set(), d.lists, d.eliminate)
        for body, forward in zip(bodies, forwards, strict=True)
    ]
    residuals = _save_residuals(d, view, forwards, [plan for _, plan in planned])
    cases = [
        _read_residuals(d, k, prepend_recomputed(body, forwards[k], plan), residuals)
        for k, (body, plan) in enumerate(planned)
    ]
    _append_backward(d, view, cases, residuals, available)


def _rename_on_clash(view: CasesView, grad: Var) -> Var:
    """Return a cotangent under a name that no case binds; a user may choose the names."""
    clash = any(grad.name in content.vars for content in view.contents)
    return call("identity", grad) if clash else grad


def _recompute_behind_fence(
    d: VjpContext, body: Body, forward: SymbolTable, cotangents: Set[str]
) -> Body:
    """Return the backward block with the forward operators that it needs, behind a fence."""
    body = d.eliminate(body, body.results)
    gates = [name for name in free_names(body) if name in cotangents]
    plan = plan_residuals(forward, free_names(body), set(), lambda op: True)
    body = prepend_recomputed(body, forward, plan)
    arrays_read = [
        name for name in free_names(body) if name not in gates and _is_float_array(d.host, name)
    ]
    fenced = [name for name in arrays_read if not d.var(name).persistable] or arrays_read
    if not gates or not fenced:
        return body
    table = d.program.current.within(d.op)
    gate_vars = [visible_var(d.program, table, name) for name in gates]
    arrays = [gate for gate in gate_vars if not isinstance(gate.type, ListType)]
    with d.program.building(table):
        gate = arrays[0] if arrays else append_length(gate_vars[0])
        names = {name: call(FENCE, gate, d.var(name)).name for name in fenced}
    body = rename_body(body, names)
    return body.with_(vars={**table.vars, **body.vars}, ops=(*table.ops, *body.ops))


def _is_float_array(table: SymbolTable, name: str) -> bool:
    type_ = table.type_of(name)
    return isinstance(type_, TensorType) and has_cotangent(type_)


# ---- remainders of lists ---------------------------------------------------------------------


def _return_remainders(d: VjpContext, view: View) -> View:
    """Let the operator return the remainders of lists that come from outside.

    The cotangent of a remainder has its length, which otherwise only the case would know.
    """
    more = list[Output]()
    for case, start, end in _outer_lists(view):
        if not _begins_empty(d.host, start):
            body = view.cases[case]
            rest = d.host.new_var(d.host.names.unique("rest"), body.vars[end].type).name
            more.append(view.output(rest, {case: end}, start))
    if not more:
        return view
    view = replace(view, outputs=(*view.outputs, *more))
    d.replace(view.to_op())
    return type(view).of(d.op)


def _outer_lists(view: CasesView) -> Iterator[tuple[int, str, str]]:
    """Yield outer lists that a case consumes: case, name before, name of the remainder."""
    for case, body in enumerate(view.cases):
        names = names_read(body)
        for start, end in (pair for op in body.ops for pair in _lists_through(op, body)):
            if end not in names and start not in body.vars:
                yield case, start, end


def _begins_empty(table: SymbolTable, name: str) -> bool:
    maker = producers(table.ops).get(name)
    return maker is not None and maker.type == EMPTY


def _lists_through(op: Op, body: Body) -> Iterator[tuple[str, str]]:
    """Yield the lists that enter a loop or switch inside a case, with the resulting lists."""
    view = view_of(op)
    if view is None:
        return
    for end in op.binds():
        if isinstance(body.vars[end].type, ListType):
            sources = view.sources(end)
            starts = (n for block, n in sources if block is None or n not in block.vars)
            yield from ((start, end) for start in islice(starts, 1))


# ---- backward cases --------------------------------------------------------------------------


def _differentiate_case(
    d: VjpContext,
    view: CasesView,
    case: int,
    forward: SymbolTable,
    grads: Mapping[str, Var],
    wanted: Sequence[_WantedCotangent],
) -> _DifferentiatedCase:
    table, seeds = SymbolTable(parent=forward), dict[str, Var]()
    with d.program.building(table):
        for out in view.outputs:
            if out.name in grads:
                accumulate_cotangent(seeds, out.results[case], grads[out.name])
        grads_inside = d.backprop(forward, seeds, {item.inner for item in wanted})
    return _DifferentiatedCase(forward, table, grads_inside)


def _return_cotangents(
    d: VjpContext, case: _DifferentiatedCase, variables: Sequence[_WantedCotangent]
) -> Body:
    """Let the backward case return a cotangent for each variable, zeros included."""
    with d.program.building(case.table):
        grads = [
            case.grads[item.inner] if item.inner in case.grads else zeros_like(d.var(item.name))
            for item in variables
        ]
    return case.table.freeze(grad.name for grad in grads)


def _read_residuals(
    d: VjpContext, case: int, body: Body, residuals: Sequence[_CaseResidual]
) -> Body:
    """Let a backward case read saved residuals and return remainders of lists."""
    rests = [
        d.lists.rest_of(item.name) if item.case == case else item.outer
        for item in residuals
        if item.way is Way.PASS_THROUGH
    ]
    names = {item.name: item.outer for item in residuals if item.case == case}
    return rename_body(body.with_(results=(*body.results, *rests)), names)


# ---- both operators --------------------------------------------------------------------------


def _save_residuals(
    d: VjpContext,
    view: SwitchView | BlockView,
    forwards: Sequence[SymbolTable],
    plans: Sequence[ResidualPlan],
) -> list[_CaseResidual]:
    """Let the forward operator return the residuals of all cases."""
    residuals = [
        _save_residual(d, view, forwards, case, name, way)
        for case, plan in enumerate(plans)
        for way in (Way.SAVE, Way.PASS_THROUGH, Way.SAVE_LIST)
        for name in plan.names(way)
    ]
    contents = tuple(table.freeze() for table in forwards)
    outputs = (*view.outputs, *(item.output for item in residuals))
    d.replace(replace(view, contents=contents, outputs=outputs).to_op())
    return residuals


def _save_residual(
    d: VjpContext,
    view: SwitchView | BlockView,
    forwards: Sequence[SymbolTable],
    case: int,
    name: str,
    way: Way,
) -> _CaseResidual:
    """Declare an output for a residual; other cases return zeros or an empty list."""
    forward, unique = forwards[case], d.host.names.unique
    type_ = forward.type_of(name)
    if way is Way.SAVE:
        outer = d.host.new_var(unique(f"{name}_kept"), type_).name
        results = [
            name if table is forward else _zeros(d, table, forward, name) for table in forwards
        ]
        return _CaseResidual(case, name, way, Output(outer, tuple(results)))
    if way is Way.PASS_THROUGH:
        list_ = detach_list_start(d.lists, forward, name)
        start = d.empty_list(list_.element, list_.history, list_.param)
        outer = d.host.new_var(unique("history"), ListType(list_.element)).name
        d.lists.record_start(outer, start)
    else:
        assert isinstance(type_, ListType)
        start = d.empty_list(type_.element, unique("history"))
        outer = d.host.new_var(unique(f"{name}_kept"), type_).name
    return _CaseResidual(case, name, way, view.output(outer, {case: name}, start))


def _zeros(d: VjpContext, table: SymbolTable, forward: SymbolTable, name: str) -> str:
    """Return zeros in one case, in place of another case's residual."""
    type_ = forward.type_of(name)
    assert isinstance(type_, TensorType), f"the history {name} has no cotangent"
    with d.program.building(table):
        return build_zeros(type_).name


def _append_backward(
    d: VjpContext,
    view: SwitchView | BlockView,
    cases: Sequence[Body],
    residuals: Sequence[_CaseResidual],
    variables: Sequence[_WantedCotangent],
) -> None:
    """Append the backward operator to the block under construction."""
    table = d.program.current
    name = table.names.unique(f"{d.op.name}_grad")
    grads = [
        table.new_var(table.names.unique(f"{item.name}_grad"), table.type_of(item.name)).name
        for item in variables
    ]
    rests: list[str] = []
    for outer in (item.outer for item in residuals if item.way is Way.PASS_THROUGH):
        rests.append(table.new_var(table.names.unique(outer), d.host.type_of(outer)).name)
        d.lists.record_rest(outer, rests[-1])
    table.append(view.like(name, cases, [*grads, *rests]).to_op())
    for item, grad in zip(variables, grads, strict=True):
        report = d.accumulate if item.name in view.captures else d.set_grad
        report(item.name, var_of(d.program, table, grad))
