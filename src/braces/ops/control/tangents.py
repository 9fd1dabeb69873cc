"""Directional derivatives of loops and switches.

The same operator, with a tangent beside each memory, slice, row and output:

    ys, x = loop(init=a, sliced=s)
        body (t, h, c) { h2 = multiply(h, c)  return h2, h2 }

    ys, x, ys_tangent, x_tangent = loop(init=[a, a_tangent], sliced=[s, s_tangent])
        body (t, h, h_tangent, c, c_tangent) {
            h2 = multiply(h, c)  h2_tangent = ...
            return h2, h2_tangent, h2, h2_tangent
        }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from braces.builder.table import SymbolTable
from braces.builder.var import Var, call, var_of, visible_var
from braces.ir.records import ARGUMENT
from braces.ir.views import BlockView, LoopView, Memory, Output, Row, Slice, SwitchView
from braces.ops.control.cotangents import differentiable, zeros_like
from braces.ops.control.derivatives import Pushing
from braces.ops.control.reached import loop_reached


def loop_jvp(d: Pushing) -> None:
    """Let the loop carry a tangent beside each memory that moves."""
    view = LoopView.of(d.op)
    body = SymbolTable(parent=d.host).thaw(view.body)
    tangents = captured_tangents(d)
    sliced = [slice_ for slice_ in view.slices if slice_.source in d.tangents]
    reached = loop_reached(d.op, d.tangents.keys(), d.reachable)
    moving = [
        memory
        for memory in view.memories
        if memory.final in reached and differentiable(body.type_of(memory.param))
    ]
    params = [_param(d, body, tangents, memory.param) for memory in moving]
    cuts = [
        Slice(d.tangents[one.source].name, _param(d, body, tangents, one.param))
        for one in sliced
    ]
    with d.program.building(body):
        found = d.push(body, tangents)
        nexts = [tangent_of(d, body, found, memory.next) for memory in moving]
    rows = [row for row in view.rows if row.result in found]
    starts = [tangent_of(d, d.host, d.tangents, memory.init) for memory in moving]
    memories = [
        Memory(start, param, after, d.declare(memory.final))
        for memory, start, param, after in zip(moving, starts, params, nexts, strict=True)
    ]
    stacked = [Row(found[row.result].name, d.declare(row.stacked)) for row in rows]
    wider = replace(
        view,
        content=body.freeze(),
        memories=(*view.memories, *memories),
        slices=(*view.slices, *cuts),
        rows=(*view.rows, *stacked),
    )
    d.replace(wider.to_op())


def captured_tangents(d: Pushing) -> dict[str, Var]:
    """The tangents of what the blocks of an operator read from outside."""
    return {name: d.tangents[name] for name in d.op.captures() if name in d.tangents}


def _param(d: Pushing, body: SymbolTable, tangents: dict[str, Var], name: str) -> str:
    made = body.names.unique(f"{name}_tangent")
    body.new_var(made, body.type_of(name), ARGUMENT)
    tangents[name] = var_of(d.program, body, made)
    return made


def tangent_of(d: Pushing, table: SymbolTable, known: Mapping[str, Var], name: str) -> str:
    """The tangent of a variable; zeros where it has none."""
    if name in known:
        return known[name].name
    return zeros_like(visible_var(d.program, table, name)).name


def switch_jvp(d: Pushing) -> None:
    """Let every case return the tangents of its outputs too."""
    _cases_jvp(d, SwitchView.of(d.op), captured_tangents(d))


def block_jvp(d: Pushing) -> None:
    """Let the block return the tangents of its outputs too.

    What it binds may move as well: an output that has a tangent already.
    """
    view = BlockView.of(d.op)
    moves = {o.results[0]: d.tangents[o.name] for o in view.outputs if o.name in d.tangents}
    _cases_jvp(d, view, captured_tangents(d) | moves)


def _cases_jvp(d: Pushing, view: SwitchView | BlockView, tangents: Mapping[str, Var]) -> None:
    bound = {name for content in view.contents for name in content.vars}
    tangents = {
        name: call("identity", tangent) if tangent.name in bound else tangent
        for name, tangent in tangents.items()
    }
    tables = [d.host.within(d.op).thaw(body) for body in view.cases]
    pushed = list[Mapping[str, Var]]()
    for table in tables:
        with d.program.building(table):
            pushed.append(d.push(table, tangents))
    moving = [
        out
        for out in view.outputs
        if any(name in found for name, found in zip(out.results, pushed, strict=True))
    ]
    extra = list[list[str]]()
    for k, (table, found) in enumerate(zip(tables, pushed, strict=True)):
        with d.program.building(table):
            extra.append([tangent_of(d, table, found, out.results[k]) for out in moving])
    names = [d.declare(out.name) for out in moving]
    outputs = map(Output, names, zip(*extra, strict=True))
    contents = tuple(table.freeze() for table in tables)
    d.replace(replace(view, contents=contents, outputs=(*view.outputs, *outputs)).to_op())
