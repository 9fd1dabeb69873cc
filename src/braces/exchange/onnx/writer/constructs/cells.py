"""Standard recurrent cells, recognized in symbolic values of a step.

    LSTM    c' = f * c + i * g          h' = o * act(c')
    GRU     h' = n + z * (h - n)        n = act(x @ w + b + r * (h @ u + b'))
    RNN     h' = act(x @ w + h @ u + b)

Products and sums may have their operands in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braces.exchange.onnx.writer.constructs.step_forms import (
    Apply,
    CarriedState,
    Columns,
    Form,
    Gate,
    Input,
    Number,
)

ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
"""Activations of gates, with their names in ONNX."""


@dataclass(frozen=True)
class GateWeights:
    """The weights of one gate.

    Attributes:
        w: The columns of the input weights.
        r: The columns of the recurrent weights.
        biases: The biases.
        inner: Biases of the recurrent product, before the reset gate of a GRU; `None` if a bias
            may be of either product.
    """

    w: Columns
    r: Columns
    biases: tuple[Columns, ...]
    inner: tuple[Columns, ...] | None = None


@dataclass(frozen=True)
class StandardCell:
    """A cell that ONNX has.

    Attributes:
        kind: The ONNX operator.
        gates: The weights of its gates, in the order of ONNX.
        activations: Their activations, in the order of ONNX.
        reset_after: Whether the reset gate of a GRU applies to the recurrent product.
    """

    kind: str
    gates: tuple[GateWeights, ...]
    activations: tuple[str, ...]
    reset_after: bool = False


def find_cell(nexts: Sequence[Form]) -> tuple[StandardCell, int] | None:
    """Return the cell of the next memories, and the position of its output; else `None`."""
    if len(nexts) == 1:
        cell = _gru(nexts[0]) or _rnn(nexts[0])
        return None if cell is None else (cell, 0)
    for at in range(len(nexts)) if len(nexts) == 2 else ():
        cell = _lstm(nexts[at], nexts[1 - at], CarriedState(at), CarriedState(1 - at))
        if cell is not None:
            return cell, at
    return None


def _pairs(form: Form, kind: str) -> Iterator[tuple[Form, Form]]:
    """Yield the operands of a commutative operator, in both orders."""
    if isinstance(form, Apply) and form.kind == kind:
        first, second = form.operands
        yield first, second
        yield second, first


def _activation(form: Form) -> tuple[str, Form] | None:
    """Return the activation and the operand of an activated value."""
    if isinstance(form, Apply) and form.kind in ACTIVATIONS:
        return ACTIVATIONS[form.kind], form.operands[0]
    return None


def _gate(form: Form, factor: Form) -> tuple[str, GateWeights] | None:
    """Return the activation and the weights of a gate of the input and another value."""
    activated = _activation(form)
    if activated is None or not isinstance(activated[1], Gate):
        return None
    weights = _weights(activated[1], activated[1], factor)
    return None if weights is None else (activated[0], weights)


def _weights(
    taken: Gate, recurrent: Gate, factor: Form, inner: bool = False
) -> GateWeights | None:
    """Return the weights of the gates of the input and of another value, maybe one gate."""
    w = [p.columns for p in taken.products if p.factor == Input()]
    r = [p.columns for p in recurrent.products if p.factor == factor]
    products = {*taken.products, *recurrent.products}
    if len(w) != 1 or len(r) != 1 or len(products) != 2:
        return None
    return GateWeights(w[0], r[0], taken.biases, recurrent.biases if inner else None)


def _rnn(h_next: Form) -> StandardCell | None:
    gate = _gate(h_next, CarriedState(0))
    return None if gate is None else StandardCell("RNN", (gate[1],), (gate[0],))


def _lstm(h_next: Form, c_next: Form, h: Form, c: Form) -> StandardCell | None:
    for output, hidden in _pairs(h_next, "multiply"):
        out, squashed = _gate(output, h), _activation(hidden)
        if out is None or squashed is None or squashed[1] != c_next:
            continue
        for kept, added in _pairs(c_next, "add"):
            for (forget, memory), (entry, new) in _products(kept, added):
                f, i, g = (_gate(form, h) for form in (forget, entry, new))
                if memory == c and f and i and g and f[0] == i[0] == out[0]:
                    gates = i[1], out[1], f[1], g[1]
                    return StandardCell("LSTM", gates, (i[0], g[0], squashed[0]))
    return None


def _products(
    first: Form, second: Form
) -> Iterator[tuple[tuple[Form, Form], tuple[Form, Form]]]:
    for pair in _pairs(first, "multiply"):
        yield from ((pair, other) for other in _pairs(second, "multiply"))


def _gru(h_next: Form) -> StandardCell | None:
    h = CarriedState(0)
    for new, update in _blends(h_next, h):
        z, activated = _gate(update, h), _activation(new)
        if z is None or activated is None:
            continue
        for reset, weights, after in _new_gates(activated[1], h):
            r = _gate(reset, h)
            if r is not None and r[0] == z[0]:
                return StandardCell("GRU", (z[1], r[1], weights), (z[0], activated[0]), after)
    return None


def _blends(h_next: Form, h: Form) -> Iterator[tuple[Form, Form]]:
    """Yield the new value and the update gate of `(1 - z) * n + z * h`."""
    for first, second in _pairs(h_next, "add"):
        for z, difference in _pairs(second, "multiply"):
            if difference == Apply("subtract", (h, first)):
                yield first, z
        for (rest, new), (z, memory) in _products(first, second):
            if memory == h and rest == Apply("subtract", (Number(1.0), z)):
                yield new, z


def _new_gates(form: Form, h: Form) -> Iterator[tuple[Form, GateWeights, bool]]:
    """Yield the reset gate and the weights of a new value, and whether it resets after."""
    if isinstance(form, Gate):
        for product in form.products:
            for reset, memory in _pairs(product.factor, "multiply"):
                weights = _weights(form, form, product.factor)
                if memory == h and weights is not None:
                    yield reset, weights, False
    for taken, scaled in _pairs(form, "add"):
        for reset, recurrent in _pairs(scaled, "multiply"):
            if isinstance(taken, Gate) and isinstance(recurrent, Gate):
                weights = _weights(taken, recurrent, h, inner=True)
                if weights is not None:
                    yield reset, weights, True
