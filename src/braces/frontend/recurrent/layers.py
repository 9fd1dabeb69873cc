"""Recurrent layers: cells scanned over the steps of a sequence, in one direction or both.

    out, (h, c) = br.lstm(x, 64, layers=2, bidirectional=True, lengths=n, name="enc")

A layer is a plain block with its name. Its cells have the parameters `enc/forward.w`, `.u` and
`.b`, with a number if there are several layers: `enc/forward_0.w`, `enc/backward_0.w`, ….
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dims import Shape
from braces.dtypes import Extent, named_size
from braces.errors import ProgramError
from braces.frontend.control.block import compose_block, mark_layer_block
from braces.frontend.control.sequence_lengths import check_floats, check_row_lengths, time_axis
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, LayerParameters, Weight, roles_to_create
from braces.frontend.nn.dropout_noise import dropout as drop
from braces.frontend.recurrent.cell_parts import (
    GRU,
    LSTM,
    SIMPLE,
    CellInitializers,
    CellKind,
    Step,
    check_state,
    gru_step,
    lstm_step,
    make_weights,
    run_cell,
    simple_step,
)
from braces.frontend.recurrent.cells import gru_weights

Arithmetic = Callable[..., Sequence[Var]]


@dataclass(frozen=True)
class CellStack:
    """Stacked cells of one kind, in one or both directions.

    Attributes:
        kind: Properties of the cell.
        step: Its arithmetic.
        size: The size of a memory.
        said: The weights of each cell, as given by the user.
        inits: The initializers.
        layers: Number of stacked layers.
        bidirectional: Whether each layer runs in both directions.
        dropout: The dropout rate between layers.
    """

    kind: CellKind
    step: Arithmetic
    size: int
    said: dict[str, Weight]
    inits: CellInitializers
    layers: int
    bidirectional: bool
    dropout: float
    ends: list[Sequence[Var]] = field(default_factory=list[Sequence[Var]])

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.layers * (1 + self.bidirectional)

    def build(
        self, name: str | None, x: Any, state: Any, lengths: Any, axis: int
    ) -> tuple[Var, list[Var]]:
        """Append the block; return the outputs and the final state."""
        what = self.kind.name
        self._check(what)
        x = check_floats(what, x)
        steps_index = time_axis(what, x, axis)
        rows = (*x.shape[:steps_index], *x.shape[steps_index + 1 : -1])
        row_counts = None if lengths is None else check_row_lengths(what, x, rows, lengths)

        def build() -> tuple[Var, list[Var]]:
            starts = self._starts(state, rows, x)
            scanned = (
                emit("moveaxis", x, source=steps_index, destination=0) if steps_index else x
            )
            outputs = self._run(scanned, starts, row_counts)
            out = (
                emit("moveaxis", outputs, source=0, destination=steps_index)
                if steps_index
                else outputs
            )
            return out, [
                self._stack_finals(list(ends)) for ends in zip(*self.ends, strict=True)
            ]

        return compose_block(what if name is None else name, build)

    def _check(self, what: str) -> None:
        for role, count in (("size", self.size), ("layers", self.layers)):
            if count < 1:
                raise ProgramError(f"{what}: expected {role} of at least 1, got {count}.")

    def _starts(self, state: Any, rows: Shape, x: Var) -> list[Sequence[Var]]:
        """Return the initial memories of each cell."""
        shape = (*rows, self.size)
        if state is None:
            zeros = emit("full", shape=shape, value=0.0, dtype=x.dtype)
            return [[zeros] * len(self.kind.memories)] * self.count
        state_shape = shape if self.count == 1 else (self.count, *shape)
        parts = check_state(self.kind.name, self.kind, state, state_shape, x.dtype)
        if self.count == 1:
            return [parts]
        return [[memory[index] for memory in parts] for index in range(self.count)]

    def _run(self, x: Var, starts: Sequence[Sequence[Var]], lengths: Var | None) -> Var:
        """Run all cells over the first axis of the input."""
        for layer in range(self.layers):
            if layer and self.dropout:
                x = drop(x, self.dropout)
            outputs = list[Var]()
            for direction in ("forward", "backward")[: 1 + self.bidirectional]:
                start = starts[len(self.ends)]
                name = direction if self.layers == 1 else f"{direction}_{layer}"
                weights = LayerParameters(
                    self.kind.name, name, None, roles_to_create(self.said)
                )
                step = self._step_of(weights, x)
                back = direction == "backward"
                (out,), last = run_cell(step, x, start, back=back, lengths=lengths)
                outputs.append(out)
                self.ends.append(last)
            x = outputs[0] if len(outputs) == 1 else ops.concat(outputs, axis=-1)
        return x

    def _step_of(self, parameters: LayerParameters, x: Var) -> Step:
        weights = make_weights(self.kind, parameters, self.said, x, self.size, self.inits)
        return partial(self.step, weights=weights)

    def _stack_finals(self, ends: list[Var]) -> Var:
        """Stack a final memory of all cells."""
        return ends[0] if len(ends) == 1 else ops.stack(ends, axis=0)


# ---- layers ----------------------------------------------------------------------------------


@transactional
@mark_layer_block
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
        size: The size of h and c in each direction; optionally with a name, `("hidden", 64)`,
            see `parameter`.
        layers: Number of stacked layers, each on the outputs of the previous one.
        bidirectional: Whether a second cell runs from the last step to the first; both outputs
            are concatenated.
        lengths: integer[rows], the number of steps of each batch element. Later steps affect no
            value and no gradient; their outputs are 0, and the state stays unchanged.
        state: (h, c) before the first step, each [rows, size]; zeros by default. With several
            layers or both directions, each is [layers * directions, rows, size], with the
            directions of a layer adjacent.
        dropout: The dropout rate between layers; `for_test` drops nothing.
        axis: The axis of steps; the features are on the last one.
        bias: Whether cells have a bias.
        init: Initializer of the input weights; Glorot uniform by default.
        recurrent_init: Initializer of the recurrent weights; orthogonal by default.
        bias_init: Initializer of the bias; by default 1 for the forget gate and 0 for the
            others.
        name: The name of the block. A cell has the parameters `name/forward.w`,
            `name/forward.u` and `name/forward.b`, a backward one `name/backward.w` and so on;
            with several layers `name/forward_0.w`, ….

    Returns:
        (outputs, (h, c)): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`. In both directions `br.concat([h[0], h[1]],
        axis=-1)` joins the final states, as [rows, 2 * size].

    Raises:
        ShapeError: If lengths or state have a different batch size or shape, or the feature
            size is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        ProgramError: If a size or a number of layers is not positive.

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
    weights: dict[str, Weight] = {"w": True, "u": True, "b": bias}
    inits = CellInitializers(init, recurrent_init, bias_init)
    stack = CellStack(
        LSTM, lstm_step, named_size(size), weights, inits, layers, bidirectional, dropout
    )
    out, (h, c) = stack.build(name, x, state, lengths, axis)
    return out, (h, c)


@transactional
@mark_layer_block
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
        size: The size of h in each direction; optionally with a name, `("hidden", 64)`, see
            `parameter`.
        layers: As for `br.lstm`; likewise `bidirectional`, `lengths`, `dropout`, `axis` and
            `bias`.
        bidirectional: See `br.lstm`.
        lengths: See `br.lstm`.
        state: h before the first step, [rows, size]; zeros by default. With several layers or
            both directions, [layers * directions, rows, size].
        dropout: See `br.lstm`.
        axis: See `br.lstm`.
        bias: See `br.lstm`.
        reset_after: Whether the reset gate applies after the product with the memory; if False,
            it applies to the memory before the product.
        init: Initializer of the input weights; Glorot uniform by default.
        recurrent_init: Initializer of the recurrent weights; orthogonal by default.
        bias_init: Initializer of the bias; 0 by default.
        name: The name of the block. A cell has the parameters `name/forward.w`,
            `name/forward.u`, `name/forward.b` and, with `reset_after`, `name/forward.b_reset`.

    Returns:
        (outputs, h): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`. In both directions `br.concat([h[0], h[1]],
        axis=-1)` joins the final states, as [rows, 2 * size].

    Raises:
        ShapeError: If lengths or state have a different batch size or shape, or the feature
            size is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        ProgramError: If a size or a number of layers is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     out, h = br.gru(br.data("x", ["t", "batch", 8]), 16, layers=2, axis=0)
        ...     print(out.type, h.type)
        f32[t,batch,16] f32[2,batch,16]

        Both directions, with the concatenated final states:

        >>> with br.Program():
        ...     out, h = br.gru(br.data("x", ["batch", "t", 8]), 16, bidirectional=True)
        ...     both = br.concat([h[0], h[1]], axis=-1)
        ...     print(out.type, h.type, both.type)
        f32[batch,t,32] f32[2,batch,16] f32[batch,32]
    """
    weights = gru_weights(True, True, bias, None, reset_after)
    step = partial(gru_step, reset_after=reset_after)
    inits = CellInitializers(init, recurrent_init, bias_init)
    stack = CellStack(
        GRU, step, named_size(size), weights, inits, layers, bidirectional, dropout
    )
    out, (h,) = stack.build(name, x, state, lengths, axis)
    return out, h


