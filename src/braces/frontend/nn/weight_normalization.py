"""Reparameterized weights: spectral normalization and weight normalization.

`br.fc(x, br.layers.spectral_norm(w), bias=b)` normalizes the weights of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.var import Var, named_var
from braces.dtypes import DType
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.parameters import (
    LayerParameters,
    Weight,
    fixed_size,
    is_given,
    roles_to_create,
)
from braces.frontend.losses.reduction import broadcast_along
from braces.ops.common.rules import axis_index


@transactional
def spectral_norm(
    w: Any,
    *,
    axis: int = 0,
    iterations: int = 1,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Spectral normalization: weights divided by their largest singular value.

        out = w / |m' u|       m: w as a matrix, `axis` by all others

    The singular value is estimated by power iteration. The direction u is a state. In training
    it is updated first, u <- m m' u / |m m' u|; `prog.for_test()` does not update it. Gradients
    flow through m alone. Source: Miyato, Kataoka, Koyama, Yoshida, Spectral Normalization for
    Generative Adversarial Networks, 2018.

    Args:
        w: float[*shape], of two axes or more.
        axis: The output axis, the rows of the matrix: 0 for weights of `br.conv2d`; its size is
            not symbolic.
        iterations: Number of power iterations per run.
        name: The layer's name; its state is `name.u`.
        params: Name of the state, `[u]`; an existing one is shared, and updated once per run.

    Returns:
        As `w`.

    Raises:
        ShapeError: If the rank of `w` is below 2, or `axis` is out of range.
        DTypeError: If `w` is not of a floating dtype.
        ProgramError: If `iterations` is below 1, or it is built in an inner block, which runs
            many times or never.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", ["b", 8]), br.parameter("w", [8, 4])
        ...     y = br.fc(x, br.layers.spectral_norm(w, name="sn"))
        >>> y.type, [var.name for var in prog.persistables]
        (f32[b,4], ['w', 'sn.u'])
    """
    what = "spectral_norm"
    w, program = check_floats(what, w), current_program()
    _check_iterations(w, iterations)
    if not program.current.runs_once:
        raise ProgramError(
            "spectral_norm cannot update its state in an inner block.",
            given=f"{w.name}: {w.type}",
            fix="Apply spectral_norm before the loop or branch, and use its result inside.",
        )
    index = axis_index(axis, w.ndim, what)
    layer_params = LayerParameters(what, name, params, (), ("u",))
    state = layer_params.state(
        "u", [fixed_size(w, index, what)], w.dtype, initializers.normal(1.0)
    )

    def build() -> Var:
        matrix = ops.reshape(ops.moveaxis(w, index, 0), (w.shape[index], -1))
        constant_matrix = ops.stop_gradient(matrix)
        initial = direction = ops.l2_normalize(state)
        for _ in range(iterations):
            direction = _along(
                _along(direction, constant_matrix), ops.matrix_transpose(constant_matrix)
            )
        if state.name not in program.updates:
            program.update(state.name, direction)
        u = ops.in_training(initial, direction)
        largest = ops.sum(u * ops.matmul(matrix, _along(u, constant_matrix)))
        return w / largest

    return compose_block(name or what, build)


def _check_iterations(w: Var, iterations: Any) -> None:
    if w.ndim < 2:
        raise ShapeError(
            "spectral_norm: expected weights of rank 2 or more.", given=f"{w.name}: {w.type}"
        )
    if not isinstance(iterations, int) or iterations < 1:
        raise ProgramError(
            f"spectral_norm: expected at least one iteration, got {iterations!r:.40}."
        )


def _along(vector: Var, matrix: Var) -> Var:
    """Return the direction of a product."""
    return ops.l2_normalize(ops.matmul(vector, matrix))


@transactional
def weight_norm(
    w: Any,
    scale: Weight = None,
    *,
    axis: int | None,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Weight normalization: weights as directions times lengths, learned separately.

        out = scale * w / |w|       |w|: the length over all axes but `axis`

    A created scale is initialized with the length of `w`, so that `out` is `w` before the first
    step. Source: Salimans, Kingma, Weight Normalization, 2016.

    Args:
        w: float[*shape]; a parameter, if the scale is created.
        scale: The scale itself, [size of `axis`] or []; or whether to create one (the default).
        axis: The output axis, each element of which has a length: -1 for weights of `br.fc`, 0
            for those of `br.conv2d`; `None` is one length for all.
        name: The layer's name; its parameter is `name.scale`.
        params: Name of the parameter, `[scale]`; an existing one is shared.

    Returns:
        As `w`.

    Raises:
        ShapeError: If the axis is out of range, or the size of the scale differs.
        DTypeError: If `w` is not of a floating dtype.
        ProgramError: If `scale` is missing and `w` is not a parameter.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", ["b", 8]), br.parameter("w", [8, 4])
        ...     y = br.fc(x, br.layers.weight_norm(w, axis=-1, name="wn"))
        >>> y.type, [var.name for var in prog.parameters]
        (f32[b,4], ['w', 'wn.scale'])
    """
    what = "weight_norm"
    w = check_floats(what, w)
    index = None if axis is None else axis_index(axis, w.ndim, what)
    others = tuple(other for other in range(w.ndim) if other != index)
    layer_params = LayerParameters(what, name, params, roles_to_create({"scale": scale}))
    sizes = [] if index is None else [fixed_size(w, index, what)]
    created = layer_params.get("scale", sizes, w.dtype, partial(_first_length, w.name, others))
    scale_value = scale if is_given(scale) else created

    def build() -> Var:
        unit = ops.l2_normalize(w, axis=others)
        if scale_value is None:
            return unit
        return unit * (
            scale_value
            if index is None
            else broadcast_along(as_var(scale_value), index, w.ndim)
        )

    return compose_block(name or what, build)


def _first_length(
    weight: str, axes: tuple[int, ...], shape: tuple[int, ...], dtype: DType, name: str
) -> Var:
    """Return the initial length of weights, in a startup program."""
    del shape, dtype
    startup = current_program()
    if weight not in startup.updates:
        raise ProgramError(
            f"weight_norm creates `{name}` only for a parameter, got `{weight}`.",
            fix="Pass br.parameter(...), or the scale: br.layers.weight_norm(w, s, axis=0).",
        )
    return ops.norm(named_var(startup, startup.updates[weight]), axis=axes)
