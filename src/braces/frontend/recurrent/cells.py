"""Recurrent cells: one step of a recurrent net, for use in the step of a loop.

    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(shape=[64], batch_like=x, batch_axis=1)
        h.update(br.layers.gru_cell(net.add_input(x), h, name="enc"))
        net.add_output(h.next)

A cell appends operators to the enclosing step, without a separate block. `br.lstm` and the
like are whole layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import (
    Activation,
    LayerParameters,
    Weight,
    fixed_size,
    is_given,
    roles_to_create,
)
from braces.frontend.recurrent.cell_parts import (
    GRU,
    LSTM,
    SIMPLE,
    CellInitializers,
    CellKind,
    as_list,
    check_state,
    gru_step,
    lstm_step,
    make_weights,
    simple_step,
)


def _prepare_cell(
    kind: CellKind,
    x: Any,
    state: Any,
    weights: dict[str, Weight],
    name: str | None,
    params: Sequence[str] | None,
    inits: CellInitializers,
) -> tuple[Var, list[Var], list[Var | None], str]:
    """Return the input, the memories, the weights and the name of a stand-alone cell."""
    what = f"{kind.name}_cell"
    x = check_floats(what, x)
    parts = as_list(state) if len(kind.memories) > 1 else []
    size = fixed_size(as_var(parts[0] if parts else state, x.dtype), -1, what)
    memories = check_state(what, kind, state, (*x.shape[:-1], size), x.dtype)
    parameters = LayerParameters(what, name, params, roles_to_create(weights))
    return x, memories, make_weights(kind, parameters, weights, x, size, inits), parameters.name


@transactional
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
        w: The input weight itself, [features, 4 * size]; or whether to create one. By default
            all three parameters are created.
        u: The recurrent weight, [size, 4 * size].
        b: The bias, [4 * size]; False for none.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`.
        params: Names of the created parameters, `[w, u, b]`; existing ones are shared.
        init: Initializer of w; Glorot uniform by default.
        recurrent_init: Initializer of u; orthogonal by default.
        bias_init: Initializer of b; by default 1 for the forget gate and 0 for the others.

    Returns:
        (h', c'); h' is named `name`.

    Raises:
        ShapeError: If sizes do not match, or a size of a created parameter is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the state
            differs.
        DuplicateNameError: If a cell of this name exists already.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["t", "batch", 8])
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         h, c = (
        ...             net.add_memory(shape=[16], batch_like=x, batch_axis=1) for _ in range(2)
        ...         )
        ...         next_h, next_c = br.layers.lstm_cell(net.add_input(x), (h, c), name="enc")
        ...         h.update(next_h)
        ...         c.update(next_c)
        ...         net.add_output(next_h)
        ...     print(rnn().type, [p.name for p in prog.parameters])
        f32[t,batch,16] ['enc.w', 'enc.u', 'enc.b']
    """
    weights: dict[str, Weight] = {"w": w, "u": u, "b": b}
    inits = CellInitializers(init, recurrent_init, bias_init)
    h, c = lstm_step(*_prepare_cell(LSTM, x, state, weights, name, params, inits))
    return h, c


@transactional
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
        w: The input weight itself, [features, 3 * size]; or whether to create one. By default
            all four parameters are created.
        u: The recurrent weight, [size, 3 * size].
        b: The bias, [3 * size]; False for none.
        b_reset: The bias scaled by the reset gate, [size]; absent without `b`, or if
            `reset_after` is False.
        reset_after: Whether the reset gate applies after the product with the memory; if False,
            it applies to the memory before the product.
        name: The cell's name; its parameters are `name.w`, `name.u`, `name.b`, `name.b_reset`.
        params: Names of the created parameters, `[w, u, b, b_reset]`; existing ones are shared.
        init: Initializer of w; Glorot uniform by default.
        recurrent_init: Initializer of u; orthogonal by default.
        bias_init: Initializer of b; 0 by default.

    Returns:
        h', named `name`.

    Raises:
        ShapeError: If sizes do not match, or a size of a created parameter is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the memory
            differs.
        DuplicateNameError: If a cell of this name exists already.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, h = br.data("x", ["batch", 8]), br.data("h", ["batch", 16])
        ...     print(br.layers.gru_cell(x, h, name="enc"))
        <Var enc: f32[batch,16]>
    """
    weights = gru_weights(w, u, b, b_reset, reset_after)
    inits = CellInitializers(init, recurrent_init, bias_init)
    cell = _prepare_cell(GRU, x, h, weights, name, params, inits)
    return gru_step(*cell, reset_after=reset_after)[0]


def gru_weights(
    w: Weight, u: Weight, b: Weight, b_reset: Weight, reset_after: bool
) -> dict[str, Weight]:
    """Return the weights of a GRU, without a second bias where it does not apply.

    Raises:
        ProgramError: If a second bias is given but not supported.
    """
    if not reset_after and (b_reset is True or is_given(b_reset)):
        raise ProgramError(
            "gru_cell has no b_reset with reset_after=False.",
            fix="Omit b_reset, or use reset_after=True.",
        )
    is_single = not reset_after or (b is False and b_reset is None)
    return {"w": w, "u": u, "b": b, "b_reset": False if is_single else b_reset}


@transactional
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
        w: The input weight itself, [features, size]; or whether to create one. By default all
            three parameters are created.
        u: The recurrent weight, [size, size].
        b: The bias, [size]; False for none.
        act: The activation: the name of an operator, as "relu", or a function.
        name: The cell's name; its parameters are `name.w`, `name.u` and `name.b`.
        params: Names of the created parameters, `[w, u, b]`; existing ones are shared.
        init: Initializer of w; Glorot uniform by default.
        recurrent_init: Initializer of u; orthogonal by default.
        bias_init: Initializer of b; 0 by default.

    Returns:
        h', named `name`.

    Raises:
        ShapeError: If sizes do not match, or a size of a created parameter is symbolic.
        DTypeError: If the dtype of the input is not a floating dtype, or that of the memory
            differs.
        DuplicateNameError: If a cell of this name exists already.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x, h = br.data("x", ["batch", 8]), br.data("h", ["batch", 16])
        ...     print(br.layers.simple_rnn_cell(x, h, act="relu", name="enc"))
        <Var enc: f32[batch,16]>
    """
    weights: dict[str, Weight] = {"w": w, "u": u, "b": b}
    inits = CellInitializers(init, recurrent_init, bias_init)
    cell = _prepare_cell(SIMPLE, x, h, weights, name, params, inits)
    return simple_step(*cell, act=act)[0]
