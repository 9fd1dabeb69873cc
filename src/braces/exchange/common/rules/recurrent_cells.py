"""Recurrent layers as other systems define them: counted loops over cells of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.layers import run_cell as run_steps
from braces.extend.types import Size

Function = Callable[[Var], Var]


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer.

    Attributes:
        order: A letter for each gate, in the order of the rows of weights: `i`, `o`, `f` and
            `g` of an LSTM; `r`, `z` and last `n` of a GRU.
        w: The input weights, `[gates * H, D]`; `None` if the input is that product already.
        r: The recurrent weights, `[gates * H, H]`.
        biases: The biases of the input product and of the recurrent product; a first one of
            `None` is in the input product already.
        functions: The activations of the gates.
        size: H.
        peepholes: The peephole weights of the gates `i`, `o` and `f`, `[3 * H]`.
        projection: The projection of an LSTM's output, `[P, H]`.
        clip: The bound to which gates are clipped; 0 for none.
        coupled: Whether the forget gate of an LSTM is one minus its input gate.
        reset_after: Whether the reset gate of a GRU applies to the recurrent product rather
            than to the memory.
        update_keeps: Whether the update gate of a GRU weighs the old memory rather than the new
            one.
    """

    order: str
    w: Var | None
    r: Var
    biases: tuple[Var | None, Var] | None
    functions: Sequence[Function]
    size: int
    peepholes: Var | None = None
    projection: Var | None = None
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = True
    update_keeps: bool = True

    def part(self, x: Var, at: int, count: int = 1) -> Var:
        """Return the rows of one gate, or several."""
        return x[at * self.size : (at + count) * self.size]

    def gates(self, x: Var, h: Var, count: int) -> dict[str, Var]:
        """Return the first gates by letter: input and memory times their weights."""
        both = self.input_product(x, 0, count) + self.recurrent_product(h, count)
        for bias in self.biases or ():
            both = both if bias is None else both + self.part(bias, 0, count)
        return dict(zip(self.order, ops.split(both, sections=count, axis=-1), strict=False))

    def recurrent_product(self, h: Var, count: int) -> Var:
        """Return the product of the memory and the weights of the first gates."""
        return ops.matmul(h, ops.transpose(self.part(self.r, 0, count)))

    def with_product(self, x: Var) -> tuple[Cell, Var]:
        """Multiply all steps of an input by the input weights, before the loop over the steps.

        The bias of the recurrent product stays in the loop, as in the recurrences of PyTorch:
        its values can be compared with theirs.

        Args:
            x: [steps, batch, D].

        Returns:
            The cell that takes the product, and the product.
        """
        product = x if self.w is None else ops.matmul(x, ops.transpose(self.w))
        if self.biases is None:
            return replace(self, w=None), product
        first, second = self.biases
        product = product if first is None else product + first
        return replace(self, w=None, biases=(None, second)), product

    def input_product(self, x: Var, at: int, count: int = 1) -> Var:
        """Return the input product of one gate, or several."""
        if self.w is None:
            return x[:, at * self.size : (at + count) * self.size]
        return ops.matmul(x, ops.transpose(self.part(self.w, at, count)))

    def bounded(self, x: Var) -> Var:
        """Clip a gate before its activation, if the layer has a bound."""
        return ops.clip(x, min=-self.clip, max=self.clip) if self.clip else x


Step = Callable[[Cell, Var, Sequence[Var]], "list[Var]"]
"""Maps a cell, a slice of the input and the memories to the next memories, the output first."""


def lstm_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Compute one LSTM step, with peepholes or without."""
    h, c = memories
    gates = cell.gates(x, h, 4)
    i, o, f, g = (gates[letter] for letter in "iofg")
    first, second, third = cell.functions
    if cell.peepholes is not None:
        i, f = i + cell.part(cell.peepholes, 0) * c, f + cell.part(cell.peepholes, 2) * c
    i, g = first(cell.bounded(i)), second(cell.bounded(g))
    f = 1.0 - i if cell.coupled else first(cell.bounded(f))
    after = f * c + i * g
    if cell.peepholes is not None:
        o = o + cell.part(cell.peepholes, 1) * after
    out = first(cell.bounded(o)) * third(after)
    if cell.projection is not None:
        out = ops.matmul(out, ops.transpose(cell.projection))
    return [out, after]


def gru_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Compute one GRU step, with the reset before or after the recurrent product."""
    (h,) = memories
    first, second = cell.functions
    gates = cell.gates(x, h, 2)
    z, r = (first(cell.bounded(gates[letter])) for letter in "zr")
    u = ops.transpose(cell.part(cell.r, 2))
    input_bias, recurrent_bias = (None, None) if cell.biases is None else cell.biases
    new = add_bias(cell.input_product(x, 2), input_bias, cell)
    if cell.reset_after:
        new = new + r * add_bias(ops.matmul(h, u), recurrent_bias, cell)
    else:
        new = new + add_bias(ops.matmul(r * h, u), recurrent_bias, cell)
    new = second(cell.bounded(new))
    return [(1.0 - z) * new + z * h if cell.update_keeps else z * new + (1.0 - z) * h]


def rnn_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Compute one step of a simple RNN."""
    (gate,) = cell.gates(x, memories[0], 1).values()
    return [cell.functions[0](cell.bounded(gate))]


def add_bias(x: Var, bias: Var | None, cell: Cell) -> Var:
    """Add the bias of the third gate, if there is one."""
    return x if bias is None else x + cell.part(bias, 2)


def run_cell(
    cell: Cell,
    step: Step,
    x: Var,
    start: Sequence[Var],
    *,
    back: bool,
    lengths: Var | None = None,
) -> tuple[Var, list[Var]]:
    """Loop over the first axis of the input; return all outputs and the last memories."""
    (out, *_), last = run_memories(cell, step, x, start, back=back, lengths=lengths)
    return out, last


def run_memories(
    cell: Cell,
    step: Step,
    x: Var,
    start: Sequence[Var],
    *,
    back: bool,
    lengths: Var | None = None,
    collected: int = 1,
) -> tuple[list[Var], list[Var]]:
    """Loop over the first axis of the input; return stacked memories and the last ones."""
    cell, x = cell.with_product(x)
    return run_steps(
        partial(step, cell), x, start, back=back, lengths=lengths, collected=collected
    )


def zero_memory(like: Var, batch: Size, size: int) -> Var:
    """Return a zero memory in the dtype of the weights."""
    return ops.broadcast_to(ops.zeros_like(like[0, 0]), (batch, size))


def build_cells(
    order: str, functions: Sequence[Function], weights: Sequence[Var], biased: bool, count: int
) -> list[Cell]:
    """Build the cells of all layers and directions from a flat list of weights."""
    weights_per_cell, cells = len(weights) // count, list[Cell]()
    for at in range(0, len(weights), weights_per_cell):
        w, r, *extra_weights = weights[at : at + weights_per_cell]
        rows = w.shape[0]
        assert isinstance(rows, int), "symbolic size of a weight"
        biases = (extra_weights[0], extra_weights[1]) if biased else None
        projection = extra_weights[-1] if len(extra_weights) % 2 else None
        cell = Cell(order, w, r, biases, functions, rows // len(order), projection=projection)
        cells.append(cell)
    return cells
