"""Forward mode (JVP) of loops, switches and plain blocks.

The same operator, with a tangent beside each memory, scanned input and output:

    ys, x = loop(init=a, sliced=s)
        body (t, h, c) { h2 = multiply(h, c)  return h2, h2 }

    ys, x, ys_tangent, x_tangent = loop(init=[a, a_tangent], sliced=[s, s_tangent])
        body (t, h, h_tangent, c, c_tangent) {
            h2 = multiply(h, c)  h2_tangent = ...
            return h2, h2_tangent, h2, h2_tangent
        }

If an input tangent is computed from outputs of the operator itself, the operator stays. A
second operator computes the tangents: the wider one under other names, or for a plain block, a
block with the tangents only. Here `a_tangent` is `y * 2`:

    y = block() captures [a]          y, h_kept = block() captures [a]
      body {                            body { ...  return y, h }
        h = exp(a)                      a_tangent = add(y, y)
        y = sin(h)              ->      y_tangent = block() captures [a_tangent, h_kept]
        return y                          body {
      }                                     h_tangent = multiply(a_tangent, h_kept)
                                            c = cos(h_kept)  t = multiply(h_tangent, c)
                                            return t
                                          }
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from braces.builder.append import call
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.ir.records import ARGUMENT, Body
from braces.ir.views import (
    BlockView,
    LoopView,
    MemoryView,
    Output,
    Slice,
    StackedOutputView,
    SwitchView,
)
from braces.ir.walk import all_bodies, free_names, rename_body
from braces.ops.control.core.dependence import find_dependent_loop_outputs
from braces.ops.control.core.differentiation import JvpContext
from braces.ops.control.core.residuals import Way, plan_residuals, prepend_recomputed
from braces.ops.lists.cotangents import has_cotangent, zeros_like


def loop_jvp(d: JvpContext) -> None:
    """Let the loop carry a tangent beside each active memory."""
    view = LoopView.of(d.op)
    body = SymbolTable(parent=d.program.current).thaw(view.body)
    tangents = captured_tangents(d)
    sliced = [slice_ for slice_ in view.slices if slice_.source in d.tangents]
    reached = find_dependent_loop_outputs(d.op, d.tangents.keys(), d.reachable)
    moving = [
        memory
        for memory in view.memories
        if memory.final in reached and has_cotangent(body.type_of(memory.param))
    ]
    params = [_add_tangent_param(d, body, tangents, memory.param) for memory in moving]
    cuts = [
        Slice(
            d.tangents[scanned.source].name,
            _add_tangent_param(d, body, tangents, scanned.param),
        )
        for scanned in sliced
    ]
    with d.program.building(body):
        body_tangents = d.jvp(body, tangents)
        nexts = [tangent_of(d, body, body_tangents, memory.next) for memory in moving]
    rows = [row for row in view.rows if row.result in body_tangents]
    starts = [tangent_of(d, d.host, d.tangents, memory.init) for memory in moving]
    memories = [
        MemoryView(start, param, after, d.declare(memory.final))
        for memory, start, param, after in zip(moving, starts, params, nexts, strict=True)
    ]
    stacked = [
        StackedOutputView(body_tangents[row.result].name, d.declare(row.stacked))
        for row in rows
    ]
    wider = replace(
        view,
        content=body.freeze(),
        memories=(*view.memories, *memories),
        slices=(*view.slices, *cuts),
        rows=(*view.rows, *stacked),
    )
    d.widen(wider.to_op())


def captured_tangents(d: JvpContext) -> dict[str, Var]:
    """Return the tangents of an operator's captures."""
    hidden = _bound_inside(d)
    return {
        n: _rename_on_clash(d.tangents[n], hidden) for n in d.op.captures() if n in d.tangents
    }


def tangent_for(d: JvpContext, name: str) -> Var:
    """Return the tangent of an input for use inside a block of the operator."""
    return _rename_on_clash(d.tangents[name], _bound_inside(d))


def _bound_inside(d: JvpContext) -> set[str]:
    """Return the names bound by blocks of the operator, at any depth."""
    bodies = d.op.bodies().values()
    return {name for body in bodies for inner, _ in all_bodies(body) for name in inner.vars}


def _rename_on_clash(tangent: Var, hidden: Container[str]) -> Var:
    """Return a tangent under a name that is not bound inside; a user may choose the names."""
    return call("identity", tangent) if tangent.name in hidden else tangent


def _add_tangent_param(
    d: JvpContext, body: SymbolTable, tangents: dict[str, Var], name: str
) -> str:
    param = body.names.unique(f"{name}_tangent")
    body.new_var(param, body.type_of(name), ARGUMENT)
    tangents[name] = var_of(d.program, body, param)
    return param


