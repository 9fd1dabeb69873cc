"""Recurrent layers of images: an LSTM with convolutions as products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block, mark_layer_block
from braces.frontend.control.sequence_lengths import check_floats, check_row_lengths, time_axis
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import LayerParameters, fixed_size
from braces.frontend.nn.conv import conv2d
from braces.frontend.recurrent.cell_parts import (
    LSTM,
    CellInitializers,
    Memories,
    as_list,
    check_state,
    lstm_memories,
    run_cell,
)


@dataclass(frozen=True)
class ConvLstmCell:
    """Convolutional LSTM cell.

    Attributes:
        made: The names of its parameters.
        window: The window sizes.
        layout: The order of axes.
        size: Number of channels of a memory.
        inits: The initializers of the parameters.
    """

    made: LayerParameters
    window: Any
    layout: str
    size: int
    inits: CellInitializers

    def step(self, x: Var, memories: Memories, name: str = "") -> list[Var]:
        """LSTM arithmetic: input, forget, new and output gates, in this order."""
        h, c = memories
        gates = self._gates(x, ["w"], self.inits.w) + self._gates(h, ["u", "b"], self.inits.u)
        return lstm_memories(gates, c, name, axis=self.layout.index("C"))

    def _gates(self, x: Var, roles: list[str], init: Any) -> Var:
        """Return the contribution of the input or the memory to all gates."""
        first = self.inits.b if self.inits.b is not None else LSTM.first_bias(self.size)
        names = [self.made.names[role] for role in roles if role in self.made.names]
        return conv2d(
            *(x, LSTM.gates * self.size, self.window),
            padding="same",
            layout=self.layout,
            params=names,
            bias=len(names) > 1,
            init=init,
            bias_init=first,
        )


def _parameters(what: str, name: str | None, params: Any, bias: bool) -> LayerParameters:
    """Return the names of the parameters.

    Raises:
        DuplicateNameError: If a name is already in use.
    """
    parameters = LayerParameters(what, name, params, ["w", "u", *(["b"] if bias else [])])
    for role in parameters.names:
        parameters.find(role)
    return parameters


def _check_layout(what: str, x: Var, layout: str, rank: int) -> None:
    if layout not in ("NCHW", "NHWC"):
        raise ProgramError(f"unknown layout {layout!r} of {what}.", fix='Use "NCHW" or "NHWC".')
    if x.ndim != rank:
        raise ShapeError(
            f"{what}: expected an input of rank {rank}, got {x.ndim}.",
            given=f"{x.name}: {x.type}   layout={layout}",
            fix="Pass [rows, steps, *image] to a layer, [rows, *image] to a cell.",
        )


@transactional
def conv_lstm_cell(
    x: Any,
    state: Any,
    window: int | Sequence[int],
    *,
    layout: str = "NCHW",
    bias: bool = True,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
) -> tuple[Var, Var]:
    """One step of a convolutional LSTM; Shi et al., 2015, without peepholes.

        i, f, g, o = split(conv2d(x, w) + conv2d(h, u) + b, 4)        along channels
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Images are padded with zeros, so that their sizes stay.

    Args:
        x: [rows, channels, height, width], the input of this step; see `layout`.
        state: (h, c), each [rows, size, height, width]: memories of a loop.
        window: The window sizes, or one for both axes.
        layout: `"NCHW"` or `"NHWC"`.
        bias: Whether to use a bias.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`, like those of
            a `br.conv2d` with 4 * size filters.
        params: Names of the parameters, `[w, u, b]`; existing ones are shared.
        init: Initializer of w; Glorot uniform by default.
        recurrent_init: Initializer of u, likewise.
        bias_init: Initializer of b; by default 1 for the forget gate and 0 for the others.

    Returns:
        (h', c'); h' is named `name`.

    Raises:
        ShapeError: If sizes do not match, or the number of channels is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        DuplicateNameError: If a cell of this name exists already.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 3, 8, 8])
        ...     h, c = (br.data(name, ["batch", 16, 8, 8]) for name in "hc")
        ...     h, c = br.layers.conv_lstm_cell(x, (h, c), 3, name="enc")
        >>> h.type, prog.parameters[0].type
        (f32[batch,16,8,8], f32[64,3,3,3])
    """
    what = "conv_lstm_cell"
    x = check_floats(what, x)
    _check_layout(what, x, layout, 4)
    channel_axis, parts = layout.index("C"), as_list(state)
    size = fixed_size(as_var(parts[0], x.dtype), channel_axis, what) if parts else 0
    shape = (*x.shape[:channel_axis], size, *x.shape[channel_axis + 1 :])
    memories = check_state(what, LSTM, state, shape, x.dtype)
    parameters = _parameters(what, name, params, bias)
    inits = CellInitializers(init, recurrent_init, bias_init)
    h, c = ConvLstmCell(parameters, window, layout, size, inits).step(
        x, memories, parameters.name
    )
    return h, c


@transactional
@mark_layer_block
def conv_lstm(
    x: Any,
    size: int,
    window: int | Sequence[int],
    *,
    layout: str = "NCHW",
    lengths: Any = None,
    state: Any = None,
    reverse: bool = False,
    axis: int = 1,
    bias: bool = True,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
    name: str | None = None,
) -> tuple[Var, tuple[Var, Var]]:
    """A convolutional LSTM over sequences of images; Shi et al., 2015, without peepholes.

        h[t], c[t] = conv_lstm_cell(x[t], (h[t-1], c[t-1]))        t = 0 … T-1

    Args:
        x: [rows, steps, channels, height, width]; see `layout` and `axis`.
        size: Number of channels of h and c.
        window: The window sizes, or one for both axes.
        layout: The layout of the images of one step: `"NCHW"` or `"NHWC"`.
        lengths: integer[rows], the number of steps of each batch element. Later steps affect no
            value and no gradient; their outputs are 0, and the state stays unchanged.
        state: (h, c) before the first step, each [rows, size, height, width]; zeros by default.
        reverse: Whether to run from the last step to the first; outputs keep their positions.
        axis: The axis of steps.
        bias: Whether to use a bias.
        init: Initializer of w; Glorot uniform by default.
        recurrent_init: Initializer of u, likewise.
        bias_init: Initializer of b; by default 1 for the forget gate and 0 for the others.
        name: The name of the block; the parameters are `name/cell.w`, `name/cell.u` and
            `name/cell.b`.

    Returns:
        (outputs, (h, c)): [rows, steps, size, height, width], and the state after the last
        step.

    Raises:
        ShapeError: If lengths or state have a different batch size or shape, or the channels
            are symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        ProgramError: If the layout is unknown, or the size is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     out, (h, c) = br.layers.conv_lstm(br.data("x", ["b", "t", 3, 8, 8]), 16, 3)
        ...     print(out.type, h.type)
        f32[b,t,16,8,8] f32[b,16,8,8]
    """
    what = "conv_lstm"
    x = check_floats(what, x)
    _check_layout(what, x, layout, 5)
    if size < 1:
        raise ProgramError(f"{what}: expected a size of at least 1, got size={size}.")
    steps_index, channels = time_axis(what, x, axis), layout.index("C")
    picture = (*x.shape[:steps_index], *x.shape[steps_index + 1 :])
    row_counts = None if lengths is None else check_row_lengths(what, x, picture, lengths)
    shape = (*picture[:channels], size, *picture[channels + 1 :])
    inits = CellInitializers(init, recurrent_init, bias_init)

    def build() -> tuple[Var, Sequence[Var]]:
        zeros = emit("full", shape=shape, value=0.0, dtype=x.dtype)
        initial = (zeros, zeros) if state is None else state
        start = check_state(what, LSTM, initial, shape, x.dtype)
        cell = ConvLstmCell(_parameters(what, "cell", None, bias), window, layout, size, inits)
        steps = emit("moveaxis", x, source=steps_index, destination=0) if steps_index else x
        (out,), last = run_cell(cell.step, steps, start, back=reverse, lengths=row_counts)
        return emit(
            "moveaxis", out, source=0, destination=steps_index
        ) if steps_index else out, last

    out, (h, c) = compose_block(what if name is None else name, build)
    return out, (h, c)
