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

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, eq=False)
class _BackwardCarry:
    """A memory of the backward loop: the cotangent of one name of the forward body.

    Attributes:
        name: The name.
        origin: The input of the forward loop that receives the cotangent.
        init: The initial value of the cotangent.
        grad: The cotangent as a parameter of the backward body.
        seeded: The name in the forward body that has this cotangent after an iteration.
        nonzero: Whether the initial value is not just zeros.
    """

    name: str
    origin: str
    init: Var
    grad: Var
    seeded: str
    nonzero: bool

    def contributes(self, grads: Mapping[str, Var]) -> bool:
        """Return whether the loop computes more than zeros; `grads` are those in its body."""
        captured = self.name == self.seeded == self.origin
        unchanged = captured and grads[self.name] is self.grad
        return self.nonzero or (self.name in grads and not unchanged)


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
        d.accumulate(origin, cast_cotangent(grad, d.var(origin).type))


# ---- backward loop ---------------------------------------------------------------------------


def _build_backward(
    d: VjpContext, view: LoopView, forward: SymbolTable, table: SymbolTable
) -> tuple[LoopView, dict[str, str]]:
    """Build the backward loop, still without its residuals.

    Returns:
        The loop, and for each needed output the input whose cotangent it is.
    """
    carries = [_memory_carry(d, table, memory) for memory in _active_memories(d, view)]
    carries += [_capture_carry(d, table, name) for name in view.captures if d.needs_grad(name)]
    seeds, seed_slices = _seed(d, view, table, carries)
    slices = [item for item in view.slices if has_cotangent(forward.type_of(item.param))]
    wanted = {item.name for item in carries} | {item.param for item in slices}
    with d.program.building(table):
        grads = d.backprop(forward, seeds, wanted)
        ends = [_grad_or_zeros(d, forward, grads, item.name) for item in carries]
    loop = replace(
        _reversed_loop(d, view),
        content=_backward_body(table, view.index),
        slices=tuple(seed_slices),
    )
    return _assemble(d, loop, dict(zip(carries, ends, strict=True)), slices, grads)


def _seed(
    d: VjpContext, view: LoopView, table: SymbolTable, carries: Sequence[_BackwardCarry]
) -> tuple[dict[str, Var], list[Slice]]:
    """Seed the cotangents of the forward body's results and captures.

    Returns:
        The seeds, and the scanned inputs with the cotangents of stacked outputs.
    """
    seeds, slices = dict[str, Var](), list[Slice]()

    def add(name: str, grad: Var) -> None:
        if has_cotangent(table.type_of(name)):
            with d.program.building(table):
                accumulate_cotangent(seeds, name, grad)

    for item in carries:
        add(item.seeded, item.grad)
    for row in view.rows:
        if row.stacked in d.grads:
            param = table.names.unique(f"{row.result}_grad")
            table.add_param(param, table.type_of(row.result))
            add(row.result, var_of(d.program, table, param))
            slices.append(Slice(d.grads[row.stacked].name, param))
    return seeds, slices


def _assemble(
    d: VjpContext,
    loop: LoopView,
    end_of: Mapping[_BackwardCarry, Var],
    slices: Sequence[Slice],
    grads: Mapping[str, Var],
) -> tuple[LoopView, dict[str, str]]:
    """Return the backward loop with memories and stacked outputs, and the origins of these."""
    name, origin_of = loop.origin.name, dict[str, str]()
    memories, rows = list[MemoryView](), list[StackedOutputView]()
    for i, (item, end) in enumerate(end_of.items()):
        memories.append(
            MemoryView(item.init.name, item.grad.name, end.name, f"{name}.final.{i}")
        )
        if item.contributes(grads):
            origin_of[memories[-1].final] = item.origin
    for item in slices:
        if item.param in grads:
            rows.append(StackedOutputView(grads[item.param].name, f"{name}.rows.{len(rows)}"))
            origin_of[rows[-1].stacked] = item.source
    loop = replace(loop, memories=tuple(memories), rows=tuple(rows))
    return loop, {
        output: origin for output, origin in origin_of.items() if d.needs_grad(origin)
    }


def _reversed_loop(d: VjpContext, view: LoopView) -> LoopView:
    """Return the reversed loop with the same trip count; an uncounted loop counts down."""
    name = d.program.table.names.unique(f"{d.op.name}_grad")
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


def _memory_carry(d: VjpContext, table: SymbolTable, memory: MemoryView) -> _BackwardCarry:
    """Carry the cotangent of a memory, initialized with the cotangent of its final value.

    The cotangent of a memory that never changes is a sum over all iterations, as for a capture.
    """
    start, type_ = d.grads.get(memory.final), table.type_of(memory.param)
    if memory.next == memory.param:
        type_ = accumulation_type(type_)
    init = (
        _zero_cotangent(d, type_, memory.final)
        if start is None
        else cast_cotangent(start, type_)
    )
    grad = _add_cotangent_param(d, table, memory.param, type_)
    return _BackwardCarry(
        memory.param, memory.init, init, grad, memory.next, nonzero=start is not None
    )


def _capture_carry(d: VjpContext, table: SymbolTable, name: str) -> _BackwardCarry:
    """Carry the cotangent of a capture: a sum over all iterations, rounded after the last."""
    type_ = accumulation_type(table.type_of(name))
    init, grad = _zero_cotangent(d, type_, name), _add_cotangent_param(d, table, name, type_)
    return _BackwardCarry(name, name, init, grad, name, nonzero=False)


def _zero_cotangent(d: VjpContext, type_: Type, name: str) -> Var:
    """Return zeros; for a list, as many as the outer list of this name has elements."""
    return build_zeros(type_) if isinstance(type_, TensorType) else d.zero_list(name)


def _add_cotangent_param(d: VjpContext, table: SymbolTable, name: str, type_: Type) -> Var:
    param = table.add_param(table.names.unique(f"{name}_grad"), type_).name
    return var_of(d.program, table, param)


def _grad_or_zeros(
    d: VjpContext, forward: SymbolTable, grads: Mapping[str, Var], name: str
) -> Var:
    return grads[name] if name in grads else zeros_like_variable(d.program, forward, name)
