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

from braces.dtypes import TensorType, Type
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ops.build import Var, var_of
from braces.ops.control.keeping import differentiable
from braces.ops.control.loop_keeping import counted_length, keep
from braces.ops.control.loop_parts import Parts
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
    if op is not None:
        keep(d, parts, forward, reverse.table, op)


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
    reached = {
        j: d.reachable(forward, {name})
        for j, name in enumerate(parts.memory_params)
        if isinstance(forward.type_of(name), TensorType)
    }
    while True:
        wanted = {*rows, *(parts.next_memories[j] for j in kept)}
        needed = d.ancestors(forward, wanted)
        more = {
            j
            for j, name in enumerate(parts.memory_params)  # a history is handed on as a whole
            if (name in needed if j not in reached else not wanted.isdisjoint(reached[j]))
        }
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
            "length": counted_length(d, op),
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
