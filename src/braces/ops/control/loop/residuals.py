"""Residuals of a loop: transfer of forward values to the backward loop.

A residual reaches the backward body in one of five ways. The field is that of `_LoopResiduals`.

| way | residual | forward loop | backward loop | field |
|---|---|---|---|---|
| stack | array, counted loop | stacks it | scans it | `rows` |
| push | array, data-dependent trip count | pushes it on a list | pops it | `pushed` |
| save a list | list of the user | extends a list, saves the count | splits it off | `whole` |
| pass through | residual list of an inner loop | carries it | carries it | `passed` |
| carry | memory after the iteration | - | memory, starts at the final value | `following` |

Scanned inputs are scanned again (`slices`), and cheap values are recomputed by operators at the
start of the backward body; see `ops/control/core/residuals.py`.

Stack: see the example of `loop_gradient`.

    end, hs = loop(init=a, sliced=s)  body (t, h, x) { ...  return h2, h }
    ... = loop(init=[one, zero], sliced=hs) {reverse=true}  body (t, h2_grad, w_sum, h) { ... }

Push: here the gradient reads `h2`.

    end, n = loop(init=a) captures [w]
        body (t, h) { p = add(h, w)  h2 = tanh(p)  return h2 }
        cond (h) { ... }

    nothing = list_empty()
    end, kept, n = loop(init=[a, nothing]) captures [w]
        body (t, h, list) { ...  list2 = list_push(list, h2)  return h2, list2 }
        cond (h, list) { ... }
    ..., rest = loop(init=[one, zero, kept], count=n) {reverse=true}
        body (t, h2_grad, w_sum, list) { h2, list2 = list_pop(list)  ...  return ..., list2 }

Each backward iteration pops the element that the same forward iteration pushed, so no index is
needed. The remainder `rest` is empty. The gradient of a push is a pop, so this can be
differentiated again.

Save a list: the elements are appended to one list behind those of earlier iterations. The
number of elements is a residual like any other.

    forward:   all2 = list_extend(all, xs, n)        backward:   xs, all = list_split(all2, n)

Pass through: the empty list of an inner loop is created outside of the outer loop, and becomes
one more memory of both loops. The inner iterations of all outer iterations are in one list, and
both backward loops pop them in the opposite order.

    nothing = list_empty()
    end, all = loop(init=[a, nothing])
        body (t, h, list) { h2, list2, n = loop(init=[h, list]) ...  return h2, list2 }
    ... = loop(init=[one, all]) {reverse=true}
        body (t, g, list) { g2, rest = loop(init=[g, list], count=n) ...  return g2, rest }

Carry: the value of a memory after an iteration is its value before the next one. If the
gradient reads both `h` and `h2`, only `h` is saved. The backward loop comes from the later
iteration and carries `h` on as a memory that starts at the final value.

    ..., first = loop(init=[one, end], sliced=hs) {reverse=true}
        body (t, h2_grad, h2, h) { ...  return ..., h }
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import var_of
from braces.define.decorator import OPS
from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, Op, VarInfo
from braces.ir.views import LoopView, MemoryView, Slice, StackedOutputView
from braces.ops.control.core.differentiation import VjpContext
from braces.ops.control.core.residuals import (
    ResidualList,
    detach_list_start,
    find_filling_loop,
    prepend_recomputed,
    prune_and_plan_residuals,
)
from braces.ops.control.core.trip_count import infer_trip_count
from braces.ops.lists.list_to_array import append_length
from braces.ops.lists.nested import SPLIT, append_extend
from braces.ops.lists.stack import INDEX_TYPE, POP, PUSH


def counted_length(d: VjpContext, view: LoopView) -> Size | None:
    """Return the trip count of a counted loop; `None` for other loops."""
    if not view.counted:
        return None
    sliced = [d.host.type_of(slice_.source) for slice_ in view.slices]
    return infer_trip_count(InferenceContext("loop", d.host.unifier), sliced, view.length)


@dataclass(frozen=True)
class _LoopResiduals:
    """Residual plan of a loop: the ways in which values reach the backward body.

    Attributes:
        rows: Arrays stacked by a counted loop and scanned by its gradient.
        slices: Scanned inputs of the forward loop, scanned again.
        pushed: Lists filled by a loop with a data-dependent trip count, and popped back.
        whole: Lists that hold the elements of user lists, by the names of the element counts.
        passed: Residual lists of loops inside the body.
        following: Memories whose value after the iteration is carried by the backward loop,
            which has just processed the next iteration.
    """

    rows: Sequence[str]
    slices: Sequence[Slice]
    pushed: Sequence[ResidualList]
    whole: Mapping[str, ResidualList]
    passed: Sequence[ResidualList]
    following: Sequence[MemoryView]

    @property
    def lists(self) -> tuple[ResidualList, ...]:
        """All residual lists that the loop carries."""
        return (*self.pushed, *self.whole.values(), *self.passed)


def save_residuals(
    d: VjpContext,
    view: LoopView,
    forward: SymbolTable,
    table: SymbolTable,
    backward: LoopView,
) -> None:
    """Append the backward loop, and let the forward loop save its residuals.

    Args:
        d: The context of the differentiation.
        view: The forward loop.
        forward: The block of its body.
        table: The block in which the body of the backward loop was built.
        backward: The backward loop, trimmed, without its residuals.
    """
    whole, trimmed = table.freeze(), backward.body
    body = trimmed.with_(vars={**whole.vars, **trimmed.vars}, ops=whole.ops)
    if view.recompute:
        body, forward = _prepend_forward_body(d, view, forward, body)
    at_hand = {view.index, *(slice_.param for slice_ in view.slices)}
    body, plan = prune_and_plan_residuals(body, forward, at_hand, d.lists, d.eliminate)
    following = _find_carried_residuals(view, plan.values)
    values = [name for name in plan.values if name not in {m.next for m in following}]
    whole = dict(_save_list(d, forward, name) for name in plan.whole)
    values += whole
    residuals = _LoopResiduals(
        rows=values if view.counted else (),
        slices=[slice_ for slice_ in view.slices if slice_.param in plan.there],
        pushed=()
        if view.counted
        else [_push_residual(d, view, forward, name) for name in values],
        whole=whole,
        passed=[_pass_through(d, forward, name) for name in plan.lists],
        following=following,
    )
    wider = _augment_forward(d, view, forward, residuals)
    backward = replace(backward, content=prepend_recomputed(body, forward, plan))
    _append_backward(d, wider, forward, backward, residuals)


def _find_carried_residuals(view: LoopView, values: Sequence[str]) -> list[MemoryView]:
    """Return memories with both values saved, before and after the iteration."""
    params = {memory.param for memory in view.memories}
    memory_of = {
        memory.next: memory
        for memory in view.memories
        if memory.next in values and memory.param in values and memory.next not in params
    }
    return list(memory_of.values())


def _prepend_forward_body(
    d: VjpContext, view: LoopView, forward: SymbolTable, backward: Body
) -> tuple[Body, SymbolTable]:
    """Return a backward body that recomputes the forward body, and a fresh forward body."""
    forward_infos = {
        name: info for name, info in forward.vars.items() if name not in forward.params
    }
    ops = (*forward.ops, *backward.ops)
    joint_body = Body(
        backward.params, backward.results, forward_infos | dict(backward.vars), ops
    )
    return joint_body, SymbolTable(parent=d.host).thaw(view.body)


def _pass_through(d: VjpContext, forward: SymbolTable, name: str) -> ResidualList:
    """Let the residual list of an inner loop enter and leave this loop as a memory."""
    list_ = detach_list_start(d.lists, forward, name)
    forward.new_var(list_.param, ListType(list_.element), ARGUMENT)
    return list_


def _push_residual(
    d: VjpContext, view: LoopView, forward: SymbolTable, name: str
) -> ResidualList:
    """Let the forward body push a value in each iteration."""
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
    return ResidualList(param, result, source, element, view.recorded, value=name)


def _save_list(d: VjpContext, forward: SymbolTable, name: str) -> tuple[str, ResidualList]:
    """Let the forward body append a list to another; return the count and the latter."""
    type_, names = forward.type_of(name), forward.names
    assert isinstance(type_, ListType)
    info = forward.new_var(names.unique(f"{name}_kept"), type_, ARGUMENT)
    with d.program.building(forward):
        values = var_of(d.program, forward, name)
        count = append_length(values)
        result = append_extend(var_of(d.program, forward, info.name), values, count)
    source = names.unique(f"{name}_kept")
    history = d.host.names.unique("history")
    list_ = ResidualList(info.name, result.name, source, type_.element, history, value=name)
    return count.name, list_


# ---- both loops ------------------------------------------------------------------------------


def _augment_forward(
    d: VjpContext, view: LoopView, forward: SymbolTable, residuals: _LoopResiduals
) -> LoopView:
    """Return the forward loop with residuals as stacked outputs or lists in memories."""
    host, length = d.host, counted_length(d, view)
    old_results, rows = {row.result for row in view.rows}, list[StackedOutputView]()
    for name in residuals.rows:
        if name not in old_results:
            stacked = host.names.unique(f"{name}_kept")
            host.new_var(stacked, _stacked_type(length, forward.type_of(name)))
            rows.append(StackedOutputView(name, stacked))
    starts = [d.empty_list(list_.element, list_.history) for list_ in residuals.lists]
    memories = list[MemoryView]()
    for list_, start in zip(residuals.lists, starts, strict=True):
        final = host.new_var(host.names.unique("history"), ListType(list_.element)).name
        d.lists.started(final, start)
        memories.append(MemoryView(start, list_.param, list_.result, final))
    wider = replace(
        view,
        content=forward.freeze(),
        memories=(*view.memories, *memories),
        rows=(*view.rows, *rows),
    )
    d.replace(wider.to_op())
    return wider


def _stacked_type(length: Size | None, row: Type) -> TensorType:
    assert isinstance(row, TensorType)
    assert length is not None
    return TensorType(row.dtype, (length, *row.shape))


def _append_backward(
    d: VjpContext,
    view: LoopView,
    forward: SymbolTable,
    backward: LoopView,
    residuals: _LoopResiduals,
) -> None:
    """Append the backward loop with its residuals to the block under construction.

    Args:
        d: The context of the differentiation.
        view: The forward loop, which saves the residuals.
        forward: The block of its body.
        backward: The backward loop.
        residuals: The plan of its residuals.
    """
    name, infos, pops = backward.origin.name, dict(backward.content.vars), list[Op]()
    rests = [_pop_residual(d, forward, item, infos, pops) for item in residuals.pushed]
    rests += [
        _split_list(d, forward, n, item, infos, pops) for n, item in residuals.whole.items()
    ]
    rests += [d.lists.rest_of(item.source) for item in residuals.passed]
    infos |= _argument_infos((item.source, ListType(item.element)) for item in residuals.passed)
    read = (
        *residuals.rows,
        *(s.param for s in residuals.slices),
        *(m.next for m in residuals.following),
    )
    infos |= _argument_infos((item, forward.type_of(item)) for item in read)
    memories = list(backward.memories)
    finals = {memory.param: memory.final for memory in view.memories}
    for i, (item, rest) in enumerate(zip(residuals.lists, rests, strict=True)):
        history = finals[item.param]
        memories.append(MemoryView(history, item.source, rest, f"{name}.rest.{i}"))
        d.lists.left(history, memories[-1].final)
    memories += [
        MemoryView(memory.final, memory.next, memory.param, f"{name}.first.{i}")
        for i, memory in enumerate(residuals.following)
    ]
    stacked = {row.result: row.stacked for row in view.rows}
    rows = [Slice(stacked[item], item) for item in residuals.rows]
    ops = (*pops, *backward.content.ops)
    whole = replace(
        backward,
        content=backward.content.with_(vars=infos, ops=ops),
        memories=tuple(memories),
        slices=(*backward.slices, *residuals.slices, *rows),
    )
    _declare_outputs(d.program.current, whole)
    d.program.current.append(whole.to_op())


def _pop_residual(
    d: VjpContext,
    forward: SymbolTable,
    list_: ResidualList,
    infos: dict[str, VarInfo],
    pops: list[Op],
) -> str:
    """Append a pop that binds a residual under its own name; return the remainder's name."""
    rest = _declare_taken_value(forward, list_, list_.element, infos)
    outputs = {"value": (list_.value,), "rest": (rest,)}
    name = forward.names.unique(POP)
    attrs = {"history": list_.history}
    pops.append(Op(POP, name, {"list": (list_.source,)}, outputs, attrs, d.op.source))
    return rest


