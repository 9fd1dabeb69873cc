"""Gradient of a loop: a loop in reverse order over the residuals of the forward loop.

    end = loop(init=a, sliced=s) captures [w]
        body (t, h, x) { m = multiply(h, w)  p = add(m, x)  h2 = tanh(p)  return h2 }

The gradient of `end` with respect to `w`, where `one` is the cotangent of `end`:

    end, h2s, hs = loop(init=a, sliced=s) captures [w]                # saves the residuals
        body (t, h, x) { ...  return h2, h2, h }
    a_grad, w_grad = loop(init=[one, zero], sliced=[h2s, hs]) {reverse=true} captures [w]
        body (t, h2_grad, w_sum, h2, h) {
            p_grad = tanh.vjp(out=h2, out_grad=h2_grad)
            h_grad = multiply(p_grad, w)
            more = multiply(p_grad, h)
            w_sum2 = add(w_sum, more)
            return h_grad, w_sum2
        }

Each cotangent has a fixed form in the backward loop:

- The cotangent of a memory is a memory of the backward loop.
- The cotangent of a capture is a memory too, a sum over the iterations.
- The cotangent of a scanned input is a stacked output.

A sum of 16-bit floats is accumulated in float32 and rounded after the last iteration. In 16
bits the sum would soon be too large for one iteration to change it.

A loop with a known trip count saves residuals as stacked outputs, which the backward loop
scans. A loop with a data-dependent trip count pushes them on lists, which the backward loop
pops. `push` and `pop` are each other's gradient, so higher orders need no further operators. A
residual list of a loop inside the body is threaded through this loop as one more memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.dtypes import TensorType, Type
from braces.ir.records import Body
from braces.ir.views import LoopView, MemoryView, Slice, StackedOutputView
from braces.ir.walk import ancestors
from braces.ops.common.rules import build_zeros
from braces.ops.control.core.differentiation import VjpContext
from braces.ops.control.loop.dead_memories import trim_loop
from braces.ops.control.loop.residuals import counted_length, save_residuals
from braces.ops.lists.cotangents import (
    accumulate_cotangent,
    accumulation_type,
    cast_cotangent,
    has_cotangent,
    zeros_like_variable,
)


@dataclass(frozen=True)
class _CotangentCarry:
    """A memory of the backward loop: the cotangent of one name of the forward body.

    Attributes:
        name: The name.
        origin: The input of the forward loop that receives the cotangent.
        init: The initial value of the cotangent.
        grad: The cotangent as a parameter of the backward body.
        known: Whether the initial value is not just zeros.
    """

    name: str
    origin: str
    init: Var
    grad: Var
    known: bool


def loop_gradient(d: VjpContext) -> None:
    """Build the backward loop, let the forward loop save residuals, report cotangents."""
    view = LoopView.of(d.op)
    forward = SymbolTable(parent=d.host).thaw(view.body)
    table = SymbolTable(parent=forward)
    backward, origin_of = _build_backward(d, view, forward, table)
    if not origin_of:
        return
    save_residuals(d, view, forward, table, trim_loop(backward, origin_of.keys(), d.eliminate))
    for name, origin in origin_of.items():
        grad = var_of(d.program, d.program.current, name)
        d.give(origin, cast_cotangent(grad, d.var(origin).type))


# ---- backward loop ---------------------------------------------------------------------------


def _build_backward(
    d: VjpContext, view: LoopView, forward: SymbolTable, table: SymbolTable
) -> tuple[LoopView, dict[str, str]]:
    """Build the backward loop, still without its residuals.

    Returns:
        The loop, and for each needed output the input whose cotangent it is.
    """
    flowing = _active_memories(d, view)
    memories = [_memory_cotangent(d, table, memory) for memory in flowing]
    sums = [_capture_cotangent(d, table, name) for name in view.captures if d.wants(name)]
    seeds = dict[str, Var]()
    for memory, carried in zip(flowing, memories, strict=True):
        _seed(d, table, seeds, memory.next, carried.grad)
    for carried in sums:
        _seed(d, table, seeds, carried.name, carried.grad)
    seed_slices = [
        _seed_row(d, table, seeds, row) for row in view.rows if row.stacked in d.grads
    ]
    slices = [item for item in view.slices if has_cotangent(forward.type_of(item.param))]
    wanted = {carried.name for carried in (*memories, *sums)} | {item.param for item in slices}
    with d.program.building(table):
        grads = d.backprop(forward, seeds, wanted)
        ends = [_grad_or_zeros(d, forward, grads, item.name) for item in (*memories, *sums)]
    known = {item.name for item in memories if item.known or item.name in grads}
    known |= {item.name for item in sums if grads[item.name] is not item.grad}
    name = d.program.table.names.unique(f"{d.op.name}_grad")
    carried = [
        MemoryView(item.init.name, item.grad.name, end.name, f"{name}.final.{i}")
        for i, (item, end) in enumerate(zip((*memories, *sums), ends, strict=True))
    ]
    live_slices = [item for item in slices if item.param in grads]
    rows = [
        StackedOutputView(grads[item.param].name, f"{name}.rows.{i}")
        for i, item in enumerate(live_slices)
    ]
    origins = zip(carried, (*memories, *sums), strict=True)
    origin_of = {memory.final: item.origin for memory, item in origins if item.name in known}
    origin_of |= {row.stacked: item.source for row, item in zip(rows, live_slices, strict=True)}
    backward = replace(
        _reversed_loop(d, view, name),
        content=_backward_body(table, view.index),
        memories=tuple(carried),
        slices=tuple(seed_slices),
        rows=tuple(rows),
    )
    return backward, {output: origin for output, origin in origin_of.items() if d.wants(origin)}


def _reversed_loop(d: VjpContext, view: LoopView, name: str) -> LoopView:
    """Return the reversed loop with the same trip count; an uncounted loop counts down."""
    return replace(
        view,
        condition=None,
        count=None if view.counted else view.count or view.trips,
        trips=f"{name}.trips",
        length=counted_length(d, view),
        reverse=view.condition is not None or not view.reverse,
        max_trips=None,
        history=view.recorded,
        recompute=False,
        origin=view.origin.with_(name=name),
    )


def _backward_body(table: SymbolTable, index: str) -> Body:
    """Return the backward body, with the index variable of the forward loop."""
    content, info = table.freeze(), table.find_var(index)
    assert info is not None
    return content.with_(vars={**content.vars, index: info})


def _active_memories(d: VjpContext, view: LoopView) -> list[MemoryView]:
    """Return the memories whose cotangents can be nonzero: a fixpoint from the outputs."""
    body, rows = view.body, {row.result for row in view.rows if row.stacked in d.grads}
    reached = {
        memory: d.reachable(body, {memory.param})
        for memory in view.memories
        if isinstance(body.vars[memory.param].type, TensorType)
    }
    active = {memory for memory in view.memories if memory.final in d.grads}
    while True:
        wanted = rows | {memory.next for memory in active}
        needed = ancestors(body.ops, wanted)
        new_memories = {
            memory for memory, names in reached.items() if not wanted.isdisjoint(names)
        }
        new_memories |= {  # a residual list is passed on as a whole
            memory
            for memory in view.memories
            if memory not in reached and memory.param in needed
        }
        if new_memories <= active:
            break
        active |= new_memories
    flowing = (memory for memory in view.memories if memory in active)
    return [memory for memory in flowing if has_cotangent(body.vars[memory.param].type)]


# ---- parameters of the backward body ---------------------------------------------------------


def _memory_cotangent(d: VjpContext, table: SymbolTable, memory: MemoryView) -> _CotangentCarry:
    """Add the cotangent of a memory, initialized with the cotangent of its final value.

    The cotangent of a memory that never changes is a sum over all iterations, as for a capture.
    """
    start, type_ = d.grads.get(memory.final), table.type_of(memory.param)
    if memory.next == memory.param:
        type_ = accumulation_type(type_)
    start = None if start is None else cast_cotangent(start, type_)
    return _add_carry(d, table, memory.param, memory.init, memory.final, type_, start)


def _capture_cotangent(d: VjpContext, table: SymbolTable, name: str) -> _CotangentCarry:
    """Add the cotangent of a capture: a sum over all iterations, rounded after the last."""
    return _add_carry(d, table, name, name, name, accumulation_type(table.type_of(name)))


def _add_carry(
    d: VjpContext,
    table: SymbolTable,
    name: str,
    origin: str,
    after: str,
    type_: Type,
    start: Var | None = None,
) -> _CotangentCarry:
    """Add a memory to the backward loop; without `start` it is initialized with zeros.

    A list starts as zeros, as long as the forward loop's final list `after`.
    """
    init = start
    if init is None:
        init = build_zeros(type_) if isinstance(type_, TensorType) else d.zero_list(after)
    param = table.add_param(table.names.unique(f"{name}_grad"), type_).name
    return _CotangentCarry(
        name, origin, init, var_of(d.program, table, param), start is not None
    )


def _seed_row(
    d: VjpContext, table: SymbolTable, seeds: dict[str, Var], row: StackedOutputView
) -> Slice:
    """Scan the cotangent of a stacked output."""
    param = table.names.unique(f"{row.result}_grad")
    table.add_param(param, table.type_of(row.result))
    _seed(d, table, seeds, row.result, var_of(d.program, table, param))
    return Slice(d.grads[row.stacked].name, param)


def _seed(
    d: VjpContext, table: SymbolTable, seeds: dict[str, Var], name: str, grad: Var
) -> None:
    if has_cotangent(table.type_of(name)):
        with d.program.building(table):
            accumulate_cotangent(seeds, name, grad)


def _grad_or_zeros(
    d: VjpContext, forward: SymbolTable, grads: Mapping[str, Var], name: str
) -> Var:
    return grads[name] if name in grads else zeros_like_variable(d.program, forward, name)
