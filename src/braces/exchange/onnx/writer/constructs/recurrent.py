"""Loops over standard cells as `LSTM`, `GRU` and `RNN` nodes.

The step is compared with the formulas of ONNX (`cells.py`). The product with the input may be
in the step, or before the loop as in programs of importers. Weights are gathered in the order
of ONNX's gates; runtimes compute that once, when they read the model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from braces.exchange.onnx.writer.constructs.cells import GateWeights, StandardCell, find_cell
from braces.exchange.onnx.writer.constructs.functions import OutputNames
from braces.exchange.onnx.writer.constructs.step_forms import (
    CarriedState,
    Columns,
    Form,
    Forms,
    Input,
    Unrecognized,
)
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.node import NodeDesc
from braces.exchange.onnx.writer.primitives.shape import add_axes
from braces.extend.constructs import LoopView
from braces.extend.programs import Body, Op
from braces.extend.types import FLOAT32, INT64, TensorType

DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""The activations of nodes that name none."""


def recurrent(n: NodeDesc, view: LoopView) -> OutputNames | None:
    """Export a loop over a standard cell as one node, or return `None` for other loops."""
    memory = _memory(n, view)
    if memory is None:
        return None
    for source, taken in _inputs(n, view):
        cell = _cell(n, view, memory, taken)
        if cell is not None:
            return _node(n, view, source, *cell)
    return None


def _memory(n: NodeDesc, view: LoopView) -> TensorType | None:
    """Return the type of the memories, if those of a standard cell can have it."""
    types = {view.content.vars[m.param].type for m in view.memories}
    is_plain = view.counted and len(view.slices) == 1 and not view.history
    if not is_plain or len(types) != 1:
        return None
    (memory,), source = types, array_type(n.g, view.slices[0].source)
    if not isinstance(memory, TensorType):
        return None
    is_standard = memory.rank == 2 and source.rank == 3 and source.shape[1] == memory.shape[0]
    is_float = memory.dtype == source.dtype == FLOAT32
    return memory if is_standard and is_float and isinstance(memory.shape[1], int) else None


def _inputs(n: NodeDesc, view: LoopView) -> Iterator[tuple[str, Form]]:
    """Yield the possible inputs of all steps, with the form of their slices.

    The second one is the factor of a product that was computed before the loop.
    """
    source = view.slices[0].source
    yield source, Input()
    name, chain = source, list[Op]()
    while (op := n.g.binders.get(name)) is not None and op.type in ("add", "matmul"):
        chain.append(op)
        name = next((x for x in op.reads() if array_type(n.g, x).rank == 3), "")
        if op.type == "matmul":
            break
    if not name or array_type(n.g, name).shape[:2] != array_type(n.g, source).shape[:2]:
        return
    body = Body((name,), (source,), {}, tuple(chain))
    forms = Forms(body, {name: Input()}, n.g.type, n.g.binders)
    with contextlib.suppress(Unrecognized):
        yield name, forms.of(source)


def _cell(
    n: NodeDesc, view: LoopView, memory: TensorType, taken: Form
) -> tuple[StandardCell, int] | None:
    known: dict[str, Form] = {m.param: CarriedState(at) for at, m in enumerate(view.memories)}
    known[view.slices[0].param] = taken
    forms = Forms(view.content, known, n.g.type, n.g.binders, memory)
    try:
        standard = find_cell([forms.of(m.next) for m in view.memories])
        if standard is None:
            return None
        output = forms.of(view.memories[standard[1]].next)
        is_same = all(forms.of(row.result) == output for row in view.rows)
    except Unrecognized:
        return None
    return standard if is_same else None


def array_type(g: OnnxGraph, name: str) -> TensorType:
    """Return the type of a variable that is an array."""
    type_ = g.type(name)
    assert isinstance(type_, TensorType)
    return type_


# ---- the node --------------------------------------------------------------------------------


def _node(n: NodeDesc, view: LoopView, source: str, cell: StandardCell, at: int) -> OutputNames:
    """Add the node, and return its outputs; `at` is the position of the output memory."""
    g, memories = n.g, view.memories
    order = [at, *(k for k in range(len(memories)) if k != at)]
    inits = [add_axes(g, g.name(memories[k].init), (0,)) for k in order]
    matrices = (_matrix(g, [getattr(gate, role) for gate in cell.gates]) for role in "wr")
    size = cell.gates[0].r.stop - cell.gates[0].r.start
    out, *finals = g.several(
        cell.kind,
        g.name(source),
        *matrices,
        _biases(g, cell.gates, size),
        "",
        *inits,
        count=1 + len(memories),
        hidden_size=size,
        direction="reverse" if view.reverse else None,
        activations=None if cell.activations == DEFAULTS[cell.kind] else cell.activations,
        linear_before_reset=1 if cell.reset_after else None,
    )
    rows = [g.op("Squeeze", out, g.integers(1)) for _ in view.rows]
    ends = {
        k: g.op("Squeeze", end, g.integers(0)) for k, end in zip(order, finals, strict=True)
    }
    length = n.g.number(array_type(n.g, view.slices[0].source).shape[0])
    return view.bound([ends[k] for k in range(len(memories))], rows, length)


def _matrix(g: OnnxGraph, gates: Sequence[Columns]) -> str:
    """Return the weights of all gates, as `[1, gates * size, features]`."""
    columns = _join_columns(g, gates, axis=1)
    return add_axes(g, g.op("Transpose", columns, perm=[1, 0]), (0,))


def _join_columns(g: OnnxGraph, parts: Sequence[Columns], axis: int) -> str:
    """Return columns of weights next to each other."""
    sources = {(part.name, part.rows) for part in parts}
    if len(sources) > 1:
        pieces = [_join_columns(g, [part], axis) for part in parts]
        return g.op("Concat", *pieces, axis=axis)
    ((name, rows),) = sources
    value, size = g.name(name), array_type(g, name).shape[axis]
    if rows is not None:
        value = g.op("Slice", value, *(g.integers(bound) for bound in (*rows, 0)))
    indices = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    if size == len(indices) and (indices == np.arange(len(indices))).all():
        return value
    return g.op("Gather", value, g.constant(indices, INT64), axis=axis)


def _biases(g: OnnxGraph, gates: Sequence[GateWeights], size: int) -> str:
    """Return the biases of both products, as `[1, 2 * gates * size]`; empty for none."""
    if not any(gate.biases or gate.inner for gate in gates):
        return ""
    taken = [gate.biases[:1] if gate.inner is None else gate.biases for gate in gates]
    recurrent = [gate.biases[1:] if gate.inner is None else gate.inner for gate in gates]
    return add_axes(
        g, g.op("Concat", _bias(g, taken, size), _bias(g, recurrent, size), axis=0), (0,)
    )


def _bias(g: OnnxGraph, gates: Sequence[Sequence[Columns]], size: int) -> str:
    """Return one bias of all gates; those of a gate are added."""
    if all(len(biases) == 1 for biases in gates):
        return _join_columns(g, [biases[0] for biases in gates], axis=0)
    if not any(gates):
        return g.constant(np.zeros(len(gates) * size, np.float32))
    return g.op("Concat", *(_sum(g, biases, size) for biases in gates), axis=0)


def _sum(g: OnnxGraph, biases: Sequence[Columns], size: int) -> str:
    if not biases:
        return g.constant(np.zeros(size, np.float32))
    total, *others = (_join_columns(g, [bias], axis=0) for bias in biases)
    for other in others:
        total = g.op("Add", total, other)
    return total