@transactional
@mark_layer_block
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
        size: The size of h in each direction; optionally with a name, `("hidden", 64)`, see
            `parameter`.
        layers: As for `br.lstm`; likewise `bidirectional`, `lengths`, `dropout`, `axis` and
            `bias`.
        bidirectional: See `br.lstm`.
        lengths: See `br.lstm`.
        state: h before the first step, [rows, size]; zeros by default. With several layers or
            both directions, [layers * directions, rows, size].
        dropout: See `br.lstm`.
        axis: See `br.lstm`.
        bias: See `br.lstm`.
        act: The activation: the name of an operator, as "relu", or a function.
        init: Initializer of the input weights; Glorot uniform by default.
        recurrent_init: Initializer of the recurrent weights; orthogonal by default.
        bias_init: Initializer of the bias; 0 by default.
        name: The name of the block. A cell has the parameters `name/forward.w`,
            `name/forward.u` and `name/forward.b`.

    Returns:
        (outputs, h): [rows, steps, size], twice the size in both directions, and the state
        after the last step, shaped as `state`. In both directions `br.concat([h[0], h[1]],
        axis=-1)` joins the final states, as [rows, 2 * size].

    Raises:
        ShapeError: If lengths or state have a different batch size or shape, or the feature
            size is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        ProgramError: If a size or a number of layers is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", "t", 8])
        ...     out, h = br.layers.simple_rnn(x, 16, act="relu")
        ...     print(out.type, h.type)
        f32[batch,t,16] f32[batch,16]
    """
    weights: dict[str, Weight] = {"w": True, "u": True, "b": bias}
    step = partial(simple_step, act=act)
    inits = CellInitializers(init, recurrent_init, bias_init)
    stack = CellStack(
        SIMPLE, step, named_size(size), weights, inits, layers, bidirectional, dropout
    )
    out, (h,) = stack.build(name, x, state, lengths, axis)
    return out, h
