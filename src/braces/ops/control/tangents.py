"""Directional derivatives of loops and branches.

The same operator, with a tangent beside each memory, slice, row and output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, Body, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import with_captures
from braces.ops.build import Var, var_of
from braces.ops.control.keeping import differentiable
from braces.ops.control.loop_parts import Parts
from braces.ops.control.reached import loop_reached
from braces.ops.control.switch_gradient import cases_of
from braces.ops.lists import zero_list
from braces.ops.rules import zeros_of


def zero_tangent(var: Var) -> Var:
    """The tangent of what does not move."""
    return zero_list(var) if isinstance(var.type, ListType) else zeros_of(_tensor(var.type))


def _tensor(type_: Type) -> TensorType:
    assert isinstance(type_, TensorType)
    return type_


def loop_jvp(d: Any, parts: Parts) -> None:
    """Let the loop carry a tangent beside each memory that moves."""
    body = SymbolTable(parent=d.host).thaw(parts.body)
    op, slices = d.op, parts.slice_params
    tangents = {c: d.tangents[c] for c in op.captures() if c in d.tangents}
    sliced = [
        (p, n)
        for p, n in zip(slices, op.inputs.get("sliced", ()), strict=True)
        if n in d.tangents
    ]
    reached = loop_reached(op, d.tangents.keys(), d.reachable)
    moving = [j for j, name in enumerate(op.outputs["final"]) if name in reached]
    moving = [j for j in moving if differentiable(body.type_of(parts.memory_params[j]))]
    params = [_param(d, body, tangents, parts.memory_params[j]) for j in moving]
    cuts = [_param(d, body, tangents, param) for param, _ in sliced]
    with d.program.building(body):
        found = d.push(body, tangents)
        results = [_tangent(d, body, found, parts.next_memories[j]) for j in moving]
        rows = [i for i, name in enumerate(parts.rows) if name in found]
        row_tangents = [found[parts.rows[i]].name for i in rows]
    starts = [_tangent(d, d.host, d.tangents, op.inputs["init"][j]) for j in moving]
    body.params = [parts.index, *parts.memory_params, *params, *slices, *cuts]
    whole = body.freeze((*parts.next_memories, *results, *parts.rows, *row_tangents))
    finals = [d.declare(op.outputs["final"][j]) for j in moving]
    stacked = [d.declare(op.outputs["stacked"][i]) for i in rows]
    inputs = dict(op.inputs) | {
        "init": (*op.inputs.get("init", ()), *starts),
        "sliced": (*op.inputs.get("sliced", ()), *(d.tangents[n].name for _, n in sliced)),
    }
    outputs = dict(op.outputs) | {
        "final": (*op.outputs["final"], *finals),
        "stacked": (*op.outputs.get("stacked", ()), *stacked),
    }
    attrs = dict(op.attrs) | {"body": whole, "cond": _wider(op.attrs["cond"], params, body)}
    d.replace(with_captures(op.with_(inputs=inputs, outputs=outputs, attrs=attrs)))


def _param(d: Any, body: SymbolTable, tangents: dict[str, Var], name: str) -> str:
    made = body.names.unique(f"{name}_tangent")
    body.new_var(made, body.type_of(name), ARGUMENT)
    tangents[name] = var_of(d.program, body, made)
    return made


def _tangent(d: Any, table: SymbolTable, tangents: dict[str, Var], name: str) -> str:
    """The tangent of a variable; zeros where it has none."""
    if name in tangents:
        return tangents[name].name
    owner = table.table_of(name)
    assert owner is not None
    return zero_tangent(var_of(d.program, owner, name)).name


def _wider(cond: Any, params: Sequence[str], body: SymbolTable) -> Any:
    if not isinstance(cond, Body):
        return cond
    infos = {name: VarInfo(name, body.type_of(name), ARGUMENT) for name in params}
    return cond.with_(params=(*cond.params, *params), vars=dict(cond.vars) | infos)


def switch_jvp(d: Any) -> None:
    """Let every case return the tangents of its outputs too."""
    tangents = {c: d.tangents[c] for c in d.op.captures() if c in d.tangents}
    tables = [SymbolTable(parent=d.host).thaw(body) for body in cases_of(d.op)]
    found: list[dict[str, Var]] = []
    for table in tables:
        with d.program.building(table):
            found.append(d.push(table, dict(tangents)))
    results = [body.results for body in cases_of(d.op)]
    moving = [
        i
        for i in range(len(d.op.outputs["out"]))
        if any(names[i] in pushed for names, pushed in zip(results, found, strict=True))
    ]
    cases: list[Body] = []
    for table, names, pushed in zip(tables, results, found, strict=True):
        with d.program.building(table):
            extra = [_tangent(d, table, pushed, names[i]) for i in moving]
        cases.append(table.freeze((*names, *extra)))
    outs = [d.declare(d.op.outputs["out"][i]) for i in moving]
    attrs = dict(d.op.attrs) | {"cases": tuple(cases)}
    outputs = {"out": (*d.op.outputs["out"], *outs)}
    d.replace(with_captures(d.op.with_(outputs=outputs, attrs=attrs)))
