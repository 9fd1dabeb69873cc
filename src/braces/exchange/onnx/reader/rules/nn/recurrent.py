"""Rules of LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from braces.exchange.common.rules.recurrent_cells import (
    Cell,
    Function,
    Step,
    gru_step,
    lstm_step,
    rnn_step,
    run_cell,
    zero_memory,
)
from braces.exchange.common.values.equal_sizes import unify_weight_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.tensor import arithmetic
from braces.extend import functions as ops
from braces.extend.building import Var


def affine(x: Var, alpha: float, beta: float) -> Var:
    """Return `alpha * x + beta`."""
    return alpha * x + beta


def scaled_tanh(x: Var, alpha: float, beta: float) -> Var:
    """Return `alpha * tanh(beta * x)`."""
    return alpha * ops.tanh(beta * x)


ACTIVATIONS: Mapping[str, tuple[Callable[..., Var], tuple[float, ...]]] = {
    "affine": (affine, (1.0, 0.0)),
    "elu": (ops.elu, (1.0,)),
    "hardsigmoid": (arithmetic.hard_sigmoid, (0.2, 0.5)),
    "leakyrelu": (ops.leaky_relu, (0.01,)),
    "relu": (ops.relu, ()),
    "scaledtanh": (scaled_tanh, (1.0, 1.0)),
    "sigmoid": (ops.sigmoid, ()),
    "softplus": (ops.softplus, ()),
    "softsign": (ops.softsign, ()),
    "tanh": (ops.tanh, ()),
    "thresholdedrelu": (arithmetic.thresholded_relu, (1.0,)),
}
"""The activations of gates, with the default values of their numbers."""


DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def functions_of(node: OnnxNode, directions: int) -> list[list[Function]]:
    """Return the activations of gates, by direction."""
    names = node.texts("activations") or DEFAULTS[node.type] * directions
    alphas, betas = (list(node.attr(f"activation_{w}", [])) for w in ("alpha", "beta"))
    activations = list[Function]()
    for name in names:
        function, numbers = ACTIVATIONS.get(name.lower()) or _refuse_activation(node, name)
        candidates = zip((alphas, betas), numbers, strict=False)  # many functions take none
        parameters = [left.pop(0) if left else number for left, number in candidates]
        activations.append(partial(_apply_numbers, function, parameters))
    per = len(activations) // directions
    return [activations[i * per : (i + 1) * per] for i in range(directions)]


def _refuse_activation(node: OnnxNode, name: str) -> Any:
    node.refuse(f"unknown activation `{name:.40}`; expected one of {', '.join(ACTIVATIONS)}")


def _apply_numbers(function: Callable[..., Var], numbers: Sequence[float], x: Var) -> Var:
    return function(x, *numbers)


Build = Callable[[OnnxNode, str, int, "Sequence[Function]", Var], "tuple[Cell, Var]"]
"""From a node, its gates, a direction, its activations and the input of all steps to the cell
of that direction and the input that it takes.
"""


def layer(
    step: Step, order: str, memories: int, node: OnnxNode, build: Build | None = None
) -> tuple[Var, ...]:
    """A layer of one or two directions: all outputs, and the last memories."""
    x, batch_first = node.var(0), node.flag("layout")
    x = ops.swapaxes(x, 0, 1) if batch_first else x
    direction = node.attr("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = functions_of(node, directions)
    runs = list[tuple[Var, list[Var]]]()
    for d in range(directions):
        cell, taken = (build or _cell_and_input)(node, order, d, functions[d], x)
        start = [_start(node, 5 + k, d, x, cell, batch_first) for k in range(memories)]
        back = direction == "reverse" or d == 1
        runs.append(run_cell(cell, step, taken, start, back=back, lengths=node.maybe(4)))
    outputs = ops.stack([outputs_of_run for outputs_of_run, _ in runs], axis=1)
    last = [ops.stack(list(ends)) for ends in zip(*(ends for _, ends in runs), strict=True)]
    if batch_first:
        outputs = ops.transpose(outputs, (2, 0, 1, 3))
        last = [ops.swapaxes(end, 0, 1) for end in last]
    return (outputs, *last)


def _cell_and_input(
    node: OnnxNode, order: str, d: int, functions: Sequence[Function], x: Var
) -> tuple[Cell, Var]:
    w, r = node.var(1), node.var(2)
    size = r.shape[2] if isinstance(r.shape[2], int) else 0
    cell = Cell(order, w[d], r[d], None, functions, size)
    return with_options(node, cell, d), unify_weight_sizes(x, {2: w.shape[2]})


def with_options(node: OnnxNode, cell: Cell, d: int) -> Cell:
    """Return a cell with the biases, peepholes and attributes of a node."""
    b, p = node.maybe(3), node.maybe(7) if cell.order == LSTM else None
    half = len(cell.order) * cell.size
    return replace(
        cell,
        biases=None if b is None else (b[d, :half], b[d, half:]),
        peepholes=None if p is None else p[d],
        clip=node.attr("clip") or 0.0,
        coupled=node.flag("input_forget"),
        reset_after=node.flag("linear_before_reset"),
    )


def _start(node: OnnxNode, at: int, d: int, x: Var, cell: Cell, batch_first: bool) -> Var:
    initial = node.maybe(at)
    if initial is None:
        return zero_memory(cell.r, x.shape[1], cell.size)
    return (ops.swapaxes(initial, 0, 1) if batch_first else initial)[d]


LSTM = "iofg"
RECURRENT: Mapping[str, Rule] = {
    "GRU": partial(layer, gru_step, "zrn", 1),
    "LSTM": partial(layer, lstm_step, LSTM, 2),
    "RNN": partial(layer, rnn_step, "h", 1),
}