def tangent_of(
    d: JvpContext, table: SymbolTable, tangents: Mapping[str, Var], name: str
) -> str:
    """Return the tangent of a variable; zeros if it has none."""
    if name in tangents:
        return tangents[name].name
    return zeros_like(visible_var(d.program, table, name)).name


def switch_jvp(d: JvpContext) -> None:
    """Let every case also return the tangents of its outputs."""
    _cases_jvp(d, SwitchView.of(d.op), captured_tangents(d))


def block_jvp(d: JvpContext) -> None:
    """Let the block also return the tangents of its outputs, or build a second block.

    Values that it binds may be active inputs as well: outputs that already have a tangent.
    """
    view, hidden = BlockView.of(d.op), _bound_inside(d)
    moves = {o.results[0]: d.tangents[o.name] for o in view.outputs if o.name in d.tangents}
    moves = {name: _rename_on_clash(tangent, hidden) for name, tangent in moves.items()}
    build = _build_tangent_block if d.is_separate else _cases_jvp
    build(d, view, captured_tangents(d) | moves)


def _cases_jvp(
    d: JvpContext, view: SwitchView | BlockView, tangents: Mapping[str, Var]
) -> None:
    tables = [d.program.current.within(d.op).thaw(body) for body in view.cases]
    pushed = list[Mapping[str, Var]]()
    for table in tables:
        with d.program.building(table):
            pushed.append(d.jvp(table, tangents))
    outputs = tangent_outputs(d, tables, pushed, view.outputs).values()
    contents = tuple(table.freeze() for table in tables)
    d.widen(replace(view, contents=contents, outputs=(*view.outputs, *outputs)).to_op())


def tangent_outputs(
    d: JvpContext,
    tables: Sequence[SymbolTable],
    tangents: Sequence[Mapping[str, Var]],
    outputs: Iterable[Output],
) -> dict[Output, Output]:
    """Let every case compute the tangents of outputs that have one in at least one case.

    Returns:
        The outputs with these tangents, by the outputs of the branch.
    """
    moving = [
        out
        for out in outputs
        if any(name in of_case for name, of_case in zip(out.results, tangents, strict=True))
        and has_cotangent(tables[0].type_of(out.results[0]))
    ]
    results = list[list[str]]()
    for k, (table, of_case) in enumerate(zip(tables, tangents, strict=True)):
        with d.program.building(table):
            results.append([tangent_of(d, table, of_case, out.results[k]) for out in moving])
    names = [d.declare(out.name) for out in moving]
    return dict(zip(moving, map(Output, names, zip(*results, strict=True)), strict=True))


def _build_tangent_block(d: JvpContext, view: BlockView, tangents: Mapping[str, Var]) -> None:
    """Build a block with the tangents only, which reads residuals of the first block."""
    forward = d.program.current.within(d.op).thaw(view.body)
    table = SymbolTable(parent=forward)
    with d.program.building(table):
        block_tangents = d.jvp(forward, tangents)
    moving = {
        out.name: block_tangents[out.results[0]].name
        for out in view.outputs
        if out.results[0] in block_tangents
        and block_tangents[out.results[0]] is not tangents.get(out.results[0])
    }
    results = tuple(moving.values())
    body = _with_residuals(d, view, d.eliminate(table.freeze(results), results), forward)
    target = d.program.current
    name = target.names.unique(f"{d.op.name}_tangent")
    target.append(view.like(name, [body], [d.declare(out) for out in moving]).to_op())


def _with_residuals(d: JvpContext, view: BlockView, body: Body, forward: SymbolTable) -> Body:
    """Let a block of tangents read its residuals, saved by the other block or recomputed.

    Lists cannot be outputs of blocks.
    """
    plan = plan_residuals(forward, free_names(body), set())
    if view.recompute or plan.names(Way.SAVE_LIST):
        plan = plan_residuals(forward, free_names(body), set(), lambda op: True)
        return prepend_recomputed(body, forward, plan)
    output_of = {out.results[0]: out.name for out in view.outputs}
    saved = plan.names(Way.SAVE)
    more = [
        Output(d.host.new_var(d.host.names.unique(f"{n}_kept"), forward.type_of(n)).name, (n,))
        for n in saved
        if n not in output_of
    ]
    if more:
        outputs = (*view.outputs, *more)
        d.replace(replace(view, contents=(forward.freeze(),), outputs=outputs).to_op())
    output_of |= {out.results[0]: out.name for out in more}
    names = {name: output_of[name] for name in saved}
    return rename_body(prepend_recomputed(body, forward, plan), names)
