"""Elementwise selection: where, maximum, minimum, clip."""

from __future__ import annotations

import numpy as np

from braces.builder.append import emit
from braces.builder.scalar_promotion import limits_of
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
    require_tuple,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.completed_doc import described
from braces.define.core.attribute_kinds import Number
from braces.define.core.check_code import encode_offender
from braces.define.decorator import Tensor, Training, op
from braces.dtypes import BOOL, INT64, DType, TensorType, is_integer
from braces.errors import DTypeError, NoMatchError, ProgramError
from braces.lazy import jnp
from braces.ops.common.rules import (
    Backward,
    build_zeros,
    ordered,
    promote,
    promote_arrays,
    refuse,
    sum_to,
)
from braces.ops.elementwise.arithmetic import BINARY, build_where


def where_dtype(what: str, condition: DType, x: DType, y: DType) -> DType:
    """Dtype rule of `where`: the promoted dtype; the condition is bool."""
    if condition != BOOL:
        raise DTypeError(
            f"{what}: expected a bool condition, got {condition}.",
            fix="Compare first: `x != 0`.",
        )
    return promote(x, y)


@op(
    axes="..., ..., ... -> ...",
    dtypes=where_dtype,
    stored=True,
    examples=(
        "condition=bool[2,3] x=f32[2,3] y=f32[2,3]",
        "condition=bool[b,1] x=f32[b,4] y=f32[]",
        "condition=bool[] x=f64[2,3] y=f64[3]",
        "condition=bool[0] x=f32[0] y=f32[0]",
        "condition=bool[3] x=i32[3] y=f32[3]",
    ),
)
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elementwise selection between two arrays.

        out[i] = x[i] if condition[i] else y[i]

    The input that is not selected receives a gradient of zero, for any value.

    Inputs:
        condition: bool[*shape].
        x: any[*shape], broadcast.
        y: any[*shape], broadcast.

    Outputs:
        out: The promoted dtype of `x` and `y`, the common shape of all three.

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If `condition` is not bool.
    """
    return jnp.where(condition, *promote_arrays(x, y))


@where.gradient
def where_gradient(g: Backward) -> dict[str, Var]:
    """The selected input receives the cotangent, the other one zero."""
    zero = build_zeros(TensorType(g.out_grad.dtype, ()))
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = sum_to(emit("where", g["condition"], g.out_grad, zero), g["x"])
    if g.wants("y"):
        grads["y"] = sum_to(emit("where", g["condition"], zero, g.out_grad), g["y"])
    return grads


# ---- training --------------------------------------------------------------------------------


def common_dtype(what: str, x: DType, instead: DType | None, *, training: bool) -> DType:
    """Dtype rule: both inputs have the same dtype."""
    del training
    if instead not in (x, None):
        raise DTypeError(f"{what}: expected inputs of equal dtype, got {x} and {instead}.")
    return x


def one_shape(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: elementwise, of equal shapes."""
    del attrs
    indices = numbered_indices(first_rank(types, "x"))
    return make_axis_map(
        types, {slot: (indices,) for slot in types if slot != "out"}, {"out": (indices,)}
    )


@op(
    axes=one_shape,
    dtypes=common_dtype,
    training_only=("instead",),
    operations=0,
    examples=(
        "x=f32[2,3] instead=f32[2,3]",
        "x=f64[b,4] instead=f64[b,4] training=False",
        "x=i32[3] instead=i32[3]",
        "x=f32[0,2]",
        "x=f32[] training=False",
    ),
)
def in_training(
    x: Tensor, instead: Tensor | None = None, *, training: Training = True
) -> Tensor:
    """The first input in inference, the second in training.

        out = instead in training, if present; else x

    `br.in_training(best, instead=sampled)` samples in training and is greedy in `exe.evaluate`.

    `prog.for_test()` removes `instead`, and the operators that only it depends on. So a layer
    with noise in training is one line: `br.in_training(x, x + br.random.normal(x.shape))`.

    Inputs:
        x: any[*shape].
        instead: any[*shape], of the dtype of `x`.

    Attributes:
        training: Whether to return `instead`; test programs set it to false.

    Outputs:
        out: As `x`.

    Raises:
        ShapeError: If the shapes differ.
        DTypeError: If the dtypes differ.
    """
    return x if instead is None or not training else instead


@in_training.gradient
def in_training_gradient(g: Backward) -> dict[str, Var]:
    """The returned input receives the cotangent, the other one zero."""
    if not g.inputs.get("instead"):
        return {"x": g.out_grad}
    zero = emit("zeros_like", g.out_grad)
    pairs = {"x": (g.out_grad, zero), "instead": (zero, g.out_grad)}
    wanted = {slot: pair for slot, pair in pairs.items() if g.wants(slot)}
    return {slot: emit("in_training", *pair, **g.attrs) for slot, pair in wanted.items()}


# ---- cases -----------------------------------------------------------------------------------


def case_dtype(what: str, index: DType, *, cases: tuple[int, ...], default: bool) -> DType:
    """Dtype rule: int64; the dtype of the index must be able to hold each case."""
    del default
    if not is_integer(index):
        raise DTypeError(f"{what}: expected an integer index, got {index}.")
    info = np.iinfo(index)
    for case in cases:
        if not info.min <= case <= info.max:
            raise DTypeError(
                f"{what}: case {case} is out of range for an index of dtype {index}."
            )
    return INT64


