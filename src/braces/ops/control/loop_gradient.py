"""The gradient of a loop: a loop that runs the other way, over what the first one kept.

    forward   (t, m, x)            -> m', y          keeps v, the values that the gradient reads
    backward  (t, m'_grad, c_grad, y_grad, v) -> m_grad, c_grad + ..., x_grad

A counted loop keeps values as ordinary stacked rows, and the backward loop slices them. A loop
whose trips are known only at run time keeps them on lists, which the backward loop pops:
`push` and `pop` are each other's gradient, so every further order needs nothing new. A list
that a loop inside the body fills is threaded through this loop as one more memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, Op, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import with_captures
from braces.ops.build import Var, var_of
from braces.ops.control.keeping import Thread, differentiable, settle, take_list
from braces.ops.control.loop_parts import Parts, trip_count
from braces.ops.inference import Context
from braces.ops.lists import INDEX_TYPE, POP, PUSH
from braces.ops.rules import zeros_of


@dataclass
class Reverse:
    """The backward loop while it is being put together."""

    table: SymbolTable
    init: list[Var] = field(default_factory=list[Var])
    memories: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    sliced: list[str] = field(default_factory=list[str])
    slices: list[str] = field(default_factory=list[str])
    rows: list[str] = field(default_factory=list[str])
    gives: dict[str, str] = field(default_factory=dict[str, str])
    """Output of the backward loop to the forward name whose cotangent it is."""


def loop_gradient(d: Any, parts: Parts) -> None:
    """Build the backward loop, let the forward loop keep what it reads, and give cotangents."""
    forward = SymbolTable(parent=d.host).thaw(parts.body)
    reverse = Reverse(SymbolTable(parent=forward))
    _backward_body(d, parts, forward, reverse)
    op = _backward_op(d, parts, reverse)
    if op is None:
        return
    _keep(d, parts, forward, reverse, op)


# ---- the body --------------------------------------------------------------------------------


def _backward_body(d: Any, parts: Parts, forward: SymbolTable, reverse: Reverse) -> None:
    seeds: dict[str, Any] = {}
    memories = _flowing(d, parts, forward)
    accumulators = [c for c in d.op.captures() if d.wants(c)]
    finals = d.op.outputs["final"]
    incoming = [
        _memory(d, reverse, parts.memory_params[j], finals[j], d.grads.get(finals[j]))
        for j in memories
    ]
    sums = [_memory(d, reverse, c, c, None) for c in accumulators]
    for j, grad in zip(memories, incoming, strict=True):
        _seed(d, reverse.table, seeds, parts.next_memories[j], grad)
    for c, grad in zip(accumulators, sums, strict=True):
        _seed(d, reverse.table, seeds, c, grad)
    for name, stacked in zip(parts.rows, d.op.outputs.get("stacked", ()), strict=True):
        if stacked in d.grads:
            row = _slice(reverse, name, d.grads[stacked].name, forward.type_of(name))
            _seed(d, reverse.table, seeds, name, var_of(d.program, reverse.table, row))
    slices = [n for n in parts.slice_params if differentiable(forward.type_of(n))]
    wanted = {parts.memory_params[j] for j in memories} | set(slices) | set(accumulators)
    with d.program.building(reverse.table):
        grads = d.backprop(forward, seeds, wanted)
        _results(d, parts, reverse, grads, memories, accumulators, sums, slices)


def _flowing(d: Any, parts: Parts, forward: SymbolTable) -> list[int]:
    """The memories whose cotangents can be other than zero: a fixpoint from the outputs."""
    finals = d.op.outputs["final"]
    kept = {j for j, name in enumerate(finals) if name in d.grads}
    stacked = zip(parts.rows, d.op.outputs.get("stacked", ()), strict=True)
    rows = [row for row, name in stacked if name in d.grads]
    while True:
        needed = d.ancestors(forward, [*rows, *(parts.next_memories[j] for j in kept)])
        more = {j for j, name in enumerate(parts.memory_params) if name in needed}
        if more <= kept:
            break
        kept |= more
    return [j for j in sorted(kept) if differentiable(forward.type_of(parts.memory_params[j]))]


def _memory(d: Any, reverse: Reverse, name: str, after: str, start: Var | None) -> Var:
    """A memory of the backward loop: the cotangent of `name`, zero where it starts with none.

    A list starts with zeros in the length that it has `after` the forward loop.
    """
    type_ = reverse.table.type_of(name)
    if start is not None:
        first = start
    else:
        first = zeros_of(type_) if isinstance(type_, TensorType) else d.zero_list(after)
    param = reverse.table.add_param(d.program.table.names.unique(f"{name}_grad"), type_).name
    reverse.memories.append(param)
    reverse.init.append(first)
    return var_of(d.program, reverse.table, param)


def _slice(reverse: Reverse, name: str, source: str, type_: Type) -> str:
    param = reverse.table.add_param(reverse.table.names.unique(f"{name}_grad"), type_).name
    reverse.slices.append(param)
    reverse.sliced.append(source)
    return param


def _seed(d: Any, table: SymbolTable, seeds: dict[str, Any], name: str, grad: Var) -> None:
    if not differentiable(table.type_of(name)):
        return
    with d.program.building(table):
        seeds[name] = d.add(seeds[name], grad) if name in seeds else grad


def _results(
    d: Any,
    parts: Parts,
    reverse: Reverse,
    grads: dict[str, Var],
    memories: Sequence[int],
    accumulators: Sequence[str],
    sums: Sequence[Var],
    slices: Sequence[str],
) -> None:
    """What the backward body returns, and whose cotangent each output is."""
    for j in memories:
        name = parts.memory_params[j]
        found = grads.get(name)
        flows = found is not None or d.op.outputs["final"][j] in d.grads
        _result(d, reverse, name, found, d.op.inputs["init"][j] if flows else None)
    for name, start in zip(accumulators, sums, strict=True):
        found = grads.get(name, start)
        _result(d, reverse, name, found, name if found is not start else None)
    for name in slices:
        if name in grads:
            origin = d.op.inputs["sliced"][parts.slice_params.index(name)]
            reverse.rows.append(grads[name].name)
            reverse.gives[f"row {len(reverse.rows) - 1}"] = origin


def _result(d: Any, reverse: Reverse, name: str, found: Var | None, origin: str | None) -> None:
    if found is None:
        type_ = reverse.table.type_of(name)
        assert isinstance(type_, TensorType), f"list {name} has no cotangent"
        found = zeros_of(type_)
    reverse.results.append(found.name)
    if origin is not None:
        reverse.gives[f"memory {len(reverse.results) - 1}"] = origin


# ---- the operator ----------------------------------------------------------------------------


def _backward_op(d: Any, parts: Parts, reverse: Reverse) -> Op | None:
    """The backward loop, trimmed to what somebody wants; what it still reads must be kept."""
    op, table = d.op, reverse.table
    body = table.freeze((*reverse.results, *reverse.rows))
    index = table.find_var(parts.index)
    assert index is not None
    body = Body(
        (parts.index, *reverse.memories, *reverse.slices),
        body.results,
        dict(body.vars) | {parts.index: index},
        body.ops,
    )
    name = d.program.table.names.unique(f"{op.name}_grad")
    finals = tuple(f"{name}.final.{i}" for i in range(len(reverse.memories)))
    stacked = tuple(f"{name}.rows.{i}" for i in range(len(reverse.rows)))
    made = op.with_(
        name=name,
        inputs={"init": tuple(v.name for v in reverse.init), "sliced": tuple(reverse.sliced)},
        outputs={"final": finals, "stacked": stacked, "trips": (f"{name}.trips",)},
        attrs=dict(op.attrs)
        | {
            "body": body,
            "cond": None,
            "max_trips": None,
            "reverse": _turned(op),
            "length": _length(d, op),
            "history": op.attrs["history"] or op.name,
            "recompute": False,
        },
    )
    gives = {
        (finals[int(n)] if kind == "memory" else stacked[int(n)]): origin
        for key, origin in reverse.gives.items()
        for kind, n in [key.split()]
        if d.wants(origin)
    }
    d.pending = gives
    return d.definition.trim(made, frozenset(gives), d.eliminate) if gives else None


def _turned(op: Op) -> bool:
    return True if op.attrs["cond"] is not None else not op.attrs["reverse"]


def is_counted(op: Op) -> bool:
    """Whether the trips are known before the loop runs, from shapes alone."""
    return op.attrs["cond"] is None and not op.inputs.get("count")


def _length(d: Any, op: Op) -> Size | None:
    if not is_counted(op):
        return None
    sliced = [d.host.type_of(name) for name in op.inputs.get("sliced", ())]
    length = op.attrs["length"]
    assert length is None or isinstance(length, int | Dim)
    return trip_count(Context("loop", d.host.unifier), sliced, length)


# ---- keeping what the backward loop reads ----------------------------------------------------


@dataclass
class Kept:
    """How the values that the backward body reads reach it."""

    rows: list[str]
    slices: list[str]
    lists: list[Thread]
    threads: list[Thread]
    recomputed: list[Op]


def _keep(d: Any, parts: Parts, forward: SymbolTable, reverse: Reverse, op: Op) -> None:
    trimmed = Parts.of(op).body
    whole = reverse.table.freeze()
    backward = Body(
        trimmed.params, trimmed.results, dict(whole.vars) | dict(trimmed.vars), whole.ops
    )
    if d.op.attrs["recompute"]:
        backward, forward = _with_forward(d, parts, forward, backward)
    at_hand = {parts.index, *parts.slice_params}
    body, plan = settle(backward, forward, at_hand, d.lists, d.eliminate)
    op = op.with_(attrs=dict(op.attrs) | {"body": body})
    counted = is_counted(d.op)
    kept = Kept(
        rows=plan.values if counted else [],
        slices=[name for name in parts.slice_params if name in plan.again],
        lists=[] if counted else [_push(d, forward, name) for name in plan.values],
        threads=[_through(d, forward, name) for name in plan.lists],
        recomputed=plan.recomputed,
    )
    outputs = _augment_forward(d, parts, forward, kept)
    _append_backward(d, parts, forward, op, kept, outputs)


def _with_forward(
    d: Any, parts: Parts, forward: SymbolTable, backward: Body
) -> tuple[Body, SymbolTable]:
    """A backward body that runs the forward body again, and the forward body as it was."""
    again = {name: info for name, info in forward.vars.items() if name not in forward.params}
    ops = (*forward.ops, *backward.ops)
    whole = Body(backward.params, backward.results, again | dict(backward.vars), ops)
    return whole, SymbolTable(parent=d.host).thaw(parts.body)


def _through(d: Any, forward: SymbolTable, name: str) -> Thread:
    """Let the history of a loop inside the body enter and leave this loop as a memory."""
    thread = take_list(d.lists, forward, name)
    forward.new_var(thread.param, ListType(thread.element), ARGUMENT)
    return thread


def _push(d: Any, forward: SymbolTable, name: str) -> Thread:
    """Let the forward body push a value each trip."""
    element = forward.type_of(name)
    assert isinstance(element, TensorType)
    names = forward.names
    param = forward.new_var(names.unique(f"{name}_kept"), ListType(element), ARGUMENT).name
    result = forward.new_var(names.unique(f"{name}_kept"), ListType(element), VALUE).name
    history = str(d.op.attrs["history"] or d.op.name)
    forward.new_op(
        PUSH,
        inputs={"list": (param,), "value": (name,)},
        outputs={"out": (result,)},
        attrs={"history": history},
        source=d.op.source,
    )
    return Thread(param, result, names.unique(f"{name}_kept"), element, history, value=name)


def _augment_forward(
    d: Any, parts: Parts, forward: SymbolTable, kept: Kept
) -> tuple[list[str], list[str]]:
    """The forward loop with its extra rows and lists; returns the names of its new outputs."""
    op, host, lists = d.op, d.host, [*kept.lists, *kept.threads]
    length = _length(d, op)
    known = dict(zip(parts.rows, op.outputs.get("stacked", ()), strict=True))
    new = [name for name in kept.rows if name not in known]
    for name in new:
        row = _stacked(length, forward.type_of(name))
        known[name] = host.new_var(host.names.unique(f"{name}_kept"), row).name
    starts = [d.empty_list(t.element, t.history) for t in lists]
    finals = [
        host.new_var(host.names.unique("history"), ListType(t.element)).name for t in lists
    ]
    d.lists.origins.update(zip(finals, starts, strict=True))
    params = (parts.index, *parts.memory_params, *(t.param for t in lists), *parts.slice_params)
    results = (*parts.next_memories, *(t.result for t in lists), *parts.rows, *new)
    forward.params = list(params)
    cond = op.attrs["cond"]
    if isinstance(cond, Body):
        extra = {t.param: VarInfo(t.param, ListType(t.element), ARGUMENT) for t in lists}
        cond = Body((*cond.params, *extra), cond.results, dict(cond.vars) | extra, cond.ops)
    inputs, outputs = dict(op.inputs), dict(op.outputs)
    inputs["init"] = (*op.inputs.get("init", ()), *starts)
    outputs["final"] = (*op.outputs["final"], *finals)
    outputs["stacked"] = (*op.outputs.get("stacked", ()), *(known[name] for name in new))
    body = forward.freeze(results)
    d.replace(
        with_captures(
            op.with_(
                inputs=inputs,
                outputs=outputs,
                attrs=dict(op.attrs) | {"body": body, "cond": cond},
            )
        )
    )
    return [known[name] for name in kept.rows], finals


def _stacked(length: Any, row: Type) -> TensorType:
    assert isinstance(row, TensorType)
    return TensorType(row.dtype, (length, *row.shape))


def _append_backward(
    d: Any,
    parts: Parts,
    forward: SymbolTable,
    op: Op,
    kept: Kept,
    outputs: tuple[list[str], list[str]],
) -> None:
    """The backward loop with what it reads, in the block that is being built."""
    reverse, body = Parts.of(op), op.attrs["body"]
    assert isinstance(body, Body)
    rows, finals = outputs
    infos, pops = dict(body.vars), list[Op]()
    lists = [thread.source for thread in (*kept.lists, *kept.threads)]
    rests = [_pop(d, forward, thread, infos, pops) for thread in kept.lists]
    rests += [d.lists.rests[thread.source] for thread in kept.threads]
    for thread in kept.threads:
        infos |= _infos((thread.source, ListType(thread.element), ARGUMENT))
    for name in (*kept.rows, *kept.slices):
        infos |= _infos((name, forward.type_of(name), ARGUMENT))
    for again in kept.recomputed:
        infos |= _infos(*((n, forward.type_of(n), VALUE) for n in again.binds()))
    params = (parts.index, *reverse.memory_params, *lists, *reverse.slice_params, *kept.slices,
              *kept.rows)  # fmt: skip
    results = (*reverse.next_memories, *rests, *reverse.rows)
    body = Body(params, results, infos, (*pops, *kept.recomputed, *body.ops))
    original = dict(zip(parts.slice_params, d.op.inputs.get("sliced", ()), strict=True))
    inputs = {
        "init": (*op.inputs["init"], *finals),
        "sliced": (*op.inputs["sliced"], *(original[n] for n in kept.slices), *rows),
    }
    if not is_counted(d.op):
        inputs["count"] = d.op.inputs.get("count") or d.op.outputs["trips"]
    attrs = dict(op.attrs) | {"body": body}
    _declare_outputs(d, op, body, finals, attrs, inputs)


def _pop(
    d: Any, forward: SymbolTable, thread: Thread, infos: dict[str, VarInfo], pops: list[Op]
) -> str:
    """The operator that pops a value under its own name; returns the name of the rest."""
    rest = forward.names.unique(thread.source)
    list_type = ListType(thread.element)
    infos |= _infos(
        (thread.source, list_type, ARGUMENT),
        (rest, list_type, VALUE),
        (thread.value, thread.element, VALUE),
    )
    outputs = {"value": (thread.value,), "rest": (rest,)}
    name = forward.names.unique(POP)
    attrs = {"history": thread.history}
    pops.append(Op(POP, name, {"list": (thread.source,)}, outputs, attrs, d.op.source))
    return rest


def _infos(*given: tuple[str, Type, str]) -> dict[str, VarInfo]:
    return {name: VarInfo(name, type_, kind) for name, type_, kind in given}


def _declare_outputs(
    d: Any,
    op: Op,
    body: Body,
    finals: Sequence[str],
    attrs: dict[str, Any],
    inputs: dict[str, tuple[str, ...]],
) -> None:
    table = d.program.current
    rests = tuple(f"{op.name}.rest.{i}" for i in range(len(finals)))
    d.lists.rests.update(zip(finals, rests, strict=True))
    names = (*op.outputs["final"], *rests)
    for name, param in zip(names, body.params[1:], strict=False):
        table.new_var(name, body.vars[param].type)
    for name, result in zip(op.outputs["stacked"], body.results[len(names) :], strict=True):
        row = body.vars[result].type if result in body.vars else table.type_of(result)
        table.new_var(name, _stacked(attrs["length"], row))
    table.new_var(op.outputs["trips"][0], INDEX_TYPE)
    made = with_captures(
        op.with_(inputs=inputs, outputs=dict(op.outputs) | {"final": names}, attrs=attrs)
    )
    table.append(made)
    for name, origin in d.pending.items():
        d.give(origin, var_of(d.program, table, name))
