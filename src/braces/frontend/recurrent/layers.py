"""Recurrent layers: cells that run over the steps of a sequence, in one direction or both.

    out, (h, c) = br.lstm(x, 64, layers=2, bidirectional=True, lengths=n, name="enc")

A layer is a plain block of its name. Its cells have the parameters `enc/forward.w`, `.u` and
`.b`, with a number where there are several: `enc/forward_0.w`, `enc/backward_0.w`, ….
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Shape
from braces.dtypes import Extent, named_size
from braces.errors import ProgramError
from braces.frontend.control.block import composed, layer_block
from braces.frontend.control.sequence_lengths import check_floats, row_lengths, steps_axis
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, Parameters, Weight, to_make
from braces.frontend.random import dropout as drop
from braces.frontend.recurrent.cell_parts import (
    GRU,
    LSTM,
    SIMPLE,
    Inits,
    Kind,
    Step,
    check_state,
    gru_step,
    lstm_step,
    made_weights,
    run_cell,
    simple_step,
)
from braces.frontend.recurrent.cells import gru_weights

Arithmetic = Callable[..., Sequence[Var]]


@dataclass(frozen=True)
class Stack:
    """Cells of one kind, one after the other and in both directions.

    Attributes:
        kind: What a cell needs.
        step: Its arithmetic.
        size: Of a memory.
        said: What is said of the weights of each cell.
        inits: Their first values.
        layers: How many cells follow each other.
        bidirectional: Whether each of them runs in both directions.
        dropout: The rate of dropping between them.
    """

    kind: Kind
    step: Arithmetic
    size: int
    said: dict[str, Weight]
    inits: Inits
    layers: int
    bidirectional: bool
    dropout: float
    ends: list[Sequence[Var]] = field(default_factory=list[Sequence[Var]])

    @property
    def count(self) -> int:
        """How many cells there are."""
        return self.layers * (1 + self.bidirectional)

    def build(
        self, name: str | None, x: Any, state: Any, lengths: Any, axis: int
    ) -> tuple[Var, list[Var]]:
        """The outputs and the state after the last step, in a block."""
        what = self.kind.name
        self._check(what)
        x = check_floats(what, x)
        at = steps_axis(what, x, axis)
        rows = (*x.shape[:at], *x.shape[at + 1 : -1])
        counted = None if lengths is None else row_lengths(what, x, rows, lengths)

        def build() -> tuple[Var, list[Var]]:
            starts = self._starts(state, rows, x)
            given = one("moveaxis", x, source=at, destination=0) if at else x
            made = self._run(given, starts, counted)
            out = one("moveaxis", made, source=0, destination=at) if at else made
            return out, [self._joined(list(ends)) for ends in zip(*self.ends, strict=True)]

        return composed(what if name is None else name, build)

    def _check(self, what: str) -> None:
        for role, count in (("size", self.size), ("layers", self.layers)):
            if count < 1:
                raise ProgramError(f"{what} cannot have {role}={count}; it must be 1 or more.")

    def _starts(self, state: Any, rows: Shape, x: Var) -> list[Sequence[Var]]:
        """The memories of each cell before the first step."""
        shape = (*rows, self.size)
        if state is None:
            zeros = one("full", shape=shape, value=0.0, dtype=x.dtype)
            return [[zeros] * len(self.kind.memories)] * self.count
        whole = shape if self.count == 1 else (self.count, *shape)
        given = check_state(self.kind.name, self.kind, state, whole, x.dtype)
        if self.count == 1:
            return [given]
        return [[memory[at] for memory in given] for at in range(self.count)]

    def _run(self, x: Var, starts: Sequence[Sequence[Var]], lengths: Var | None) -> Var:
        """All cells, over the first axis of the input."""
        for layer in range(self.layers):
            if layer and self.dropout:
                x = drop(x, self.dropout)
            made = list[Var]()
            for way in ("forward", "backward")[: 1 + self.bidirectional]:
                start = starts[len(self.ends)]
                name = way if self.layers == 1 else f"{way}_{layer}"
                weights = Parameters(self.kind.name, name, None, to_make(self.said))
                step = self._step_of(weights, x)
                back = way == "backward"
                (out,), last = run_cell(step, x, start, back=back, lengths=lengths)
                made.append(out)
                self.ends.append(last)
            x = made[0] if len(made) == 1 else ops.concat(made, axis=-1)
        return x

    def _step_of(self, made: Parameters, x: Var) -> Step:
        weights = made_weights(self.kind, made, self.said, x, self.size, self.inits)
        return partial(self.step, weights=weights)

    def _joined(self, ends: list[Var]) -> Var:
        """One memory of all cells after the last step."""
        return ends[0] if len(ends) == 1 else ops.stack(ends, axis=0)


# ---- layers ----------------------------------------------------------------------------------


@building
@layer_block
def lstm(
    x: Any,
    size: Extent,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Any = None,
    state: Any = None,
    dropout: float = 0.0,
    axis: int = 1,
    bias: bool = True,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
    name: str | None = None,
) -> tuple[Var, tuple[Var, Var]]:
    """An LSTM over the steps of a sequence; Hochreiter and Schmidhuber, 1997.

        h[t], c[t] = lstm_cell(x[t], (h[t-1], c[t-1]))        t = 0 … T-1

    Args:
        x: [rows, steps, features]; see `axis`.
        size: Of h and c, in each direction; a name may stand beside it, `("hidden", 64)`, see
            `parameter`.
        layers: How many follow each other, each on the outputs of the one before.
        bidirectional: Whether a second cell goes from the last step to the first; outputs of
            both are joined.
        lengths: integer[rows], how many steps each row has. What comes after reaches no value
            and no gradient; outputs there are 0, and the state stays as it was.
        state: (h, c) before the first step, each [rows, size]; zeros where nothing is said.
            With several layers or both directions each is [layers * directions, rows, size],
            the directions of a layer next to each other.
        dropout: The rate of dropping between layers; `for_test` drops nothing.
        axis: That of the steps; the features are the last one.
        bias: Whether cells have one.
        init: The first value of weights of the input; Glorot's uniform where nothing is said.
        recurrent_init: Those of the memory; orthogonal where nothing is said.
        bias_init: Those of the bias; 1 for the forget gate and 0 for others where nothing is
            said.
        name: That of the block. A cell has the parameters `name/forward.w`, `name/forward.u`
            and `name/forward.b`, one backwards `name/backward.w` and so on; of several layers
            `name/forward_0.w`, ….

    Returns:
        (outputs, (h, c)): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`.

    Raises:
        ShapeError: Lengths or a state have other rows or sizes; the features are symbolic.
        DTypeError: The input is not made of floats, or the state has another dtype.
        ProgramError: A size or a number of layers is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, n = br.data("x", ["batch", "t", 8]), br.data("n", ["batch"], dtype="int32")
        ...     out, (h, c) = br.lstm(x, 16, bidirectional=True, lengths=n, name="enc")
        >>> out.type, h.type
        (f32[batch,t,32], f32[2,batch,16])
        >>> [p.name for p in prog.parameters][:4]
        ['enc/forward.w', 'enc/forward.u', 'enc/forward.b', 'enc/backward.w']
    """
    said: dict[str, Weight] = {"w": True, "u": True, "b": bias}
    inits = Inits(init, recurrent_init, bias_init)
    stack = Stack(
        LSTM, lstm_step, named_size(size), said, inits, layers, bidirectional, dropout
    )
    out, (h, c) = stack.build(name, x, state, lengths, axis)
    return out, (h, c)


@building
@layer_block
def gru(
    x: Any,
    size: Extent,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Any = None,
    state: Any = None,
    dropout: float = 0.0,
    axis: int = 1,
    bias: bool = True,
    reset_after: bool = True,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
    name: str | None = None,
) -> tuple[Var, Var]:
    """A GRU over the steps of a sequence; Cho et al., 2014.

        h[t] = gru_cell(x[t], h[t-1])        t = 0 … T-1

    Args:
        x: [rows, steps, features]; see `axis`.
        size: Of h, in each direction; a name may stand beside it, `("hidden", 64)`, see
            `parameter`.
        layers: As in `br.lstm`, and so are `bidirectional`, `lengths`, `dropout`, `axis` and
            `bias`.
        bidirectional: See there.
        lengths: See there.
        state: h before the first step, [rows, size]; zeros where nothing is said. With several
            layers or both directions [layers * directions, rows, size].
        dropout: See there.
        axis: See there.
        bias: See there.
        reset_after: Whether the product with the memory is reset; where it is False, the memory
            itself is, before the product.
        init: The first value of weights of the input; Glorot's uniform where nothing is said.
        recurrent_init: Those of the memory; orthogonal where nothing is said.
        bias_init: Those of the bias; 0 where nothing is said.
        name: That of the block. A cell has the parameters `name/forward.w`, `name/forward.u`,
            `name/forward.b` and `name/forward.b_reset`, which is there under `reset_after`.

    Returns:
        (outputs, h): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`.

    Raises:
        ShapeError: Lengths or a state have other rows or sizes; the features are symbolic.
        DTypeError: The input is not made of floats, or the state has another dtype.
        ProgramError: A size or a number of layers is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     out, h = br.gru(br.data("x", ["t", "batch", 8]), 16, layers=2, axis=0)
        ...     print(out.type, h.type)
        f32[t,batch,16] f32[2,batch,16]
    """
    said = gru_weights(True, True, bias, None, reset_after)
    step = partial(gru_step, reset_after=reset_after)
    inits = Inits(init, recurrent_init, bias_init)
    stack = Stack(GRU, step, named_size(size), said, inits, layers, bidirectional, dropout)
    out, (h,) = stack.build(name, x, state, lengths, axis)
    return out, h


@building
@layer_block
def simple_rnn(
    x: Any,
    size: Extent,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Any = None,
    state: Any = None,
    dropout: float = 0.0,
    axis: int = 1,
    bias: bool = True,
    act: Activation = "tanh",
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
    name: str | None = None,
) -> tuple[Var, Var]:
    """A plain recurrent net over the steps of a sequence; Elman, 1990.

        h[t] = act(x[t] @ w + h[t-1] @ u + b)        t = 0 … T-1

    Args:
        x: [rows, steps, features]; see `axis`.
        size: Of h, in each direction; a name may stand beside it, `("hidden", 64)`, see
            `parameter`.
        layers: As in `br.lstm`, and so are `bidirectional`, `lengths`, `dropout`, `axis` and
            `bias`.
        bidirectional: See there.
        lengths: See there.
        state: h before the first step, [rows, size]; zeros where nothing is said. With several
            layers or both directions [layers * directions, rows, size].
        dropout: See there.
        axis: See there.
        bias: See there.
        act: The name of an operator, as "relu", or a function.
        init: The first value of weights of the input; Glorot's uniform where nothing is said.
        recurrent_init: Those of the memory; orthogonal where nothing is said.
        bias_init: Those of the bias; 0 where nothing is said.
        name: That of the block. A cell has the parameters `name/forward.w`, `name/forward.u`
            and `name/forward.b`.

    Returns:
        (outputs, h): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`.

    Raises:
        ShapeError: Lengths or a state have other rows or sizes; the features are symbolic.
        DTypeError: The input is not made of floats, or the state has another dtype.
        ProgramError: A size or a number of layers is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", "t", 8])
        ...     out, h = br.simple_rnn(x, 16, act="relu")
        ...     print(out.type, h.type)
        f32[batch,t,16] f32[batch,16]
    """
    said: dict[str, Weight] = {"w": True, "u": True, "b": bias}
    step = partial(simple_step, act=act)
    inits = Inits(init, recurrent_init, bias_init)
    stack = Stack(SIMPLE, step, named_size(size), said, inits, layers, bidirectional, dropout)
    out, (h,) = stack.build(name, x, state, lengths, axis)
    return out, h
