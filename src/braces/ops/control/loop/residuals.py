"""What the gradient of a loop reads of the loop: kept by the one, handed to the other.

A counted loop stacks it as rows, as in the example of `loop_gradient`. A loop whose trips only
the run knows pushes it on lists, which its gradient pops; here the gradient reads `h2`:

    end, n = loop(init=a) captures [w]
        body (t, h) { p = add(h, w)  h2 = tanh(p)  return h2 }
        cond (h) { ... }

    nothing = list_empty()
    end, kept, n = loop(init=[a, nothing]) captures [w]
        body (t, h, list) { ...  list2 = list_push(list, h2)  return h2, list2 }
        cond (h, list) { ... }
    ..., rest = loop(init=[one, zero, kept], count=n) {reverse=true}
        body (t, h2_grad, w_sum, list) { h2, list2 = list_pop(list)  ...  return ..., list2 }

Each trip back pops what the same trip forward pushed on top, so nothing is counted or looked
up; what is left at the end, `rest`, is empty. Where this is differentiated again, the gradient
of the push is a pop. A list that a loop inside the body keeps is begun outside of the outer
loop instead, and is one more memory of it: the inner trips of all outer trips lie in one list,
and both loops backward pop them in the opposite order.

A list of the user's, as it was in a trip, is kept value by value: on one list behind those of
the trips before it, while how many they are is kept like any number.

    all2 = list_extend(all, xs, n)      ->      xs, all = list_split(all2, n)

What a memory is after a trip is what it was before the next. Where the gradient reads both, the
earlier one is kept alone: the backward loop, which comes from the later one, carries it on as a
memory that begins with the last value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import var_of
from braces.define.decorator import OPS
from braces.define.type_inference import Context
from braces.dims import Size
from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, Op, VarInfo
from braces.ir.views import LoopView, Memory, Row, Slice
from braces.ops.control.core.differentiation import Differentiation
from braces.ops.control.core.residuals import (
    KeptList,
    fixpoint_keep,
    history_of,
    take_list,
    with_recomputed,
)
from braces.ops.control.core.trip_count import trip_count
from braces.ops.lists.list_to_array import length_of
from braces.ops.lists.nested import SPLIT, extend
from braces.ops.lists.stack import INDEX_TYPE, POP, PUSH


def counted_length(d: Differentiation, view: LoopView) -> Size | None:
    """How many trips a counted loop makes; `None` for other loops."""
    if not view.counted:
        return None
    sliced = [d.host.type_of(one.source) for one in view.slices]
    return trip_count(Context("loop", d.host.unifier), sliced, view.length)


@dataclass(frozen=True)
class _KeptOfLoop:
    """How the values that the backward body reads reach it.

    Attributes:
        rows: Stacked by a counted loop, sliced by its gradient.
        slices: What the loop slices itself.
        pushed: Lists that a loop whose trips only the run knows fills, and its gradient pops.
        whole: Lists that take in the values of lists, each with what tells how many.
        passed: Histories of loops inside the body.
        following: What memories are after the trip, by the name. It is what the memory was
            before the next trip, so the backward loop, which comes from there, has it.
    """

    rows: Sequence[str]
    slices: Sequence[Slice]
    pushed: Sequence[KeptList]
    whole: Mapping[str, KeptList]
    passed: Sequence[KeptList]
    following: Sequence[Memory]

    @property
    def lists(self) -> tuple[KeptList, ...]:
        """All that the loop carries as a list."""
        return (*self.pushed, *self.whole.values(), *self.passed)


def keep(
    d: Differentiation,
    view: LoopView,
    forward: SymbolTable,
    table: SymbolTable,
    backward: LoopView,
) -> None:
    """Append the backward loop, and let the forward loop keep what it reads.

    Args:
        d: The differentiation that goes on.
        view: The forward loop.
        forward: The block of its body.
        table: The block in which the body of the backward loop was built.
        backward: The backward loop, trimmed, without what it reads of the forward body.
    """
    whole, trimmed = table.freeze(), backward.body
    body = trimmed.with_(vars={**whole.vars, **trimmed.vars}, ops=whole.ops)
    if view.recompute:
        body, forward = _with_forward(d, view, forward, body)
    at_hand = {view.index, *(one.param for one in view.slices)}
    body, plan = fixpoint_keep(body, forward, at_hand, d.lists, d.eliminate)
    following = _following(view, plan.values)
    values = [name for name in plan.values if name not in {m.next for m in following}]
    whole = dict(_extend(d, forward, name) for name in plan.whole)
    values += whole
    kept = _KeptOfLoop(
        rows=values if view.counted else (),
        slices=[one for one in view.slices if one.param in plan.there],
        pushed=() if view.counted else [_push(d, view, forward, name) for name in values],
        whole=whole,
        passed=[_pass(d, forward, name) for name in plan.lists],
        following=following,
    )
    wider = _augment_forward(d, view, forward, kept)
    backward = replace(backward, content=with_recomputed(body, forward, plan))
    _append_backward(d, wider, forward, backward, kept)


def _following(view: LoopView, values: Sequence[str]) -> list[Memory]:
    """The memories whose next is kept, where the memory before the trip is kept as well."""
    params = {memory.param for memory in view.memories}
    found = {
        memory.next: memory
        for memory in view.memories
        if memory.next in values and memory.param in values and memory.next not in params
    }
    return list(found.values())


def _with_forward(
    d: Differentiation, view: LoopView, forward: SymbolTable, backward: Body
) -> tuple[Body, SymbolTable]:
    """A backward body that runs the forward body again, and the forward body as it was."""
    again = {name: info for name, info in forward.vars.items() if name not in forward.params}
    ops = (*forward.ops, *backward.ops)
    whole = Body(backward.params, backward.results, again | dict(backward.vars), ops)
    return whole, SymbolTable(parent=d.host).thaw(view.body)


def _pass(d: Differentiation, forward: SymbolTable, name: str) -> KeptList:
    """Let the history of a loop inside the body enter and leave this loop as a memory."""
    kept = take_list(d.lists, forward, name)
    forward.new_var(kept.param, ListType(kept.element), ARGUMENT)
    return kept


def _push(d: Differentiation, view: LoopView, forward: SymbolTable, name: str) -> KeptList:
    """Let the forward body push a value each trip."""
    element = forward.type_of(name)
    assert isinstance(element, TensorType)
    names = forward.names
    param = forward.new_var(names.unique(f"{name}_kept"), ListType(element), ARGUMENT).name
    result = forward.new_var(names.unique(f"{name}_kept"), ListType(element), VALUE).name
    forward.new_op(
        PUSH,
        inputs={"list": (param,), "value": (name,)},
        outputs={"out": (result,)},
        attrs={"history": view.recorded},
        source=d.op.source,
    )
    source = names.unique(f"{name}_kept")
    return KeptList(param, result, source, element, view.recorded, value=name)


def _extend(d: Differentiation, forward: SymbolTable, name: str) -> tuple[str, KeptList]:
    """Let the forward body put the values of a list behind others; and how many they are."""
    type_, names = forward.type_of(name), forward.names
    assert isinstance(type_, ListType)
    info = forward.new_var(names.unique(f"{name}_kept"), type_, ARGUMENT)
    with d.program.building(forward):
        values = var_of(d.program, forward, name)
        count = length_of(values)
        result = extend(var_of(d.program, forward, info.name), values, count)
    source = names.unique(f"{name}_kept")
    history = d.host.names.unique("history")
    kept = KeptList(info.name, result.name, source, type_.element, history, value=name)
    return count.name, kept


# ---- both loops ------------------------------------------------------------------------------


def _augment_forward(
    d: Differentiation, view: LoopView, forward: SymbolTable, kept: _KeptOfLoop
) -> LoopView:
    """The forward loop with more rows, and with lists as memories."""
    host, length = d.host, counted_length(d, view)
    there, rows = {row.result for row in view.rows}, list[Row]()
    for name in kept.rows:
        if name not in there:
            stacked = host.names.unique(f"{name}_kept")
            host.new_var(stacked, _stacked(length, forward.type_of(name)))
            rows.append(Row(name, stacked))
    starts = [d.empty_list(one.element, one.history) for one in kept.lists]
    memories = list[Memory]()
    for one, start in zip(kept.lists, starts, strict=True):
        final = host.new_var(host.names.unique("history"), ListType(one.element)).name
        d.lists.started(final, start)
        memories.append(Memory(start, one.param, one.result, final))
    wider = replace(
        view,
        content=forward.freeze(),
        memories=(*view.memories, *memories),
        rows=(*view.rows, *rows),
    )
    d.replace(wider.to_op())
    return wider


def _stacked(length: Size | None, row: Type) -> TensorType:
    assert isinstance(row, TensorType)
    assert length is not None
    return TensorType(row.dtype, (length, *row.shape))


def _append_backward(
    d: Differentiation,
    view: LoopView,
    forward: SymbolTable,
    backward: LoopView,
    kept: _KeptOfLoop,
) -> None:
    """The backward loop with what it reads, in the block that is being built.

    Args:
        d: The differentiation that goes on.
        view: The forward loop, which keeps what is read.
        forward: The block of its body.
        backward: The backward loop.
        kept: What it reads.
    """
    name, infos, pops = backward.origin.name, dict(backward.content.vars), list[Op]()
    rests = [_pop(d, forward, one, infos, pops) for one in kept.pushed]
    rests += [_split(d, forward, n, one, infos, pops) for n, one in kept.whole.items()]
    rests += [d.lists.rest_of(one.source) for one in kept.passed]
    infos |= _infos((one.source, ListType(one.element)) for one in kept.passed)
    read = (*kept.rows, *(s.param for s in kept.slices), *(m.next for m in kept.following))
    infos |= _infos((one, forward.type_of(one)) for one in read)
    memories = list(backward.memories)
    finals = {memory.param: memory.final for memory in view.memories}
    for i, (one, rest) in enumerate(zip(kept.lists, rests, strict=True)):
        history = finals[one.param]
        memories.append(Memory(history, one.source, rest, f"{name}.rest.{i}"))
        d.lists.left(history, memories[-1].final)
    memories += [
        Memory(memory.final, memory.next, memory.param, f"{name}.first.{i}")
        for i, memory in enumerate(kept.following)
    ]
    stacked = {row.result: row.stacked for row in view.rows}
    rows = [Slice(stacked[one], one) for one in kept.rows]
    ops = (*pops, *backward.content.ops)
    whole = replace(
        backward,
        content=backward.content.with_(vars=infos, ops=ops),
        memories=tuple(memories),
        slices=(*backward.slices, *kept.slices, *rows),
    )
    _declare_outputs(d.program.current, whole)
    d.program.current.append(whole.to_op())


def _pop(
    d: Differentiation,
    forward: SymbolTable,
    kept: KeptList,
    infos: dict[str, VarInfo],
    pops: list[Op],
) -> str:
    """The operator that pops a value under its own name; returns the name of the rest."""
    rest = _taking(forward, kept, kept.element, infos)
    outputs = {"value": (kept.value,), "rest": (rest,)}
    name = forward.names.unique(POP)
    attrs = {"history": kept.history}
    pops.append(Op(POP, name, {"list": (kept.source,)}, outputs, attrs, d.op.source))
    return rest


def _split(
    d: Differentiation,
    forward: SymbolTable,
    count: str,
    kept: KeptList,
    infos: dict[str, VarInfo],
    pops: list[Op],
) -> str:
    """The operator that takes a list off others; returns the name of the rest."""
    rest = _taking(forward, kept, ListType(kept.element), infos)
    inputs = {"list": (kept.source,), "count": (count,)}
    outputs = {"values": (kept.value,), "rest": (rest,)}
    history = history_of(forward, kept.value) or d.host.names.unique("history")
    attrs = OPS.get(SPLIT).bind_attrs({"history": history})
    name = forward.names.unique(SPLIT)
    pops.append(Op(SPLIT, name, inputs, outputs, attrs, d.op.source))
    return rest


def _taking(
    forward: SymbolTable, kept: KeptList, value: Type, infos: dict[str, VarInfo]
) -> str:
    """Declare a list, what is taken off it, and the rest, whose name it returns."""
    rest, type_ = forward.names.unique(kept.source), ListType(kept.element)
    infos |= _infos([(kept.source, type_)])
    infos |= {rest: VarInfo(rest, type_), kept.value: VarInfo(kept.value, value)}
    return rest


def _infos(given: Iterable[tuple[str, Type]]) -> dict[str, VarInfo]:
    return {name: VarInfo(name, type_, ARGUMENT) for name, type_ in given}


def _declare_outputs(table: SymbolTable, view: LoopView) -> None:
    """Define what a loop binds in the block that it is put into."""
    infos = view.content.vars
    for memory in view.memories:
        table.new_var(memory.final, infos[memory.param].type)
    for row in view.rows:
        known = row.result in infos
        type_ = infos[row.result].type if known else table.type_of(row.result)
        table.new_var(row.stacked, _stacked(view.length, type_))
    table.new_var(view.trips, INDEX_TYPE)
