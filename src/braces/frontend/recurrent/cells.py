"""Cells: one step of a recurrent net, to be written in the step of a loop.

    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(shape=[64], batch_like=x, batch_axis=1)
        h.update(br.gru_cell(net.add_input(x), h, name="enc"))
        net.add_output(h.next)

A cell is a few lines of the step that it stands in, and no block of its own. `br.lstm` and its
like are whole layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import (
    Activation,
    Parameters,
    Weight,
    fixed_size,
    is_given,
    to_make,
)
from braces.frontend.recurrent.cell_parts import (
    GRU,
    LSTM,
    SIMPLE,
    Inits,
    Kind,
    as_list,
    check_state,
    gru_step,
    lstm_step,
    made_weights,
    simple_step,
)


def _cell(
    kind: Kind,
    x: Any,
    state: Any,
    said: dict[str, Weight],
    name: str | None,
    params: Sequence[str] | None,
    inits: Inits,
) -> tuple[Var, list[Var], list[Var | None], str]:
    """The input, the memories, the weights and the name of a cell that is written by itself."""
    what = f"{kind.name}_cell"
    x = check_floats(what, x)
    several = as_list(state) if len(kind.memories) > 1 else []
    size = fixed_size(as_var(several[0] if several else state, x.dtype), -1, what)
    memories = check_state(what, kind, state, (*x.shape[:-1], size), x.dtype)
    made = Parameters(what, name, params, to_make(said))
    return x, memories, made_weights(kind, made, said, x, size, inits), made.name


@building
def lstm_cell(
    x: Any,
    state: Any,
    w: Weight = None,
    u: Weight = None,
    b: Weight = None,
    *,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
) -> tuple[Var, Var]:
    """One step of an LSTM; Hochreiter and Schmidhuber, 1997, with a forget gate.

        i, f, g, o = split(x @ w + h @ u + b, 4)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Args:
        x: [rows, features], the input of this step.
        state: (h, c), each [rows, size]: memories of a loop.
        w: The weight of the input itself, [features, 4 * size]; or whether one is made. Where
            none of the three is given, all are made.
        u: That of the memory, [size, 4 * size].
        b: The bias, [4 * size]; False for none.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`.
        params: Names for the parameters that are made, `[w, u, b]`; those that exist
            are shared.
        init: The first value of w; Glorot's uniform where nothing is said.
        recurrent_init: That of u; orthogonal where nothing is said.
        bias_init: That of b; 1 for the forget gate and 0 for others where nothing is said.

    Returns:
        (h', c'); h' is named `name`.

    Raises:
        ShapeError: Sizes do not fit, or are symbolic where parameters depend on them.
        DTypeError: The input is not made of floats, or the state has another dtype.
        DuplicateNameError: There is a cell of this name already.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["t", "batch", 8])
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         h, c = (
        ...             net.add_memory(shape=[16], batch_like=x, batch_axis=1) for _ in range(2)
        ...         )
        ...         next_h, next_c = br.lstm_cell(net.add_input(x), (h, c), name="enc")
        ...         h.update(next_h)
        ...         c.update(next_c)
        ...         net.add_output(next_h)
        ...     print(rnn().type, [p.name for p in prog.parameters])
        f32[t,batch,16] ['enc.w', 'enc.u', 'enc.b']
    """
    said: dict[str, Weight] = {"w": w, "u": u, "b": b}
    inits = Inits(init, recurrent_init, bias_init)
    h, c = lstm_step(*_cell(LSTM, x, state, said, name, params, inits))
    return h, c


@building
def gru_cell(
    x: Any,
    h: Any,
    w: Weight = None,
    u: Weight = None,
    b: Weight = None,
    b_reset: Weight = None,
    *,
    reset_after: bool = True,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
) -> Var:
    """One step of a GRU; Cho et al., 2014.

        r, z, n = split(x @ w + b, 3)        hr, hz, hn = split(h @ u, 3)
        r, z = sigmoid(r + hr), sigmoid(z + hz)
        n = tanh(n + r * (hn + b_reset))
        h' = (1 - z) * n + z * h

    Args:
        x: [rows, features], the input of this step.
        h: [rows, size], a memory of a loop.
        w: The weight of the input itself, [features, 3 * size]; or whether one is made. Where
            none of the four is given, all are made.
        u: That of the memory, [size, 3 * size].
        b: The bias, [3 * size]; False for none.
        b_reset: The bias that the reset gate scales, [size]; there is none without `b`, nor
            where `reset_after` is False.
        reset_after: Whether the product with the memory is reset; where it is False, the memory
            itself is, before the product.
        name: The cell's name; its parameters are `name.w`, `name.u`, `name.b`, `name.b_reset`.
        params: Names for the parameters that are made, `[w, u, b, b_reset]`; those that exist
            are shared.
        init: The first value of w; Glorot's uniform where nothing is said.
        recurrent_init: That of u; orthogonal where nothing is said.
        bias_init: That of b; 0 where nothing is said.

    Returns:
        h', named `name`.

    Raises:
        ShapeError: Sizes do not fit, or are symbolic where parameters depend on them.
        DTypeError: The input is not made of floats, or the memory has another dtype.
        DuplicateNameError: There is a cell of this name already.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, h = br.data("x", ["batch", 8]), br.data("h", ["batch", 16])
        ...     print(br.gru_cell(x, h, name="enc"))
        <Var enc: f32[batch,16]>
    """
    said = gru_weights(w, u, b, b_reset, reset_after)
    inits = Inits(init, recurrent_init, bias_init)
    cell = _cell(GRU, x, h, said, name, params, inits)
    return gru_step(*cell, reset_after=reset_after)[0]


def gru_weights(
    w: Weight, u: Weight, b: Weight, b_reset: Weight, reset_after: bool
) -> dict[str, Weight]:
    """What is said of the weights of a GRU, without a second bias where it has no place.

    Raises:
        ProgramError: There is one, and it has no place.
    """
    if not reset_after and (b_reset is True or is_given(b_reset)):
        raise ProgramError(
            "gru_cell has no use for b_reset where reset_after=False.",
            fix="It is added to the product that is reset; leave one of both away.",
        )
    alone = not reset_after or (b is False and b_reset is None)
    return {"w": w, "u": u, "b": b, "b_reset": False if alone else b_reset}


@building
def simple_rnn_cell(
    x: Any,
    h: Any,
    w: Weight = None,
    u: Weight = None,
    b: Weight = None,
    *,
    act: Activation = "tanh",
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    recurrent_init: Initializer | Any = None,
    bias_init: Initializer | Any = None,
) -> Var:
    """One step of a plain recurrent net; Elman, 1990.

        h' = act(x @ w + h @ u + b)

    Args:
        x: [rows, features], the input of this step.
        h: [rows, size], a memory of a loop.
        w: The weight of the input itself, [features, size]; or whether one is made. Where none
            of the three is given, all are made.
        u: That of the memory, [size, size].
        b: The bias, [size]; False for none.
        act: The name of an operator, as "relu", or a function.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`.
        params: Names for the parameters that are made, `[w, u, b]`; those that exist
            are shared.
        init: The first value of w; Glorot's uniform where nothing is said.
        recurrent_init: That of u; orthogonal where nothing is said.
        bias_init: That of b; 0 where nothing is said.

    Returns:
        h', named `name`.

    Raises:
        ShapeError: Sizes do not fit, or are symbolic where parameters depend on them.
        DTypeError: The input is not made of floats, or the memory has another dtype.
        DuplicateNameError: There is a cell of this name already.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, h = br.data("x", ["batch", 8]), br.data("h", ["batch", 16])
        ...     print(br.simple_rnn_cell(x, h, act="relu", name="enc"))
        <Var enc: f32[batch,16]>
    """
    said: dict[str, Weight] = {"w": w, "u": u, "b": b}
    inits = Inits(init, recurrent_init, bias_init)
    cell = _cell(SIMPLE, x, h, said, name, params, inits)
    return simple_step(*cell, act=act)[0]
