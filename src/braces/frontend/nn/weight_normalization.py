"""Weights that are brought to a size before they are used.

`br.fc(x, br.spectral_norm(w), bias=b)` divides those of a layer.
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
from braces.frontend.control.block import composed
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.parameters import Parameters, Weight, fixed_size, is_given, to_make
from braces.frontend.losses.reduction import along_axis
from braces.ops.common.rules import axis_index


@building
def spectral_norm(
    w: Any,
    *,
    axis: int = 0,
    iterations: int = 1,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Weights divided by their largest singular value, which power iteration finds.

        out = w / |m' u|       m: w as a matrix, `axis` by all others

    The direction u is a state. In training it moves first, u <- m m' u / |m m' u|, which
    `prog.for_test()` does not. Gradients go through m alone.
    Source: Miyato, Kataoka, Koyama, Yoshida, Spectral Normalization for Generative Adversarial
    Networks, 2018.

    Args:
        w: float[*shape], of two axes or more.
        axis: The axis of outputs, which others are a matrix with: 0 for weights of `br.conv2d`;
            of known size.
        iterations: How many times u moves in a run.
        name: The layer's name; its state is `name.u`.
        params: A name for the state, `[u]`, which is shared where it exists and moved once.

    Returns:
        As `w`.

    Raises:
        ShapeError: There is one axis or none, or none such.
        DTypeError: `w` is not made of floats.
        ProgramError: There are no iterations, or it is built in an inner block, which runs many
            times or never.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", ["b", 8]), br.parameter("w", [8, 4])
        ...     y = br.fc(x, br.spectral_norm(w, name="sn"))
        >>> y.type, [var.name for var in prog.persistables]
        (f32[b,4], ['w', 'sn.u'])
    """
    what = "spectral_norm"
    w, program = check_floats(what, w), current_program()
    _check_iterations(w, iterations)
    if not program.current.runs_once:
        raise ProgramError(
            "spectral_norm cannot move its state in an inner block.",
            given=f"{w.name}: {w.type}",
            fix="Divide the weights before the loop or branch, and use the result in it.",
        )
    at = axis_index(axis, w.ndim, what)
    made = Parameters(what, name, params, (), ("u",))
    state = made.state("u", [fixed_size(w, at, what)], w.dtype, initializers.normal(1.0))

    def built() -> Var:
        matrix = ops.reshape(ops.moveaxis(w, at, 0), (w.shape[at], -1))
        still = ops.stop_gradient(matrix)
        before = moved = ops.l2_normalize(state)
        for _ in range(iterations):
            moved = _along(_along(moved, still), ops.matrix_transpose(still))
        if state.name not in program.updates:
            program.update(state.name, moved)
        u = ops.in_training(before, moved)
        largest = ops.sum(u * ops.matmul(matrix, _along(u, still)))
        return w / largest

    return composed(name or what, built)


def _check_iterations(w: Var, iterations: Any) -> None:
    if w.ndim < 2:
        raise ShapeError(
            "spectral_norm takes weights of two axes or more.", given=f"{w.name}: {w.type}"
        )
    if not isinstance(iterations, int) or iterations < 1:
        raise ProgramError(f"spectral_norm cannot move {iterations!r:.40} times.")


def _along(vector: Var, matrix: Var) -> Var:
    """The direction of a product."""
    return ops.l2_normalize(ops.matmul(vector, matrix))


@building
def weight_norm(
    w: Any,
    scale: Weight = None,
    *,
    axis: int | None,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Weights as directions times lengths, which are learned apart.

        out = scale * w / |w|       |w|: the length over all axes but `axis`

    The first scale is the length that `w` has then, so that `out` is `w` before any step.
    Source: Salimans, Kingma, Weight Normalization, 2016.

    Args:
        w: float[*shape]; a parameter, where the scale is made.
        scale: The scale itself, [size of `axis`] or []; or whether one is made, which it is
            where nothing is said.
        axis: The axis of outputs, each of which has a length: -1 for weights of `br.fc`, 0 for
            those of `br.conv2d`; `None` is one length for all.
        name: The layer's name; its parameter is `name.scale`.
        params: A name for the parameter, `[scale]`; it is shared where it exists.

    Returns:
        As `w`.

    Raises:
        ShapeError: There is no such axis, or the scale has another size.
        DTypeError: `w` is not made of floats.
        ProgramError: `w` is no parameter, and a scale is to be made.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", ["b", 8]), br.parameter("w", [8, 4])
        ...     y = br.fc(x, br.weight_norm(w, axis=-1, name="wn"))
        >>> y.type, [var.name for var in prog.parameters]
        (f32[b,4], ['w', 'wn.scale'])
    """
    what = "weight_norm"
    w = check_floats(what, w)
    at = None if axis is None else axis_index(axis, w.ndim, what)
    others = tuple(one for one in range(w.ndim) if one != at)
    made = Parameters(what, name, params, to_make({"scale": scale}))
    sizes = [] if at is None else [fixed_size(w, at, what)]
    own = made.get("scale", sizes, w.dtype, partial(_first_length, w.name, others))
    given = scale if is_given(scale) else own

    def built() -> Var:
        unit = ops.l2_normalize(w, axis=others)
        if given is None:
            return unit
        return unit * (given if at is None else along_axis(as_var(given), at, w.ndim))

    return composed(name or what, built)


def _first_length(
    weight: str, axes: tuple[int, ...], shape: tuple[int, ...], dtype: DType, name: str
) -> Var:
    """The length of the first value of some weights, in a startup program."""
    del shape, dtype
    startup = current_program()
    if weight not in startup.updates:
        raise ProgramError(
            f"weight_norm makes `{name}` for a parameter, and `{weight}` is none.",
            fix="Give br.parameter(...), or the scale itself: br.weight_norm(w, s, axis=0).",
        )
    return ops.norm(named_var(startup, startup.updates[weight]), axis=axes)
