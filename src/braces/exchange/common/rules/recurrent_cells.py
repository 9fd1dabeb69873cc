"""Recurrent layers as other systems define them: counted loops over cells of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from braces.builder.var import Var
from braces.dims import Size
from braces.frontend.core import functions as ops
from braces.frontend.recurrent.cell_parts import run_cell as run_steps

Function = Callable[[Var], Var]


@dataclass(frozen=True)
class Cell:
    """One direction of a layer.

    Attributes:
        order: A letter for each gate, in the order of the rows of weights: `i`, `o`, `f` and
            `g` of an LSTM; `r`, `z` and last `n` of a GRU.
        w: Of the input, `[gates * H, D]`; `None` where the input is that product already.
        r: Of the memory, `[gates * H, H]`.
        biases: What is added to the product of the input, and to that of the memory.
        functions: What gates go through.
        size: H.
        peepholes: Of the gates `i`, `o` and `f`, `[3 * H]`.
        projection: What an LSTM's output is multiplied with, `[P, H]`.
        clip: Gates are cut off at it; 0 for none.
        coupled: Whether an LSTM forgets as much as it does not take in.
        reset_after: Whether a GRU resets the product with the memory, not the memory.
        update_keeps: Whether the update gate of a GRU says how much stays, not how much is new.
    """

    order: str
    w: Var | None
    r: Var
    biases: tuple[Var, Var] | None
    functions: Sequence[Function]
    size: int
    peepholes: Var | None = None
    projection: Var | None = None
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = True
    update_keeps: bool = True

    def part(self, x: Var, at: int, count: int = 1) -> Var:
        """The rows of one gate, or several."""
        return x[at * self.size : (at + count) * self.size]

    def gates(self, x: Var, h: Var, count: int) -> dict[str, Var]:
        """The first gates by letter: products of input and memory with their weights."""
        both = self.given(x, 0, count) + ops.matmul(
            h, ops.transpose(self.part(self.r, 0, count))
        )
        for bias in self.biases or ():
            both = both + self.part(bias, 0, count)
        return dict(zip(self.order, ops.split(both, sections=count, axis=-1), strict=False))

    def given(self, x: Var, at: int, count: int = 1) -> Var:
        """What the input adds to one gate, or several."""
        if self.w is None:
            return x[:, at * self.size : (at + count) * self.size]
        return ops.matmul(x, ops.transpose(self.part(self.w, at, count)))

    def bounded(self, x: Var) -> Var:
        """A gate before its function, cut off where the layer says so."""
        return ops.clip(x, min=-self.clip, max=self.clip) if self.clip else x


Step = Callable[[Cell, Var, Sequence[Var]], "list[Var]"]
"""From a cell, a slice of the input and the memories to the next memories, the output first."""


def lstm_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """Input, output and forget gates, and what is remembered; with peepholes or without."""
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
    """Update and reset gates; the reset comes before or after the product with the memory."""
    (h,) = memories
    first, second = cell.functions
    gates = cell.gates(x, h, 2)
    z, r = (first(cell.bounded(gates[letter])) for letter in "zr")
    u = ops.transpose(cell.part(cell.r, 2))
    given, added = (None, None) if cell.biases is None else cell.biases
    new = plus(cell.given(x, 2), given, cell)
    if cell.reset_after:
        new = new + r * plus(ops.matmul(h, u), added, cell)
    else:
        new = new + plus(ops.matmul(r * h, u), added, cell)
    new = second(cell.bounded(new))
    return [(1.0 - z) * new + z * h if cell.update_keeps else z * new + (1.0 - z) * h]


def rnn_step(cell: Cell, x: Var, memories: Sequence[Var]) -> list[Var]:
    """One gate."""
    (gate,) = cell.gates(x, memories[0], 1).values()
    return [cell.functions[0](cell.bounded(gate))]


def plus(x: Var, bias: Var | None, cell: Cell) -> Var:
    """A product of the third gate and its bias, where there is one."""
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
    """A loop over the first axis of the input: all outputs, and the last memories."""
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
    """A loop over the first axis of the input: of the first memories all, and the last ones."""
    return run_steps(
        partial(step, cell), x, start, back=back, lengths=lengths, collected=collected
    )


def zeros(like: Var, batch: Size, size: int) -> Var:
    """A memory that starts with zeros, in the dtype of the weights."""
    return ops.broadcast_to(ops.zeros_like(like[0, 0]), (batch, size))


def cells_of(
    order: str, functions: Sequence[Function], weights: Sequence[Var], biased: bool, count: int
) -> list[Cell]:
    """The cells of all layers and directions, from weights one after the other."""
    each, made = len(weights) // count, list[Cell]()
    for at in range(0, len(weights), each):
        w, r, *rest = weights[at : at + each]
        rows = w.shape[0]
        assert isinstance(rows, int), "weights have numbers as sizes"
        biases = (rest[0], rest[1]) if biased else None
        projection = rest[-1] if len(rest) % 2 else None
        cell = Cell(order, w, r, biases, functions, rows // len(order), projection=projection)
        made.append(cell)
    return made
