"""The gradient of a loop: a loop that runs the other way, over what the first one kept.

    end = loop(init=a, sliced=s) captures [w]
        body (t, h, x) { m = multiply(h, w)  p = add(m, x)  h2 = tanh(p)  return h2 }

The gradient of `end` with respect to `w`, where `one` is the cotangent of `end`:

    end, h2s, hs = loop(init=a, sliced=s) captures [w]                # keeps what is read
        body (t, h, x) { ...  return h2, h2, h }
    a_grad, w_grad = loop(init=[one, zero], sliced=[h2s, hs]) {reverse=true} captures [w]
        body (t, h2_grad, w_sum, h2, h) {
            p_grad = tanh.vjp(out=h2, out_grad=h2_grad)
            h_grad = multiply(p_grad, w)
            more = multiply(p_grad, h)
            w_sum2 = add(w_sum, more)
            return h_grad, w_sum2
        }

So the cotangent of a memory is a memory that goes the other way, that of a capture a sum over
the trips, and that of a slice a row. A sum of 16-bit floats is carried in float32 and rounded
after the last trip: in 16 bits it would soon be too large for a trip to change it.

A counted loop keeps values as ordinary stacked rows, and the backward loop slices them. A loop
whose trips are known only at run time keeps them on lists, which the backward loop pops:
`push` and `pop` are each other's gradient, so every further order needs nothing new. A list
that a loop inside the body fills is threaded through this loop as one more memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.dtypes import TensorType, Type
from braces.ir.records import Body
from braces.ir.views import LoopView, Memory, Row, Slice
from braces.ir.walk import ancestors
from braces.ops.common.rules import zeros_of
from braces.ops.control.core.differentiation import Differentiation
from braces.ops.control.loop.dead_memories import trim_loop
from braces.ops.control.loop.residuals import counted_length, keep
from braces.ops.lists.cotangents import collect, differentiable, in_type, wide, zeros_from


@dataclass(frozen=True)
class _Carried:
    """A memory of the backward loop: the cotangent of a name of the forward body.

    Attributes:
        name: The name.
        origin: The input of the forward loop that the cotangent goes to.
        init: The cotangent where the backward loop begins.
        grad: The cotangent as the backward body gets it.
        known: Whether it begins as other than zeros.
    """

    name: str
    origin: str
    init: Var
    grad: Var
    known: bool


def loop_gradient(d: Differentiation) -> None:
    """Build the backward loop, let the forward loop keep what it reads, and give cotangents."""
    view = LoopView.of(d.op)
    forward = SymbolTable(parent=d.host).thaw(view.body)
    table = SymbolTable(parent=forward)
    backward, given = _backward(d, view, forward, table)
    if not given:
        return
    keep(d, view, forward, table, trim_loop(backward, given.keys(), d.eliminate))
    for name, origin in given.items():
        grad = var_of(d.program, d.program.current, name)
        d.give(origin, in_type(grad, d.var(origin).type))


# ---- the backward loop -----------------------------------------------------------------------


def _backward(
    d: Differentiation, view: LoopView, forward: SymbolTable, table: SymbolTable
) -> tuple[LoopView, dict[str, str]]:
    """The backward loop, without what it reads of the forward body.

    Returns:
        The loop, and for each output that somebody wants the name whose cotangent it is.
    """
    flowing = _flowing(d, view)
    memories = [_of_memory(d, table, memory) for memory in flowing]
    sums = [_of_capture(d, table, name) for name in view.captures if d.wants(name)]
    seeds = dict[str, Var]()
    for memory, carried in zip(flowing, memories, strict=True):
        _seed(d, table, seeds, memory.next, carried.grad)
    for carried in sums:
        _seed(d, table, seeds, carried.name, carried.grad)
    cut = [_seed_row(d, table, seeds, row) for row in view.rows if row.stacked in d.grads]
    slices = [one for one in view.slices if differentiable(forward.type_of(one.param))]
    wanted = {carried.name for carried in (*memories, *sums)} | {one.param for one in slices}
    with d.program.building(table):
        grads = d.backprop(forward, seeds, wanted)
        ends = [_or_zeros(d, forward, grads, one.name) for one in (*memories, *sums)]
    known = {one.name for one in memories if one.known or one.name in grads}
    known |= {one.name for one in sums if grads[one.name] is not one.grad}
    name = d.program.table.names.unique(f"{d.op.name}_grad")
    carried = [
        Memory(one.init.name, one.grad.name, end.name, f"{name}.final.{i}")
        for i, (one, end) in enumerate(zip((*memories, *sums), ends, strict=True))
    ]
    flown = [one for one in slices if one.param in grads]
    rows = [Row(grads[one.param].name, f"{name}.rows.{i}") for i, one in enumerate(flown)]
    origins = zip(carried, (*memories, *sums), strict=True)
    given = {memory.final: one.origin for memory, one in origins if one.name in known}
    given |= {row.stacked: one.source for row, one in zip(rows, flown, strict=True)}
    made = replace(
        _turned(d, view, name),
        content=_content(table, view.index),
        memories=tuple(carried),
        slices=tuple(cut),
        rows=tuple(rows),
    )
    return made, {output: origin for output, origin in given.items() if d.wants(origin)}


def _turned(d: Differentiation, view: LoopView, name: str) -> LoopView:
    """A loop as long as another that runs the other way; what is not counted counts down."""
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


def _content(table: SymbolTable, index: str) -> Body:
    """The backward body, which has the forward loop's index."""
    content, info = table.freeze(), table.find_var(index)
    assert info is not None
    return content.with_(vars={**content.vars, index: info})


