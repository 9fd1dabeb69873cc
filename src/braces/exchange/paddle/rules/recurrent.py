"""Rules of LSTM, GRU and RNN: of padded arrays, and of sequences.

Weights of the old operators stand otherwise than those of the new one. A `gru` has the columns
of update and reset gate as one matrix, behind which the numbers of a second matrix follow for
the candidate, though the file says it is one; an `lstm` has its columns in the order candidate,
input, forget, output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.builder.var import Var
from braces.dtypes import INT64
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.recurrent_cells import (
    Cell,
    Function,
    Step,
    cells_of,
    gru_step,
    lstm_step,
    rnn_step,
    run_cell,
    run_memories,
    zeros,
)
from braces.exchange.paddle.graph.environment import Rows
from braces.exchange.paddle.graph.node import Node, Results, Rule
from braces.frontend import random
from braces.frontend.core import functions as ops

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
"""By the mode of `rnn`: the step, its gates in order, and what they go through."""


def function(node: Node, name: str, default: str) -> Function:
    """What a gate goes through."""
    found = node.attr(name, default)
    if found not in ACTIVATIONS:
        node.refuse(f"has an activation {found!r:.40}", f"It may be {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[found]


# ---- of padded arrays ------------------------------------------------------------------------


def rnn(node: Node) -> Results:
    """Layers on top of each other, each of one direction or two."""
    mode = node.attr("mode", "RNN_TANH")
    if mode not in MODES:
        node.refuse(f"has a mode {mode!r:.40}", f"It may be {', '.join(MODES)}.")
    step, order, functions = MODES[mode]
    x, start, lengths = node.var("Input"), node.vars("PreState"), node.maybe("SequenceLength")
    lengths = None if lengths is None else ops.ensure_shape(lengths, x.shape[1:2])
    count, ways = node.attr("num_layers", 1), 2 if node.attr("is_bidirec", False) else 1
    weights = in_turn(node.vars("WeightList"), count * ways)
    cells = cells_of(order, functions, weights, biased=True, count=count * ways)
    rate = 0.0 if node.attr("is_test", False) else node.attr("dropout_prob", 0.0)
    ends = list[list[Var]]()
    for layer in range(count):
        made = list[Var]()
        for at in range(layer * ways, (layer + 1) * ways):
            first = [memory[at] for memory in start]
            out, last = run_cell(
                cells[at], step, x, first, back=at % ways == 1, lengths=lengths
            )
            made.append(out)
            ends.append(last)
        x = ops.concat(made, axis=-1) if ways == 2 else made[0]
        x = random.dropout(x, rate) if rate and layer < count - 1 else x
    return {"Out": x, "State": [ops.stack(list(end)) for end in zip(*ends, strict=True)]}


def in_turn(weights: Sequence[Var], count: int) -> list[Var]:
    """Weights cell by cell: matrices of all cells stand first, then biases of all."""
    biases = weights[2 * count :]
    return [
        w
        for at in range(0, 2 * count, 2)
        for w in (*weights[at : at + 2], *biases[at : at + 2])
    ]


# ---- of sequences ----------------------------------------------------------------------------


def gru(node: Node) -> Results:
    """A GRU over what its input adds to the gates, which is computed before it."""
    rows, weight = node.rows("Input"), node.var("Weight")
    size = whole(node, weight.shape[0])
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
    made, _ = over(node, rows, biased(node, rows.flat, 3 * size), cell, gru_step, ["H0"])
    return {"Hidden": made}


def lstm(node: Node) -> Results:
    """An LSTM over what its input adds to the gates, which is computed before it."""
    rows, weight = node.rows("Input"), node.var("Weight")
    size = whole(node, weight.shape[0])
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
    given = biased(node, rows.flat, 4 * size)
    hidden, memory = over(node, rows, given, cell, lstm_step, ["H0", "C0"])
    return {"Hidden": hidden, "Cell": memory}


def whole(node: Node, size: object) -> int:
    """A size of a weight, which is a number."""
    if not isinstance(size, int):
        node.refuse("has weights of no known size")
    return size


def biased(node: Node, x: Var, size: int) -> Var:
    """What the input adds to the gates, with their biases."""
    if not node.has("Bias"):
        return x
    bias = node.var("Bias")
    return x + ops.reshape(bias, (-1,))[:size]


def over(
    node: Node, rows: Rows, given: Var, cell: Cell, step: Step, starts: Sequence[str]
) -> tuple[Rows, Rows]:
    """A cell over the steps of sequences: all outputs, and all that is remembered last."""
    x = ops.swapaxes(rows.like(given).padded(), 0, 1)
    blank = zeros(cell.r, rows.batch, cell.size)
    first = [node.var(slot) if node.has(slot) else blank for slot in starts]
    lengths = in_dtype(rows.lengths, INT64)
    made, _ = run_memories(
        cell, step, x, first, back=bool(node.attr("is_reverse", False)), lengths=lengths,
        collected=len(starts),
    )  # fmt: skip
    outs = [Rows.of(ops.swapaxes(out, 0, 1), rows.lengths) for out in made]
    return outs[0], outs[-1]


PADDED: Mapping[str, Rule] = {"rnn": rnn}
RECURRENT: Mapping[str, Rule] = {"gru": gru, "lstm": lstm}
"""Those that take sequences."""
