"""Derivatives of the row-wise branch.

The backward cases run their forward cases again and go on from there, but for rows that are
kept, so histories of loops inside a case stay inside. Cotangents of row inputs are rows;
cotangents of captures are sums over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.dtypes import TensorType, Type
from braces.ir.records import ARGUMENT, Body
from braces.ir.table import SymbolTable
from braces.ir.walk import with_captures
from braces.ops.build import Var, append, var_of
from braces.ops.control.keeping import differentiable
from braces.ops.control.partition_keeping import keep_rows
from braces.ops.control.switch_gradient import cases_of
from braces.ops.rules import zeros_of


def outs_of(op: Any) -> int:
    """How many of the results are rows; the others are sums."""
    return int(op.attrs["outs"])


def linear_of(op: Any) -> tuple[int, ...]:
    """The positions of rows that results are linear in."""
    return tuple(op.attrs["linear"])


def partition_gradient(d: Any) -> None:
    """Build the backward branch and give cotangents."""
    op, outer = d.op, d.program.current
    rows = [name for name in op.outputs.get("out", ()) if name in d.grads]
    halves = [_backward_case(d, body, rows) for body in cases_of(op)]
    inputs = op.inputs.get("rows", ())
    captured = [c for c in op.captures() if d.wants(c)]
    given_rows = [i for i in range(len(inputs)) if any(i in r for _, r, _ in halves)]
    given = [c for c in captured if any(c in s for _, _, s in halves)]
    if not given_rows and not given:
        return
    kept, cases = keep_rows(
        d,
        [
            _close(d, table, row_grads, sums, given_rows, given)
            for table, row_grads, sums in halves
        ],
    )
    masks = [d.var(name) for name in op.inputs["masks"]]
    operands = {
        "masks": masks,
        "rows": [*map(d.var, inputs), *(d.grads[name] for name in rows), *map(d.var, kept)],
    }
    linear = (*linear_of(op), *range(len(inputs), len(inputs) + len(rows)))
    attrs = dict(op.attrs) | {"cases": cases, "outs": len(given_rows), "linear": linear}
    assert outer is d.program.current
    made = append(d.program, d.definition, operands, attrs, source=op.source)
    for position, grad in zip(given_rows, made["out"], strict=True):
        d.give(inputs[position], grad)
    for name, grad in zip(given, made["sums"], strict=True):
        d.give(name, grad)


def _backward_case(
    d: Any, body: Body, rows: Sequence[str]
) -> tuple[SymbolTable, dict[int, Var], dict[str, Var]]:
    """One case run again and differentiated: cotangents of its rows, and of its captures."""
    op = d.op
    table = SymbolTable(parent=d.program.current).thaw(body)
    seeds: dict[str, Var] = {}
    with d.program.building(table):
        for name in rows:
            inner = body.results[op.outputs["out"].index(name)]
            grad = _param(d, table, f"{name}_grad", table.type_of(inner))
            seeds[inner] = d.add(seeds[inner], grad) if inner in seeds else grad
        for position, name in enumerate(op.outputs.get("sums", ())):
            if name in d.grads:
                inner, grad = body.results[outs_of(op) + position], d.grads[name]
                seeds[inner] = d.add(seeds[inner], grad) if inner in seeds else grad
        params = body.params[1:]
        wanted = {
            p for p, n in zip(params, op.inputs.get("rows", ()), strict=True) if d.wants(n)
        }
        captures = {c for c in op.captures() if d.wants(c)}
        grads = d.backprop(table, seeds, wanted | captures)
    row_grads = {i: grads[p] for i, p in enumerate(params) if p in wanted and p in grads}
    return table, row_grads, {c: grads[c] for c in captures if c in grads}


def _param(d: Any, table: SymbolTable, stem: str, type_: Type) -> Var:
    name = table.names.unique(stem)
    table.params.append(name)
    table.new_var(name, type_, ARGUMENT)
    return var_of(d.program, table, name)


def _close(
    d: Any,
    table: SymbolTable,
    rows: dict[int, Var],
    sums: dict[str, Var],
    given_rows: Sequence[int],
    given: Sequence[str],
) -> Body:
    results: list[str] = []
    with d.program.building(table):
        for i in given_rows:
            type_ = table.type_of(table.params[1 + i])
            results.append((rows[i] if i in rows else _zeros(type_)).name)
        for name in given:
            results.append((sums[name] if name in sums else _zeros(table.type_of(name))).name)
    return d.eliminate(table.freeze(results), results)


def _zeros(type_: Type) -> Var:
    assert isinstance(type_, TensorType)
    return zeros_of(type_)


def partition_jvp(d: Any) -> None:
    """Let every case return the tangents of its results too."""
    op = d.op
    rows = op.inputs.get("rows", ())
    moving_rows = [i for i, name in enumerate(rows) if name in d.tangents]
    tables: list[SymbolTable] = []
    pushed: list[dict[str, Var]] = []
    for body in cases_of(op):
        table = SymbolTable(parent=d.host).thaw(body)
        tangents = {c: d.tangents[c] for c in op.captures() if c in d.tangents}
        for i in moving_rows:
            param = body.params[1 + i]
            tangents[param] = _param(d, table, f"{param}_tangent", table.type_of(param))
        with d.program.building(table):
            pushed.append(d.push(table, tangents))
        tables.append(table)
    outs, results = outs_of(op), [body.results for body in cases_of(op)]
    moving = [
        i
        for i in range(len(results[0]))
        if any(names[i] in found for names, found in zip(results, pushed, strict=True))
        and differentiable(tables[0].type_of(results[0][i]))
    ]
    cases: list[Body] = []
    for table, names, found in zip(tables, results, pushed, strict=True):
        with d.program.building(table):
            extra = [
                (found[names[i]] if names[i] in found else _zeros(table.type_of(names[i]))).name
                for i in moving
            ]
        split = sum(i < outs for i in moving)
        cases.append(
            table.freeze((*names[:outs], *extra[:split], *names[outs:], *extra[split:]))
        )
    named = (*op.outputs.get("out", ()), *op.outputs.get("sums", ()))
    made = [d.declare(named[i]) for i in moving]
    split = sum(i < outs for i in moving)
    outputs = {
        "out": (*op.outputs.get("out", ()), *made[:split]),
        "sums": (*op.outputs.get("sums", ()), *made[split:]),
    }
    inputs = dict(op.inputs) | {
        "rows": (*rows, *(d.tangents[rows[i]].name for i in moving_rows))
    }
    still = linear_of(op)
    linear = (*still, *(len(rows) + k for k, i in enumerate(moving_rows) if i in still))
    attrs = dict(op.attrs) | {"cases": tuple(cases), "outs": outs + split, "linear": linear}
    d.replace(with_captures(op.with_(inputs=inputs, outputs=outputs, attrs=attrs)))
