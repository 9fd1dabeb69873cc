"""The gradient of a switch: a switch on the same index.

What the backward cases read of the forward cases is kept as extra outputs of the forward
switch,
with zeros from the cases that did not make it. Histories of loops inside a case pass through
all cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.dtypes import ListType, TensorType
from braces.ir.records import VALUE, Body, Op, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import producers, rename_body, with_captures
from braces.ops.build import Var, var_of
from braces.ops.control.keeping import Plan, settle, take_list
from braces.ops.lists import EMPTY, zero_list
from braces.ops.rules import zeros_of


def cases_of(op: Op) -> tuple[Body, ...]:
    """The blocks of a switch."""
    cases = op.attrs["cases"]
    assert isinstance(cases, tuple)
    return tuple(body for body in cases if isinstance(body, Body))


def switch_gradient(d: Any) -> None:
    """Build the backward switch, let the forward cases keep what it reads, give cotangents."""
    _return_rests(d)
    wanted = [c for c in d.op.captures() if d.wants(c)]
    for name in d.op.outputs["out"]:
        if isinstance(d.host.type_of(name), ListType) and name not in d.grads:
            d.grads[name] = d.zero_list(name)
    outs = [(i, name) for i, name in enumerate(d.op.outputs["out"]) if name in d.grads]
    # The cotangents are variables of the block being built, which stands inside the host.
    forwards = [SymbolTable(parent=d.program.current).thaw(body) for body in cases_of(d.op)]
    halves = [
        _backward_case(d, forward, body, wanted, outs)
        for forward, body in zip(forwards, cases_of(d.op), strict=True)
    ]
    given = [c for c in wanted if any(c in grads for _, grads in halves)]
    if not given:
        return
    settled = [
        settle(_close_case(d, table, grads, given), forward, set(), d.lists, d.eliminate)
        for forward, (table, grads) in zip(forwards, halves, strict=True)
    ]
    bodies, plans = [body for body, _ in settled], [plan for _, plan in settled]
    kept = _keep(d, forwards, plans)
    _append_backward(d, forwards, bodies, plans, kept, given)


def _return_rests(d: Any) -> None:
    """Let the switch return what its cases leave of lists that come from outside.

    The cotangent of such a rest is as long as the rest, which only the case would know.
    """
    op, results = d.op, [list(body.results) for body in cases_of(d.op)]
    made = producers(d.host.ops)
    names: list[str] = []
    for case, body in enumerate(cases_of(op)):
        read = {name for inner in body.ops for name in inner.reads()} | set(body.results)
        for inner in body.ops:
            for start, end in _lists_through(inner, body):
                empty = start in made and made[start].type == EMPTY
                if end in read or start in body.vars or empty:
                    continue
                names.append(
                    d.host.new_var(d.host.names.unique("rest"), body.vars[end].type).name
                )
                for other, mine in enumerate(results):
                    mine.append(end if other == case else start)
    if not names:
        return
    cases = tuple(
        body.with_(results=tuple(mine))
        for body, mine in zip(cases_of(op), results, strict=True)
    )
    outputs = {"out": (*op.outputs["out"], *names)}
    op = with_captures(op.with_(outputs=outputs, attrs=dict(op.attrs) | {"cases": cases}))
    d.replace(op)
    d.op = op


def _lists_through(op: Op, body: Body) -> list[tuple[str, str]]:
    """The lists that enter a loop or a switch inside a case, and what comes out of it."""
    if not op.bodies():
        return []
    found = list(zip(op.inputs.get("init", ()), op.outputs.get("final", ()), strict=False))
    for position, end in enumerate(op.outputs.get("out", ()) if "cases" in op.attrs else ()):
        starts = [
            b.results[position] for b in cases_of(op) if b.results[position] not in b.vars
        ]
        found += [(start, end) for start in starts[:1]]
    return [(start, end) for start, end in found if isinstance(body.vars[end].type, ListType)]


def _backward_case(
    d: Any,
    forward: SymbolTable,
    body: Body,
    wanted: Sequence[str],
    outs: Sequence[tuple[int, str]],
) -> tuple[SymbolTable, dict[str, Var]]:
    table = SymbolTable(parent=forward)
    seeds: dict[str, Var] = {}
    with d.program.building(table):
        for position, name in outs:
            inner, grad = body.results[position], d.grads[name]
            seeds[inner] = d.add(seeds[inner], grad) if inner in seeds else grad
        grads = d.backprop(forward, seeds, set(wanted))
    return table, grads


def _close_case(
    d: Any, table: SymbolTable, grads: dict[str, Var], given: Sequence[str]
) -> Body:
    """The backward case; it returns a cotangent for every capture, zeros included."""
    results: list[str] = []
    with d.program.building(table):
        for name in given:
            results.append((grads[name] if name in grads else _no_cotangent(d, name)).name)
    return table.freeze(results)


def _no_cotangent(d: Any, name: str) -> Var:
    """Zeros for a capture that this case does not use."""
    var = d.var(name)
    return zero_list(var) if isinstance(var.type, ListType) else zeros_of(var.type)


def _keep(d: Any, forwards: Sequence[SymbolTable], plans: Sequence[Plan]) -> dict[str, str]:
    """Give the forward switch extra outputs; returns inner name by outer name, case by case."""
    op, host = d.op, d.host
    results = [list(body.results) for body in cases_of(op)]
    outer: dict[str, str] = {}
    names: list[str] = []
    for case, (forward, plan) in enumerate(zip(forwards, plans, strict=True)):
        for name in plan.values:
            made = host.new_var(host.names.unique(f"{name}_kept"), forward.type_of(name)).name
            outer[f"{case} {name}"] = made
            names.append(made)
            for other, table in enumerate(forwards):
                results[other].append(
                    name if other == case else _zeros(d, table, forward, name)
                )
        for name in plan.lists:
            thread = take_list(d.lists, forward, name)
            start = d.empty_list(thread.element, thread.history, thread.param)
            made = host.new_var(host.names.unique("history"), ListType(thread.element)).name
            d.lists.origins[made] = start
            outer[f"{case} {name}"] = made
            names.append(made)
            for other in range(len(forwards)):
                results[other].append(name if other == case else start)
    cases = tuple(t.freeze(r) for t, r in zip(forwards, results, strict=True))
    outputs = {"out": (*op.outputs["out"], *names)}
    d.replace(with_captures(op.with_(outputs=outputs, attrs=dict(op.attrs) | {"cases": cases})))
    return outer


def _zeros(d: Any, table: SymbolTable, forward: SymbolTable, name: str) -> str:
    with d.program.building(table):
        return _zeros_like(forward, name)


def _zeros_like(table: SymbolTable, name: str) -> str:
    """Zeros of a variable's type, in the block that is being built."""
    type_ = table.type_of(name)
    assert isinstance(type_, TensorType), f"the history {name} has no cotangent"
    return zeros_of(type_).name