def _flowing(d: Differentiation, view: LoopView) -> list[Memory]:
    """The memories whose cotangents can be other than zero: a fixpoint from the outputs."""
    body, rows = view.body, {row.result for row in view.rows if row.stacked in d.grads}
    reached = {
        memory: d.reachable(body, {memory.param})
        for memory in view.memories
        if isinstance(body.vars[memory.param].type, TensorType)
    }
    kept = {memory for memory in view.memories if memory.final in d.grads}
    while True:
        wanted = rows | {memory.next for memory in kept}
        needed = ancestors(body.ops, wanted)
        more = {memory for memory, names in reached.items() if not wanted.isdisjoint(names)}
        more |= {  # a history is handed on as a whole
            memory
            for memory in view.memories
            if memory not in reached and memory.param in needed
        }
        if more <= kept:
            break
        kept |= more
    flowing = (memory for memory in view.memories if memory in kept)
    return [memory for memory in flowing if differentiable(body.vars[memory.param].type)]


# ---- what enters its body --------------------------------------------------------------------


def _of_memory(d: Differentiation, table: SymbolTable, memory: Memory) -> _Carried:
    """The cotangent of a memory: what it was after the loop, back to before it.

    That of a memory that stays as it is, is a sum over all trips, as that of a capture.
    """
    start, type_ = d.grads.get(memory.final), table.type_of(memory.param)
    if memory.next == memory.param:
        type_ = wide(type_)
    start = None if start is None else in_type(start, type_)
    return _carried(d, table, memory.param, memory.init, memory.final, type_, start)


def _of_capture(d: Differentiation, table: SymbolTable, name: str) -> _Carried:
    """The cotangent of a capture: the sum over all trips, rounded after the last."""
    return _carried(d, table, name, name, name, wide(table.type_of(name)))


def _carried(
    d: Differentiation,
    table: SymbolTable,
    name: str,
    origin: str,
    after: str,
    type_: Type,
    start: Var | None = None,
) -> _Carried:
    """A memory of the backward loop; zeros where it starts with nothing.

    A list starts with zeros in the length that it has `after` the forward loop.
    """
    init = start
    if init is None:
        init = zeros_of(type_) if isinstance(type_, TensorType) else d.zero_list(after)
    param = table.add_param(table.names.unique(f"{name}_grad"), type_).name
    return _Carried(name, origin, init, var_of(d.program, table, param), start is not None)


def _seed_row(d: Differentiation, table: SymbolTable, seeds: dict[str, Var], row: Row) -> Slice:
    """Cut the cotangent of what was stacked."""
    param = table.names.unique(f"{row.result}_grad")
    table.add_param(param, table.type_of(row.result))
    _seed(d, table, seeds, row.result, var_of(d.program, table, param))
    return Slice(d.grads[row.stacked].name, param)


def _seed(
    d: Differentiation, table: SymbolTable, seeds: dict[str, Var], name: str, grad: Var
) -> None:
    if differentiable(table.type_of(name)):
        with d.program.building(table):
            collect(seeds, name, grad)


def _or_zeros(
    d: Differentiation, forward: SymbolTable, grads: Mapping[str, Var], name: str
) -> Var:
    return grads[name] if name in grads else zeros_from(d.program, forward, name)