def _split_list(
    d: VjpContext,
    forward: SymbolTable,
    count: str,
    list_: ResidualList,
    infos: dict[str, VarInfo],
    pops: list[Op],
) -> str:
    """Append a split that takes a saved list off the others; return the remainder's name."""
    rest = _declare_taken_value(forward, list_, ListType(list_.element), infos)
    inputs = {"list": (list_.source,), "count": (count,)}
    outputs = {"values": (list_.value,), "rest": (rest,)}
    history = find_filling_loop(forward, list_.value) or d.host.names.unique("history")
    attrs = OPS.get(SPLIT).bind_attrs({"history": history})
    name = forward.names.unique(SPLIT)
    pops.append(Op(SPLIT, name, inputs, outputs, attrs, d.op.source))
    return rest


def _declare_taken_value(
    forward: SymbolTable, list_: ResidualList, value: Type, infos: dict[str, VarInfo]
) -> str:
    """Declare a list, the value taken off it, and the remainder; return the latter's name."""
    rest, type_ = forward.names.unique(list_.source), ListType(list_.element)
    infos |= _argument_infos([(list_.source, type_)])
    infos |= {rest: VarInfo(rest, type_), list_.value: VarInfo(list_.value, value)}
    return rest


def _argument_infos(named_types: Iterable[tuple[str, Type]]) -> dict[str, VarInfo]:
    return {name: VarInfo(name, type_, ARGUMENT) for name, type_ in named_types}


def _declare_outputs(table: SymbolTable, view: LoopView) -> None:
    """Declare the outputs of a loop in the block that will contain it."""
    infos = view.content.vars
    for memory in view.memories:
        table.new_var(memory.final, infos[memory.param].type)
    for row in view.rows:
        known = row.result in infos
        type_ = infos[row.result].type if known else table.type_of(row.result)
        table.new_var(row.stacked, _stacked_type(view.length, type_))
    table.new_var(view.trips, INDEX_TYPE)