def _append_backward(
    d: Any,
    forwards: Sequence[SymbolTable],
    bodies: Sequence[Body],
    plans: Sequence[Plan],
    kept: dict[str, str],
    given: Sequence[str],
) -> None:
    """The backward switch, in the block that is being built."""
    table = d.program.current
    lists = [(case, name) for case, plan in enumerate(plans) for name in plan.lists]
    cases: list[Body] = []
    for case, (forward, body, plan) in enumerate(zip(forwards, bodies, plans, strict=True)):
        body = _with_recomputed(forward, body, plan)
        names = {n: kept[f"{case} {n}"] for n in (*plan.values, *plan.lists)}
        rests = [
            d.lists.rests[name] if owner == case else kept[f"{owner} {name}"]
            for owner, name in lists
        ]
        body = Body((), (*body.results, *rests), body.vars, body.ops)
        cases.append(rename_body(body, names))
    op = d.op.with_(
        name=table.names.unique(f"{d.op.name}_grad"),
        attrs=dict(d.op.attrs) | {"cases": tuple(cases)},
    )
    types = [table.type_of(name) for name in given]
    outputs = [
        table.new_var(table.names.unique(f"{n}_grad"), t).name
        for n, t in zip(given, types, strict=True)
    ]
    for owner, name in lists:
        source = kept[f"{owner} {name}"]
        rest = table.new_var(table.names.unique(source), d.host.type_of(source)).name
        d.lists.rests[source] = rest
        outputs.append(rest)
    made = with_captures(op.with_(outputs={"out": tuple(outputs)}))
    table.append(made)
    for name, grad in zip(given, outputs, strict=False):
        d.give(name, var_of(d.program, table, grad))


def _with_recomputed(forward: SymbolTable, body: Body, plan: Plan) -> Body:
    infos = dict(body.vars)
    for op in plan.recomputed:
        infos |= {n: VarInfo(n, forward.type_of(n), VALUE) for n in op.binds()}
    return Body(body.params, body.results, infos, (*plan.recomputed, *body.ops))
