"""Residuals of a loop: transfer of forward values to the backward loop.

A residual reaches the backward body in one of five ways (`Way`):

| way | residual | forward loop | backward loop |
|---|---|---|---|
| `SAVE_STACKED` | array, counted loop | stacks it | scans it |
| `PUSH` | array, data-dependent trip count | pushes it on a list | pops it |
| `SAVE_LIST` | list of the user | extends a list, saves the count | splits it off |
| `PASS_THROUGH` | residual list of an inner loop | carries it | carries it |
| `CARRY` | memory after the iteration | - | memory, starts at the final value |

Scanned inputs are scanned again (`AVAILABLE`), and cheap values are recomputed by operators at
the start of the backward body (`RECOMPUTE`); see `ops/control/core/residuals.py`.

`SAVE_STACKED`: see the example of `loop_gradient`.

    end, hs = loop(init=a, sliced=s)  body (t, h, x) { ...  return h2, h }
    ... = loop(init=[one, zero], sliced=hs) {reverse=true}  body (t, h2_grad, w_sum, h) { ... }

`PUSH`: here the gradient reads `h2`.

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

`SAVE_LIST`: the elements are appended to one list behind those of earlier iterations. The
number of elements is a residual like any other.

    forward:   all2 = list_extend(all, xs, n)        backward:   xs, all = list_split(all2, n)

`PASS_THROUGH`: the empty list of an inner loop is created outside of the outer loop, and
becomes one more memory of both loops. The inner iterations of all outer iterations are in one
list, and both backward loops pop them in the opposite order.

    nothing = list_empty()
    end, all = loop(init=[a, nothing])
        body (t, h, list) { h2, list2, n = loop(init=[h, list]) ...  return h2, list2 }
    ... = loop(init=[one, all]) {reverse=true}
        body (t, g, list) { g2, rest = loop(init=[g, list], count=n) ...  return g2, rest }

`CARRY`: the value of a memory after an iteration is its value before the next one. If the
gradient reads both `h` and `h2`, only `h` is saved. The backward loop comes from the later
iteration and carries `h` on as a memory that starts at the final value.

    ..., first = loop(init=[one, end], sliced=hs) {reverse=true}
        body (t, h2_grad, h2, h) { ...  return ..., h }
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import var_of
from braces.define.decorator import OPS
from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, VarInfo
from braces.ir.views import LoopView, MemoryView, Slice, StackedOutputView
from braces.ops.control.core.differentiation import VjpContext
from braces.ops.control.core.residuals import (
    ResidualList,
    ResidualPlan,
    Way,
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
    full, trimmed = table.freeze(), backward.body
    body = trimmed.with_(vars={**full.vars, **trimmed.vars}, ops=full.ops)
    if view.recompute:
        body, forward = _prepend_forward_body(d, view, forward, body)
    available = {view.index, *(slice_.param for slice_ in view.slices)}
    body, plan = prune_and_plan_residuals(body, forward, available, d.lists, d.eliminate)
    saved_lists = [_save_list(d, forward, name) for name in plan.names(Way.SAVE_LIST)]
    plan = _choose_ways(view, plan, [list_.count for list_ in saved_lists])
    lists = [
        *(_push(d, view, forward, name) for name in plan.names(Way.PUSH)),
        *saved_lists,
        *(_pass_through(d, forward, name) for name in plan.names(Way.PASS_THROUGH)),
    ]
    wider = _augment_forward(d, view, forward, plan, lists)
    backward = replace(backward, content=prepend_recomputed(body, forward, plan))
    _append_backward(d, wider, forward, backward, plan, lists)


def _choose_ways(view: LoopView, plan: ResidualPlan, counts: Iterable[str]) -> ResidualPlan:
    """Choose between stacking, pushing and carrying for arrays and for counts of lists."""
    arrays = plan.names(Way.SAVE)
    way = Way.SAVE_STACKED if view.counted else Way.PUSH
    carried = (memory.next for memory in _find_carried_memories(view, arrays))
    return plan.with_ways(
        dict.fromkeys([*arrays, *counts], way) | dict.fromkeys(carried, Way.CARRY)
    )


def _find_carried_memories(view: LoopView, arrays: Collection[str]) -> list[MemoryView]:
    """Return the memories of which the gradient reads the values before and after."""
    params = {memory.param for memory in view.memories}
    memory_of = {
        memory.next: memory
        for memory in view.memories
        if memory.next in arrays and memory.param in arrays and memory.next not in params
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


# ---- forward loop ----------------------------------------------------------------------------


def _push(d: VjpContext, view: LoopView, forward: SymbolTable, name: str) -> ResidualList:
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
    return ResidualList(param, result, source, element, view.recorded, Way.PUSH, name)


def _save_list(d: VjpContext, forward: SymbolTable, name: str) -> ResidualList:
    """Let the forward body append a list to another one in each iteration."""
    type_, names = forward.type_of(name), forward.names
    assert isinstance(type_, ListType)
    param = forward.new_var(names.unique(f"{name}_kept"), type_, ARGUMENT).name
    with d.program.building(forward):
        values = var_of(d.program, forward, name)
        count = append_length(values)
        result = append_extend(var_of(d.program, forward, param), values, count).name
    source, history = names.unique(f"{name}_kept"), d.host.names.unique("history")
    return ResidualList(
        param, result, source, type_.element, history, Way.SAVE_LIST, name, count.name
    )


def _pass_through(d: VjpContext, forward: SymbolTable, name: str) -> ResidualList:
    """Let the residual list of an inner loop enter and leave this loop as a memory."""
    list_ = detach_list_start(d.lists, forward, name)
    forward.new_var(list_.param, ListType(list_.element), ARGUMENT)
    return list_


def _augment_forward(
    d: VjpContext,
    view: LoopView,
    forward: SymbolTable,
    plan: ResidualPlan,
    lists: Sequence[ResidualList],
) -> LoopView:
    """Return the forward loop with residuals as stacked outputs or lists in memories."""
    host, length = d.host, counted_length(d, view)
    stacked_before, rows = {row.result for row in view.rows}, list[StackedOutputView]()
    for name in plan.names(Way.SAVE_STACKED):
        if name not in stacked_before:
            stacked = host.names.unique(f"{name}_kept")
            host.new_var(stacked, _stacked_type(length, forward.type_of(name)))
            rows.append(StackedOutputView(name, stacked))
    starts = [d.empty_list(list_.element, list_.history) for list_ in lists]
    memories = list[MemoryView]()
    for list_, start in zip(lists, starts, strict=True):
        final = host.new_var(host.names.unique("history"), ListType(list_.element)).name
        d.lists.record_start(final, start)
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


# ---- backward loop ---------------------------------------------------------------------------


def _append_backward(
    d: VjpContext,
    view: LoopView,
    forward: SymbolTable,
    backward: LoopView,
    plan: ResidualPlan,
    lists: Sequence[ResidualList],
) -> None:
    """Append the backward loop; `view` is the forward loop, which saves the residuals."""
    name, content, table = backward.origin.name, backward.content, SymbolTable(parent=forward)
    rests = [_restore(d, forward, table, list_) for list_ in lists]
    stacked = plan.names(Way.SAVE_STACKED)
    slices = [item for item in view.slices if plan.ways.get(item.param) is Way.AVAILABLE]
    carried = _find_carried_memories(view, plan.names(Way.SAVE_STACKED, Way.PUSH, Way.CARRY))
    params = plan.names(Way.PASS_THROUGH) + stacked
    params += [slice_.param for slice_ in slices] + [memory.next for memory in carried]
    infos = {**content.vars, **table.vars}
    infos |= {param: VarInfo(param, forward.type_of(param), ARGUMENT) for param in params}
    final_of = {memory.param: memory.final for memory in view.memories}
    memories = list(backward.memories)
    for i, (list_, rest) in enumerate(zip(lists, rests, strict=True)):
        final = final_of[list_.param]
        memories.append(MemoryView(final, list_.source, rest, f"{name}.rest.{i}"))
        d.lists.record_rest(final, memories[-1].final)
    memories += [
        MemoryView(memory.final, memory.next, memory.param, f"{name}.first.{i}")
        for i, memory in enumerate(carried)
    ]
    stacked_of = {row.result: row.stacked for row in view.rows}
    rows = [Slice(stacked_of[item], item) for item in stacked]
    with_residuals = replace(
        backward,
        content=content.with_(vars=infos, ops=(*table.ops, *content.ops)),
        memories=tuple(memories),
        slices=(*backward.slices, *slices, *rows),
    )
    _declare_outputs(d.program.current, with_residuals)
    d.program.current.append(with_residuals.to_op())


def _restore(
    d: VjpContext, forward: SymbolTable, table: SymbolTable, list_: ResidualList
) -> str:
    """Take the residual of one iteration off its list; return the remainder's name."""
    if list_.way is Way.PASS_THROUGH:
        return d.lists.rest_of(list_.source)
    inputs, type_ = {"list": (list_.source,)}, ListType(list_.element)
    table.new_var(list_.source, type_, ARGUMENT)
    rest = table.new_var(table.names.unique(list_.source), type_).name
    if list_.way is Way.PUSH:
        op_type, slot, attrs = POP, "value", {"history": list_.history}
        table.new_var(list_.value, list_.element)
    else:
        history = find_filling_loop(forward, list_.value) or d.host.names.unique("history")
        op_type, slot, attrs = SPLIT, "values", OPS.get(SPLIT).bind_attrs({"history": history})
        inputs["count"] = (list_.count,)
        table.new_var(list_.value, type_)
    outputs = {slot: (list_.value,), "rest": (rest,)}
    table.new_op(op_type, inputs=inputs, outputs=outputs, attrs=attrs, source=d.op.source)
    return rest


def _declare_outputs(table: SymbolTable, view: LoopView) -> None:
    """Declare the outputs of a loop in the block that will contain it."""
    infos = view.content.vars
    for memory in view.memories:
        table.new_var(memory.final, infos[memory.param].type)
    for row in view.rows:
        inside = row.result in infos
        type_ = infos[row.result].type if inside else table.type_of(row.result)
        table.new_var(row.stacked, _stacked_type(view.length, type_))
    table.new_var(view.trips, INDEX_TYPE)
