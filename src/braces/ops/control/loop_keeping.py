"""What the gradient of a loop reads of the loop: kept by the one, handed to the other.

A counted loop stacks it as rows. A loop whose trips only the run knows pushes it on lists. What
a memory is after a trip is what it was before the next, and is kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type
from braces.ir.records import ARGUMENT, VALUE, Body, Op, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import with_captures
from braces.ops.build import var_of
from braces.ops.control.keeping import Thread, settle, take_list
from braces.ops.control.loop_parts import Parts, trip_count
from braces.ops.inference import Context
from braces.ops.lists import INDEX_TYPE, POP, PUSH

SMALL_BYTES = 4096
"""Below this size, two copies into a history are cheaper than one more memory of the loop."""


def is_counted(op: Op) -> bool:
    """Whether the trips are known before the loop runs, from shapes alone."""
    return op.attrs["cond"] is None and not op.inputs.get("count")


def counted_length(d: Any, op: Op) -> Size | None:
    """How many trips a counted loop makes; `None` for other loops."""
    if not is_counted(op):
        return None
    sliced = [d.host.type_of(name) for name in op.inputs.get("sliced", ())]
    length = op.attrs["length"]
    assert length is None or isinstance(length, int | Dim)
    return trip_count(Context("loop", d.host.unifier), sliced, length)


@dataclass
class Kept:
    """How the values that the backward body reads reach it.

    Attributes:
        rows: Stacked by a counted loop, sliced by its gradient.
        slices: What the loop slices itself.
        lists: Pushed by a loop whose trips only the run knows, popped by its gradient.
        threads: Histories of loops inside the body.
        following: What a memory is after the trip, and its number. It is what the memory was
            before the next trip, so the backward loop, which comes from there, has it.
        recomputed: Operators to run again.
    """

    rows: list[str]
    slices: list[str]
    lists: list[Thread]
    threads: list[Thread]
    following: dict[str, int]
    recomputed: list[Op]


def keep(d: Any, parts: Parts, forward: SymbolTable, table: SymbolTable, op: Op) -> None:
    """Append the backward loop `op`, and let the forward loop keep what it reads.

    Args:
        d: The differentiation that goes on.
        parts: The forward loop taken apart.
        forward: The block of its body.
        table: The block in which the body of `op` was built.
        op: The backward loop, trimmed, without what it reads of the forward body.
    """
    trimmed = Parts.of(op).body
    whole = table.freeze()
    backward = Body(
        trimmed.params, trimmed.results, dict(whole.vars) | dict(trimmed.vars), whole.ops
    )
    if d.op.attrs["recompute"]:
        backward, forward = _with_forward(d, parts, forward, backward)
    at_hand = {parts.index, *parts.slice_params}
    body, plan = settle(backward, forward, at_hand, d.lists, d.eliminate)
    op = op.with_(attrs=dict(op.attrs) | {"body": body})
    counted, following = is_counted(d.op), _following(parts, plan.values, forward)
    values = [name for name in plan.values if name not in following]
    kept = Kept(
        rows=values if counted else [],
        slices=[name for name in parts.slice_params if name in plan.again],
        lists=[] if counted else [_push(d, forward, name) for name in values],
        threads=[_through(d, forward, name) for name in plan.lists],
        following=following,
        recomputed=plan.recomputed,
    )
    outputs = _augment_forward(d, parts, forward, kept)
    _append_backward(d, parts, forward, op, kept, outputs)


def _following(parts: Parts, values: Sequence[str], forward: SymbolTable) -> dict[str, int]:
    """The values that are a memory's next, where the memory before the trip is kept as well."""
    pairs = zip(parts.next_memories, parts.memory_params, strict=True)
    return {
        after: j
        for j, (after, before) in enumerate(pairs)
        if after in values and before in values and after not in parts.memory_params
        if not _is_small(forward.type_of(after))
    }


def _is_small(type_: Type) -> bool:
    """Whether keeping a value costs less than handing it from trip to trip does."""
    assert isinstance(type_, TensorType)
    sizes = [size for size in type_.shape if isinstance(size, int)]
    bytes_ = prod(sizes) * type_.dtype.itemsize
    return len(sizes) == len(type_.shape) and bytes_ < SMALL_BYTES


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
    length = counted_length(d, op)
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
        cond = cond.with_(params=(*cond.params, *extra), vars=dict(cond.vars) | extra)
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
    befores = [parts.memory_params[j] for j in kept.following.values()]
    lasts = [d.op.outputs["final"][j] for j in kept.following.values()]
    for thread in kept.threads:
        infos |= _infos((thread.source, ListType(thread.element), ARGUMENT))
    for name in (*kept.rows, *kept.slices, *kept.following):
        infos |= _infos((name, forward.type_of(name), ARGUMENT))
    for again in kept.recomputed:
        infos |= _infos(*((n, forward.type_of(n), VALUE) for n in again.binds()))
    params = (parts.index, *reverse.memory_params, *lists, *kept.following,
              *reverse.slice_params, *kept.slices, *kept.rows)  # fmt: skip
    results = (*reverse.next_memories, *rests, *befores, *reverse.rows)
    body = Body(params, results, infos, (*pops, *kept.recomputed, *body.ops))
    original = dict(zip(parts.slice_params, d.op.inputs.get("sliced", ()), strict=True))
    inputs = {
        "init": (*op.inputs["init"], *finals, *lasts),
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
    own = len(op.outputs["final"]) + len(rests)
    firsts = tuple(f"{op.name}.first.{i}" for i in range(len(inputs["init"]) - own))
    names = (*op.outputs["final"], *rests, *firsts)
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
