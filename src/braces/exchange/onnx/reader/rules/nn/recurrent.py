"""Rules of LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def layer(step: Step, order: str, memories: int, node: OnnxNode) -> tuple[Var, ...]:
    """A layer of one or two directions: all outputs, and the last memories."""
    x, batch_first = node.var(0), node.flag("layout")
    x = unify_weight_sizes(
        ops.swapaxes(x, 0, 1) if batch_first else x, {2: node.var(1).shape[2]}
    )
    direction = node.attr("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = functions_of(node, directions)
    runs = list[tuple[Var, list[Var]]]()
    for d in range(directions):
        cell = cell_of(node, order, d, functions[d])
        start = [_start(node, 5 + k, d, x, cell, batch_first) for k in range(memories)]
        back = direction == "reverse" or d == 1
        runs.append(run_cell(cell, step, x, start, back=back, lengths=node.maybe(4)))
    outputs = ops.stack([outputs_of_run for outputs_of_run, _ in runs], axis=1)
    last = [ops.stack(list(ends)) for ends in zip(*(ends for _, ends in runs), strict=True)]
    if batch_first:
        outputs = ops.transpose(outputs, (2, 0, 1, 3))
        last = [ops.swapaxes(end, 0, 1) for end in last]
    return (outputs, *last)


def cell_of(node: OnnxNode, order: str, d: int, functions: Sequence[Function]) -> Cell:
    """Return the cell of one direction."""
    w, r, b = node.var(1), node.var(2), node.maybe(3)
    p = node.maybe(7) if order == LSTM else None
    size = r.shape[2] if isinstance(r.shape[2], int) else 0
    biases = None
    if b is not None:
        half = len(order) * size
        biases = b[d, :half], b[d, half:]
    return Cell(
        order, w[d], r[d], biases, functions, size,
        peepholes=None if p is None else p[d],
        clip=node.attr("clip") or 0.0,
        coupled=node.flag("input_forget"),
        reset_after=node.flag("linear_before_reset"),
    )  # fmt: skip


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
