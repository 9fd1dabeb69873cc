"""Rules of LSTM, GRU and RNN: counted loops over cells of ordinary operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from braces.builder.var import Var
from braces.exchange.onnx_in.node import Node, Rule
from braces.exchange.onnx_in.rules import arithmetic
from braces.frontend import functions as ops
from braces.frontend.rnn import create_rnn

Function = Callable[[Var], Var]


def affine(x: Var, alpha: float, beta: float) -> Var:
    """A line."""
    return alpha * x + beta


def scaled_tanh(x: Var, alpha: float, beta: float) -> Var:
    """tanh, stretched both ways."""
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
    "thresholdedrelu": (arithmetic.thresholded, (1.0,)),
}
"""What gates go through, and the numbers that each takes where none are said."""


@dataclass(frozen=True)
class Cell:
    """One direction of a layer.

    Attributes:
        node: The layer.
        w: Of the input, `[gates * H, D]`.
        r: Of the memory, `[gates * H, H]`.
        b: Of both, one after the other, `[2 * gates * H]`.
        p: The peepholes of an LSTM, `[3 * H]`.
        functions: What gates go through.
        size: H.
    """

    node: Node
    w: Var
    r: Var
    b: Var | None
    p: Var | None
    functions: Sequence[Function]
    size: int

    def part(self, x: Var, at: int, count: int = 1) -> Var:
        """The rows of one gate, or several."""
        return x[at * self.size : (at + count) * self.size]

    def gates(self, x: Var, h: Var, at: int, count: int) -> list[Var]:
        """Products of input and memory with the weights of some gates, with what is added."""
        both = ops.matmul(x, ops.transpose(self.part(self.w, at, count))) + ops.matmul(
            h, ops.transpose(self.part(self.r, at, count))
        )
        for bias in (self.bias(at, count), self.bias(at + self.of_memory, count)):
            both = both if bias is None else both + bias
        return ops.split(both, sections=count, axis=-1)

    @property
    def of_memory(self) -> int:
        """Where the biases of the memory begin, in gates."""
        gates = self.w.shape[0]
        assert isinstance(gates, int)
        return gates // self.size

    def bias(self, at: int, count: int = 1) -> Var | None:
        """What is added for some gates."""
        return None if self.b is None else self.part(self.b, at, count)

    def bounded(self, x: Var) -> Var:
        """A gate before its function, cut off where the layer says so."""
        bound = self.node.attr("clip")
        return ops.clip(x, min=-bound, max=bound) if bound else x


Step = Callable[[Cell, Var, Sequence[Var]], "list[Var]"]
"""From a cell, a slice of the input and the memories to the next memories, the output first."""


def lstm_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Input, output and forget gates, and what is remembered; with peepholes or without."""
    h, c = memories
    i, o, f, g = cell.gates(x, h, 0, 4)
    first, second, third = cell.functions
    if cell.p is not None:
        i, f = i + cell.part(cell.p, 0) * c, f + cell.part(cell.p, 2) * c
    i, g = first(cell.bounded(i)), second(cell.bounded(g))
    f = 1.0 - i if cell.node.flag("input_forget") else first(cell.bounded(f))
    after = f * c + i * g
    if cell.p is not None:
        o = o + cell.part(cell.p, 1) * after
    return [first(cell.bounded(o)) * third(after), after]