def compared_with_cases(types: Types, attrs: Attrs) -> int:
    """Return the operations per element: a comparison and a selection for each case."""
    del types
    return 2 * len(require_tuple(attrs["cases"]))


@op(
    axes="... -> ...",
    dtypes=case_dtype,
    differentiable=False,
    function=False,
    operations=count_per_element("out", compared_with_cases),
    examples=(
        "index=i32[] cases=(3,-1)",
        "index=u8[b] cases=(0,1,2) default=True",
        "index=i64[0] cases=(5,)",
    ),
)
def case_of(index: Tensor, *, cases: tuple[int, ...], default: bool = False) -> Tensor:
    """The position of an index among the cases of a switch; no gradient.

        out[i] = k where cases[k] == index[i], else len(cases)

    Inputs:
        index: int[*shape].

    Attributes:
        cases: Distinct integers.
        default: Whether an index that equals no case is allowed.

    Outputs:
        out: int64[*shape].

    Raises:
        DTypeError: If the index is not an integer, or its dtype cannot represent a case.
        NoMatchError: If the index equals no case at run time, and there is no default.
    """
    position = jnp.full(index.shape, len(cases), INT64)
    for k, case in enumerate(cases):
        position = jnp.where(index == case, k, position)
    return position


@case_of.checked(
    NoMatchError,
    "No case of the switch matches, and there is no default.",
    fix="Add a default, or a case for it.",
)
def case_of_nothing(index: Tensor, *, cases: tuple[int, ...], default: bool = False) -> Tensor:
    """Run-time check: an index equals no case, and there is no default."""
    position = case_of.kernel(index, cases=cases)
    return encode_offender((position == len(cases)) & (not default), index)


@op(axes="..., ... -> ...", dtypes=ordered, examples=(*BINARY, "x=i64[3] y=i64[3]"))
def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise maximum; NaN if either input is NaN.

        out[i] = max(x[i], y[i])

    Where both are equal, each receives half of the cotangent.
    """
    return jnp.maximum(*promote_arrays(x, y))


@maximum.gradient
def maximum_gradient(g: Backward) -> dict[str, Var]:
    """The larger input receives the cotangent."""
    return to_the_winner(g, "greater")


@op(axes="..., ... -> ...", dtypes=ordered, examples=(*BINARY, "x=i64[3] y=i64[3]"))
def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise minimum; NaN if either input is NaN.

        out[i] = min(x[i], y[i])

    Where both are equal, each receives half of the cotangent.
    """
    return jnp.minimum(*promote_arrays(x, y))


@minimum.gradient
def minimum_gradient(g: Backward) -> dict[str, Var]:
    """The smaller input receives the cotangent."""
    return to_the_winner(g, "less")


def to_the_winner(g: Backward, wins: str) -> dict[str, Var]:
    """Send the cotangent to the input that wins a comparison; on ties, half to each."""
    x, y = g["x"], g["y"]
    shared = build_where(x == y, g.out_grad * 0.5, 0.0)
    sides = {"x": (x, y), "y": (y, x)}
    return {
        slot: sum_to(build_where(emit(wins, mine, other), g.out_grad, shared), mine)
        for slot, (mine, other) in sides.items()
        if g.wants(slot)
    }


@described("real", refuses="If the dtype is bool or complex.")
def clip_dtype(what: str, x: DType, *, min: Number | None, max: Number | None) -> DType:
    """Dtype rule: the dtype of `x`, which must hold both bounds; the bounds are in order."""
    refuse(what, x, "bc")
    if min is not None and max is not None and not min <= max:
        raise ProgramError(f"{what}: min={min} exceeds max={max}.")
    for end in (min, max):
        if end is not None and is_integer(x) and not fits(end, x):
            low, high = limits_of(x)
            raise DTypeError(
                f"{what}: bound {end} is out of range for {x}, from {low} to {high}.",
                fix="Use br.cast(x, 'float32') first.",
            )
    return x


@op(
    axes="... -> ...",
    dtypes=clip_dtype,
    operations=2,
    examples=(
        "x=f32[2,3] min=-0.5 max=0.5",
        "x=f64[b,4] min=0.25",
        "x=i32[5] min=-1 max=2",
        "x=f32[] max=0.0",
        "x=f32[0,2] min=0.0",
    ),
)
def clip(x: Tensor, *, min: Number | None = None, max: Number | None = None) -> Tensor:
    """Numbers clipped to an interval; NaN stays NaN.

        out[i] = min(max(x[i], min), max)

    The gradient passes where x is in the closed interval.

    Attributes:
        min: The lower end; `None` for none.
        max: The upper end; `None` for none.

    Raises:
        ProgramError: If `min` is above `max`.
        DTypeError: If the integer dtype of `x` cannot represent a bound, or `x` is bool or
            complex.
    """
    if max is not None:
        high = jnp.asarray(max, x.dtype)
        x = jnp.where(x > high, high, x)
    if min is not None:
        low = jnp.asarray(min, x.dtype)
        x = jnp.where(x < low, low, x)
    return x


def fits(value: float, dtype: DType) -> bool:
    """Return whether an integer dtype can hold a number."""
    low, high = limits_of(dtype)
    return float(value).is_integer() and low <= value <= high
