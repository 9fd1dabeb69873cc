"""Rules of LSTM, GRU and RNN, for padded arrays and for ragged sequences.

The old operators have other weight layouts than the new one. A `gru` has the columns of update
and reset gate as one matrix, followed by the numbers of a second matrix for the candidate,
though its shape is that of one. An `lstm` has its columns in the order candidate, input,
forget, output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.recurrent_cells import (
    Cell,
    Function,
    Step,
    build_cells,
    gru_step,
    lstm_step,
    rnn_step,
    run_cell,
    run_memories,
    zero_memory,
)
from braces.exchange.paddle.graph.environment import RaggedSequences
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops, layers
from braces.extend.building import Var
from braces.extend.types import INT64

ACTIVATIONS: Mapping[str, Function] = {
    "identity": ops.identity,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
}
MODES: Mapping[str, tuple[Step, str, Sequence[Function]]] = {
    "GRU": (gru_step, "rzn", (ops.sigmoid, ops.tanh)),
    "LSTM": (lstm_step, "ifgo", (ops.sigmoid, ops.tanh, ops.tanh)),
    "RNN_RELU": (rnn_step, "h", (ops.relu,)),
    "RNN_TANH": (rnn_step, "h", (ops.tanh,)),
}
"""By the mode of `rnn`: the step, its gates in order, and their activations."""


def function(node: PaddleOp, name: str, default: str) -> Function:
    """Return the activation of a gate."""
    name_ = node.attr(name, default)
    if name_ not in ACTIVATIONS:
        node.refuse(f"unknown activation {name_!r:.40}", f"Use {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name_]


# ---- of padded arrays ------------------------------------------------------------------------


def rnn(node: PaddleOp) -> Results:
    """Stacked layers of one direction or two."""
    mode = node.attr("mode", "RNN_TANH")
    if mode not in MODES:
        node.refuse(f"unknown mode {mode!r:.40}", f"Use {', '.join(MODES)}.")
    step, order, functions = MODES[mode]
    x, start, lengths = node.var("Input"), node.vars("PreState"), node.maybe("SequenceLength")
    lengths = None if lengths is None else ops.ensure_shape(lengths, x.shape[1:2])
    count, directions = node.attr("num_layers", 1), 2 if node.attr("is_bidirec", False) else 1
    weights = reorder_by_cell(node.vars("WeightList"), count * directions)
    cells = build_cells(order, functions, weights, biased=True, count=count * directions)
    rate = 0.0 if node.attr("is_test", False) else node.attr("dropout_prob", 0.0)
    ends = list[list[Var]]()
    for layer in range(count):
        direction_outputs = list[Var]()
        for at in range(layer * directions, (layer + 1) * directions):
            first = [memory[at] for memory in start]
            out, last = run_cell(
                cells[at], step, x, first, back=at % directions == 1, lengths=lengths
            )
            direction_outputs.append(out)
            ends.append(last)
        x = ops.concat(direction_outputs, axis=-1) if directions == 2 else direction_outputs[0]
        x = layers.dropout(x, rate) if rate and layer < count - 1 else x
    return {"Out": x, "State": [ops.stack(list(end)) for end in zip(*ends, strict=True)]}


def reorder_by_cell(weights: Sequence[Var], count: int) -> list[Var]:
    """Reorder weights by cell: the file has all matrices first, then all biases."""
    biases = weights[2 * count :]
    return [
        w
        for at in range(0, 2 * count, 2)
        for w in (*weights[at : at + 2], *biases[at : at + 2])
    ]


# ---- of sequences ----------------------------------------------------------------------------


def gru(node: PaddleOp) -> Results:
    """A GRU whose input product is computed before it."""
    rows, weight = node.rows("Input"), node.var("Weight")
    size = checked_size(node, weight.shape[0])
    flat = ops.reshape(weight, (3 * size * size,))
    gates = ops.reshape(flat[: 2 * size * size], (size, 2 * size))
    candidate = ops.reshape(flat[2 * size * size :], (size, size))
    functions = (
        function(node, "gate_activation", "sigmoid"), function(node, "activation", "tanh")
    )  # fmt: skip
    cell = Cell(
        "zrn", None, ops.transpose(ops.concat([gates, candidate], axis=1)), None, functions,
        size, reset_after=False, update_keeps=bool(node.attr("origin_mode", False)),
    )  # fmt: skip
    hidden, _ = run_over_sequences(
        node, rows, add_gate_bias(node, rows.flat, 3 * size), cell, gru_step, ["H0"]
    )
    return {"Hidden": hidden}


def lstm(node: PaddleOp) -> Results:
    """An LSTM whose input product is computed before it."""
    rows, weight = node.rows("Input"), node.var("Weight")
    size = checked_size(node, weight.shape[0])
    peepholes = None
    if node.attr("use_peepholes", True):
        i, f, o = ops.split(ops.reshape(node.var("Bias"), (7 * size,))[4 * size :], sections=3)
        peepholes = ops.concat([i, o, f])
    functions = (
        function(node, "gate_activation", "sigmoid"),
        function(node, "candidate_activation", "tanh"),
        function(node, "cell_activation", "tanh"),
    )
    cell = Cell("gifo", None, ops.transpose(weight), None, functions, size, peepholes=peepholes)
    gate_inputs = add_gate_bias(node, rows.flat, 4 * size)
    hidden, memory = run_over_sequences(node, rows, gate_inputs, cell, lstm_step, ["H0", "C0"])
    return {"Hidden": hidden, "Cell": memory}


def checked_size(node: PaddleOp, size: object) -> int:
    """Return a size of a weight, which must be a number."""
    if not isinstance(size, int):
        node.refuse(f"expected weights of static size, got {size}")
    return size


def add_gate_bias(node: PaddleOp, x: Var, size: int) -> Var:
    """Add the bias of the gates."""
    if not node.has("Bias"):
        return x
    bias = node.var("Bias")
    return x + ops.reshape(bias, (-1,))[:size]


def run_over_sequences(
    node: PaddleOp,
    rows: RaggedSequences,
    sequences: Var,
    cell: Cell,
    step: Step,
    starts: Sequence[str],
) -> tuple[RaggedSequences, RaggedSequences]:
    """Run a cell over sequences; return all outputs, and all values of the last memory."""
    x = ops.swapaxes(rows.like(sequences).padded(), 0, 1)
    zero_state = zero_memory(cell.r, rows.batch, cell.size)
    first = [node.var(slot) if node.has(slot) else zero_state for slot in starts]
    lengths = cast_to_dtype(rows.lengths, INT64)
    stacked_memories, _ = run_memories(
        cell, step, x, first, back=bool(node.attr("is_reverse", False)), lengths=lengths,
        collected=len(starts),
    )  # fmt: skip
    outs = [
        RaggedSequences.of(ops.swapaxes(out, 0, 1), rows.lengths) for out in stacked_memories
    ]
    return outs[0], outs[-1]


PADDED: Mapping[str, Rule] = {"rnn": rnn}
RECURRENT: Mapping[str, Rule] = {"gru": gru, "lstm": lstm}
"""The rules for ragged sequences."""