def gru_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Update and reset gates; the reset comes before or after the product with the memory."""
    (h,) = memories
    first, second = cell.functions
    z, r = (first(cell.bounded(gate)) for gate in cell.gates(x, h, 0, 2))
    w, u = ops.transpose(cell.part(cell.w, 2)), ops.transpose(cell.part(cell.r, 2))
    given, added = plus(ops.matmul(x, w), cell.bias(2)), cell.bias(2 + cell.of_memory)
    if cell.node.flag("linear_before_reset"):
        new = given + r * plus(ops.matmul(h, u), added)
    else:
        new = given + plus(ops.matmul(r * h, u), added)
    return [(1.0 - z) * second(cell.bounded(new)) + z * h]


def rnn_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """One gate."""
    (gate,) = cell.gates(x, memories[0], 0, 1)
    return [cell.functions[0](cell.bounded(gate))]


def plus(x: Var, bias: Var | None) -> Var:
    """A sum, where there is something to add."""
    return x if bias is None else x + bias


DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def functions_of(node: Node, directions: int) -> list[list[Function]]:
    """What gates go through, by direction."""
    names = node.texts("activations") or DEFAULTS[node.type] * directions
    alphas, betas = (list(node.attr(f"activation_{w}", [])) for w in ("alpha", "beta"))
    made = list[Function]()
    for name in names:
        function, numbers = ACTIVATIONS.get(name.lower()) or _unknown(node, name)
        given = [(n.pop(0) if n else d) for n, d in zip((alphas, betas), numbers)]  # noqa: B905
        made.append(partial(_with, function, given))
    per = len(made) // directions
    return [made[i * per : (i + 1) * per] for i in range(directions)]


def _unknown(node: Node, name: str) -> Any:
    node.refuse(f"has an activation `{name:.40}`, which is not one of {', '.join(ACTIVATIONS)}")


def _with(function: Callable[..., Var], numbers: Sequence[float], x: Var) -> Var:
    return function(x, *numbers)


def layer(step: Step, memories: int, node: Node) -> tuple[Var, ...]:
    """A layer of one or two directions: all outputs, and the last memories."""
    x, batch_first = node.var(0), node.flag("layout")
    x = ops.swapaxes(x, 0, 1) if batch_first else x
    w, r, b = node.var(1), node.var(2), node.maybe(3)
    p = node.maybe(7) if memories == 2 else None
    way = node.attr("direction", "forward")
    directions = 2 if way == "bidirectional" else 1
    functions = functions_of(node, directions)
    runs = list[tuple[Var, list[Var]]]()
    for d in range(directions):
        cell = Cell(
            node, w[d], r[d], None if b is None else b[d], None if p is None else p[d],
            functions[d], size=int(r.shape[2]) if isinstance(r.shape[2], int) else 0,
        )  # fmt: skip
        start = [_start(node, 5 + k, d, x, cell, batch_first) for k in range(memories)]
        runs.append(_run(cell, step, x, start, back=way == "reverse" or d == 1))
    outputs = ops.stack([made for made, _ in runs], axis=1)
    last = [ops.stack(list(ends)) for ends in zip(*(ends for _, ends in runs), strict=True)]
    if batch_first:
        outputs = ops.transpose(outputs, (2, 0, 1, 3))
        last = [ops.swapaxes(end, 0, 1) for end in last]
    return (outputs, *last)


def _start(node: Node, at: int, d: int, x: Var, cell: Cell, batch_first: bool) -> Var:
    given = node.maybe(at)
    if given is None:
        return ops.broadcast_to(ops.zeros_like(cell.r[0]), (x.shape[1], cell.size))
    return (ops.swapaxes(given, 0, 1) if batch_first else given)[d]


def _run(
    cell: Cell, step: Step, x: Var, start: Sequence[Var], *, back: bool
) -> tuple[Var, list[Var]]:
    lengths = cell.node.maybe(4)
    options: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    rnn = create_rnn(reverse=back, **options)
    with rnn.stepnet() as net:
        given = net.add_input(x)
        memories = [net.add_memory(init=value) for value in start]
        after = step(cell, given, memories)
        for memory, value in zip(memories, after, strict=True):
            memory.update(value)
        net.add_output(after[0])
    return rnn(), [rnn.final(memory) for memory in memories]


RECURRENT: Mapping[str, Rule] = {
    "GRU": partial(layer, gru_step, 1),
    "LSTM": partial(layer, lstm_step, 2),
    "RNN": partial(layer, rnn_step, 1),
}
