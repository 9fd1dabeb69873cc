"""Recurrent layers of pictures: an LSTM whose products are convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braces.builder.append import as_var, one
from braces.builder.var import Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import composed, layer_block
from braces.frontend.control.sequence_lengths import check_floats, row_lengths, steps_axis
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Parameters, fixed_size
from braces.frontend.nn.conv import conv2d
from braces.frontend.recurrent.cell_parts import (
    LSTM,
    Inits,
    Memories,
    as_list,
    check_state,
    lstm_memories,
    run_cell,
)


@dataclass(frozen=True)
class Picture:
    """How a cell convolves.

    Attributes:
        made: What its parameters are called.
        window: The sizes of the window.
        layout: The order of axes.
        size: How many channels a memory has.
        inits: The first values of the parameters.
    """

    made: Parameters
    window: Any
    layout: str
    size: int
    inits: Inits

    def step(self, x: Var, memories: Memories, name: str = "") -> list[Var]:
        """Input, forget, new and output gates, in this order."""
        h, c = memories
        gates = self._gates(x, ["w"], self.inits.w) + self._gates(h, ["u", "b"], self.inits.u)
        return lstm_memories(gates, c, name, axis=self.layout.index("C"))

    def _gates(self, x: Var, roles: list[str], init: Any) -> Var:
        """What the input or the memory adds to all gates."""
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


def _parameters(what: str, name: str | None, params: Any, bias: bool) -> Parameters:
    """The names of parameters.

    Raises:
        DuplicateNameError: One is taken.
    """
    made = Parameters(what, name, params, ["w", "u", *(["b"] if bias else [])])
    for role in made.names:
        made.find(role)
    return made


def _check_layout(what: str, x: Var, layout: str, rank: int) -> None:
    if layout not in ("NCHW", "NHWC"):
        raise ProgramError(
            f"{what} cannot read the layout {layout!r}.", fix='Use "NCHW" or "NHWC".'
        )
    if x.ndim != rank:
        raise ShapeError(
            f"{what} takes pictures of {rank} axes.",
            given=f"{x.name}: {x.type}   layout={layout}",
            fix="A layer takes [rows, steps, *picture], a cell [rows, *picture].",
        )


@building
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
    """One step of an LSTM of pictures; Shi et al., 2015, without peepholes.

        i, f, g, o = split(conv2d(x, w) + conv2d(h, u) + b, 4)        along channels
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Pictures are padded with zeros, so that they keep their sizes.

    Args:
        x: [rows, channels, height, width], the input of this step; see `layout`.
        state: (h, c), each [rows, size, height, width]: memories of a loop.
        window: The sizes of the window, or one for both axes.
        layout: `"NCHW"` or `"NHWC"`.
        bias: Whether there is one.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`, as those of
            a `br.conv2d` of 4 * size filters.
        params: Names for the parameters, `[w, u, b]`; those that exist are shared.
        init: The first value of w; Glorot's uniform where nothing is said.
        recurrent_init: That of u, likewise.
        bias_init: That of b; 1 for the forget gate and 0 for others where nothing is said.

    Returns:
        (h', c'); h' is named `name`.

    Raises:
        ShapeError: Sizes do not fit, or channels are symbolic.
        DTypeError: The input is not made of floats, or the state has another dtype.
        DuplicateNameError: There is a cell of this name already.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 3, 8, 8])
        ...     h, c = (br.data(name, ["batch", 16, 8, 8]) for name in "hc")
        ...     h, c = br.conv_lstm_cell(x, (h, c), 3, name="enc")
        >>> h.type, prog.parameters[0].type
        (f32[batch,16,8,8], f32[64,3,3,3])
    """
    what = "conv_lstm_cell"
    x = check_floats(what, x)
    _check_layout(what, x, layout, 4)
    at, several = layout.index("C"), as_list(state)
    size = fixed_size(as_var(several[0], x.dtype), at, what) if several else 0
    shape = (*x.shape[:at], size, *x.shape[at + 1 :])
    memories = check_state(what, LSTM, state, shape, x.dtype)
    made = _parameters(what, name, params, bias)
    inits = Inits(init, recurrent_init, bias_init)
    h, c = Picture(made, window, layout, size, inits).step(x, memories, made.name)
    return h, c


@building
@layer_block
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
    """An LSTM over the pictures of a sequence; Shi et al., 2015, without peepholes.

        h[t], c[t] = conv_lstm_cell(x[t], (h[t-1], c[t-1]))        t = 0 … T-1

    Args:
        x: [rows, steps, channels, height, width]; see `layout` and `axis`.
        size: How many channels h and c have.
        window: The sizes of the window, or one for both axes.
        layout: That of one picture with its row: `"NCHW"` or `"NHWC"`.
        lengths: integer[rows], how many steps each row has. What comes after reaches no value
            and no gradient; outputs there are 0, and the state stays as it was.
        state: (h, c) before the first step, each [rows, size, height, width]; zeros where
            nothing is said.
        reverse: Go from the last step to the first; outputs keep their positions.
        axis: That of the steps.
        bias: Whether there is one.
        init: The first value of w; Glorot's uniform where nothing is said.
        recurrent_init: That of u, likewise.
        bias_init: That of b; 1 for the forget gate and 0 for others where nothing is said.
        name: That of the block; the parameters are `name/cell.w`, `name/cell.u` and
            `name/cell.b`.

    Returns:
        (outputs, (h, c)): [rows, steps, size, height, width], and the state after the last
        step.

    Raises:
        ShapeError: Lengths or a state have other rows or sizes; channels are symbolic.
        DTypeError: The input is not made of floats, or the state has another dtype.
        ProgramError: The layout is none of the two, or the size is not positive.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     out, (h, c) = br.conv_lstm(br.data("x", ["b", "t", 3, 8, 8]), 16, 3)
        ...     print(out.type, h.type)
        f32[b,t,16,8,8] f32[b,16,8,8]
    """
    what = "conv_lstm"
    x = check_floats(what, x)
    _check_layout(what, x, layout, 5)
    if size < 1:
        raise ProgramError(f"{what} cannot have size={size}; it must be 1 or more.")
    at, channels = steps_axis(what, x, axis), layout.index("C")
    picture = (*x.shape[:at], *x.shape[at + 1 :])
    counted = None if lengths is None else row_lengths(what, x, picture, lengths)
    shape = (*picture[:channels], size, *picture[channels + 1 :])
    inits = Inits(init, recurrent_init, bias_init)

    def build() -> tuple[Var, Sequence[Var]]:
        zeros = one("full", shape=shape, value=0.0, dtype=x.dtype)
        given = (zeros, zeros) if state is None else state
        start = check_state(what, LSTM, given, shape, x.dtype)
        cell = Picture(_parameters(what, "cell", None, bias), window, layout, size, inits)
        steps = one("moveaxis", x, source=at, destination=0) if at else x
        (out,), last = run_cell(cell.step, steps, start, back=reverse, lengths=counted)
        return one("moveaxis", out, source=0, destination=at) if at else out, last

    out, (h, c) = composed(what if name is None else name, build)
    return out, (h, c)
