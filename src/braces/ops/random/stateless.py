"""Stateless random operators: each draw depends on (run, operator, iteration) alone.

So pruning, repeating or moving an operator does not change the draws of others. The gradient of
dropout draws its mask again and needs no residual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from string import Template
from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    require_tuple,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Indices, Salt, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size, call, product
from braces.dtypes import FLOAT32, DType, TensorType, is_float
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.ir.records import Op
from braces.lazy import jax, jnp
from braces.ops.random.keys import (
    STATE,
    check_key,
    check_shape,
    draw_iterations,
    drop_iteration_axes,
    split_iteration_axes,
)
from braces.ops.random.samplers import SAMPLERS

DRAWS = (
    "state=u32[2] shape=(2,3) salt=1",
    "state=u32[2] shape=(b,4) salt=1",
    "state=u32[2] trips=i32[] trips=i64[] shape=(4,) salt=4000000000",
    "state=u32[2] trips=i32[2] trips=i64[] trips=i64[b] shape=(2,b,3) salt=5",
    "state=u32[2] shape=(0,3) salt=2",
    "state=u32[2] shape=() salt=3",
)
"""Examples of operators that draw an array of shape `shape`."""
WIDE_DRAWS = (*DRAWS, "state=u32[2] shape=(5,) salt=1 dtype=f64")
INPUTS = """\
Inputs:
    state: u32[2]. Seed and run counter.
    trips: integer[]. The iteration of each enclosing loop, outermost first; integer[n] if
        `shape` has a leading axis of n iterations, each of which draws independently."""
REALS = """\
    dtype: Of the result; a real floating dtype.
    salt: The number of this operator, folded into its key; 32 bits.

Outputs:
    out: dtype[*shape].

Raises:
    DTypeError: `dtype` is not a real floating dtype."""


# ---- shared ----------------------------------------------------------------------------------


def check_bounds(context: InferenceContext, low: float, high: float) -> None:
    """Refuse an empty interval.

    Raises:
        ProgramError: If `low` is above `high`, or a bound is NaN.
    """
    if not low <= high:
        raise ProgramError(
            f"{context.type}: low={low} exceeds high={high}.", fix="Use low <= high."
        )


def infer_draw(
    context: InferenceContext,
    state: TensorType,
    *trips: TensorType,
    shape: Shape,
    salt: int,
    dtype: DType,
    **attrs: Any,
) -> TensorType:
    """Infer an array of real numbers of shape `shape` and dtype `dtype`."""
    del attrs
    check_key(context, state, salt, trips, shape)
    check_shape(context, shape)
    if not is_float(dtype) or dtype.kind == "c":
        raise DTypeError(
            f"{context.type}: expected a real floating dtype, got {dtype}.",
            fix="Use a floating dtype.",
        )
    return TensorType(dtype, shape)


# ---- the state -------------------------------------------------------------------------------


@op(
    axes="i! -> i!",
    random=True,
    differentiable=False,
    operations=1,
    examples=("state=u32[2]", "state=u32[2] runs=4294967295"),
)
def next_random_state(state: Tensor, *, runs: int = 1) -> Tensor:
    """The random state of a later run: the same seed, a higher counter.

        out = [state[0], state[1] + runs]

    Inputs:
        state: u32[2]. Seed and run counter.

    Attributes:
        runs: The number of runs to advance by; 1 is the next run.

    Outputs:
        out: u32[2]. The counter wraps around after 2^32 runs.

    Raises:
        ShapeError: If `state` does not consist of two numbers.
        DTypeError: If the dtype of `state` is not uint32.
    """
    return state + np.asarray([0, runs % 2**32], STATE)


@next_random_state.infer
def infer_next_random_state(
    context: InferenceContext, state: TensorType, *, runs: int
) -> TensorType:
    """Infer the type of the state."""
    del runs
    check_key(context, state, 0, ())
    return state


def runs_counted(maker: Op) -> int | None:
    """Return `runs` of a `next_random_state` operator; `None` for another operator."""
    runs = maker.attrs.get("runs", 1) if maker.type == next_random_state.type else None
    return runs if isinstance(runs, int) else None


# ---- arrays of real numbers ------------------------------------------------------------------


def _draw_reals(
    type: str, state: Any, salt: int, trips: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    """Draw the array of an operator with these attributes; for kernels."""
    iteration_attrs = {**attrs, "shape": drop_iteration_axes(attrs["shape"], trips)}
    return draw_iterations(
        lambda key: SAMPLERS[type].draw_one(key, iteration_attrs), state, salt, trips
    )


def draw_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of draws: only axes of iterations are batch axes.

    A draw depends on its position and on the size of the array.
    """
    indices = numbered_indices(len(require_tuple(attrs["shape"])))
    trips, drawn = split_iteration_axes(types, indices)
    inputs = {"state": (("state",),), "trips": trips}
    return make_axis_map(types, inputs, {"out": (indices,)}, ["state", *drawn])


def draws(**options: Any) -> Any:
    """Return a decorator that defines an operator that draws an array of shape `shape`.

    Its docstring is a template: `$inputs` is the section of inputs, `$reals` the text on real
    numbers from the attribute `dtype` on.
    """

    def define(kernel: Callable[..., Any]) -> Any:
        doc = Template(inspect.getdoc(kernel) or "")
        kernel.__doc__ = doc.substitute(inputs=INPUTS, reals=REALS)
        return op(axes=draw_axes, random=True, differentiable=False, **options)(kernel)

    return define


@draws(
    operations=24,
    examples=(*WIDE_DRAWS, "state=u32[2] shape=(3,) low=-2.0 high=2.0 salt=1"),
)
def random_uniform(
    state: Tensor,
    *trips: Indices,
    shape: Shape,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType = FLOAT32,
    salt: Salt,
) -> Tensor:
    """Uniformly distributed numbers in [low, high).

    $inputs

    Attributes:
        shape: Of the result.
        low: The smallest number.
        high: The upper bound, exclusive.
    $reals
        ProgramError: `low` is above `high`.
    """
    attrs = {"shape": shape, "low": low, "high": high, "dtype": dtype}
    return _draw_reals("random_uniform", state, salt, trips, attrs)


@random_uniform.infer
def infer_random_uniform(
    context: InferenceContext,
    state: TensorType,
    *trips: TensorType,
    low: float,
    high: float,
    **attrs: Any,
) -> TensorType:
    """Infer `dtype[*shape]`; refuse `low` above `high`."""
    check_bounds(context, low, high)
    return infer_draw(context, state, *trips, **attrs)


@draws(
    infer=infer_draw,
    operations=48,
    examples=(*WIDE_DRAWS, "state=u32[2] shape=(3,) mean=5.0 stddev=0.5 salt=1"),
)
def random_normal(
    state: Tensor,
    *trips: Indices,
    shape: Shape,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: DType = FLOAT32,
    salt: Salt,
) -> Tensor:
    """Normally distributed numbers.

        density(x) = exp(-((x - mean) / stddev)^2 / 2) / (stddev * sqrt(2 * pi))

    $inputs

    Attributes:
        shape: Of the result.
        mean: Where the density is largest.
        stddev: The standard deviation.
    $reals
    """
    attrs = {"shape": shape, "mean": mean, "stddev": stddev, "dtype": dtype}
    return _draw_reals("random_normal", state, salt, trips, attrs)


@draws(
    operations=48,
    examples=(*WIDE_DRAWS, "state=u32[2] shape=(3,) stddev=0.5 low=-1.0 high=3.0 salt=1"),
)
def random_truncated_normal(
    state: Tensor,
    *trips: Indices,
    shape: Shape,
    mean: float = 0.0,
    stddev: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    dtype: DType = FLOAT32,
    salt: Salt,
) -> Tensor:
    """Truncated normal variables: numbers outside the bounds are rejected.

        out = mean + stddev * z, where z is standard normal given low <= z <= high

    The result has a smaller standard deviation than `stddev`: 0.8796 times it for the default
    bounds.

    $inputs

    Attributes:
        shape: Of the result.
        mean: Where the density is largest.
        stddev: The standard deviation before truncation.
        low: The lower bound, in standard deviations from the mean.
        high: The upper bound, likewise.
    $reals
        ProgramError: `low` is above `high`.
    """
    attrs = {"shape": shape, "mean": mean, "stddev": stddev, "dtype": dtype}
    attrs |= {"low": low, "high": high}
    return _draw_reals("random_truncated_normal", state, salt, trips, attrs)


random_truncated_normal.infer(infer_random_uniform)


def orthogonal_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per element: a draw, then the QR decomposition."""
    del attrs
    *rows, columns = shape_of(types["out"][0])
    return 48 + 8 * call("min", product(tuple(rows)), columns)


@draws(
    operations=count_per_element("out", orthogonal_cost),
    examples=(
        "state=u32[2] shape=(3,3) salt=1",
        "state=u32[2] trips=i32[] shape=(2,5) scale=2.0 salt=4",
        "state=u32[2] shape=(2,3,2) salt=2 dtype=f64",
        "state=u32[2] shape=(0,3) salt=2",
    ),
)
def random_orthogonal(
    state: Tensor,
    *trips: Indices,
    shape: Shape,
    scale: float = 1.0,
    dtype: DType = FLOAT32,
    salt: Salt,
) -> Tensor:
    """A random matrix with orthogonal columns, or orthogonal rows if there are fewer rows.

        out^T out = scale^2 * identity, or out out^T = scale^2 * identity

    All axes but the last count as rows. Source: Saxe, McClelland, Ganguli, Exact solutions to
    the nonlinear dynamics of learning in deep linear neural networks, 2013.

    $inputs

    Attributes:
        shape: Of the result; two axes or more.
        scale: The length of each column, or row.
        dtype: Of the result; a real floating dtype.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: dtype[*shape].

    Raises:
        ShapeError: If `shape` has rank below 2.
        DTypeError: If `dtype` is not a real floating dtype.
    """
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    wider = np.promote_types(dtype, FLOAT32)  # QR does not support 16-bit numbers
    draw, iteration_shape = (
        jax.nn.initializers.orthogonal(scale),
        drop_iteration_axes(shape, trips),
    )
    return draw_iterations(
        lambda key: draw(key, iteration_shape, wider), state, salt, trips
    ).astype(dtype)


@random_orthogonal.infer
def infer_random_orthogonal(
    context: InferenceContext, state: TensorType, *trips: TensorType, shape: Shape, **attrs: Any
) -> TensorType:
    """Infer `dtype[*shape]`, at least a matrix in each iteration."""
    if len(shape) < 2 + sum(trip.rank for trip in trips):
        raise ShapeError(f"random_orthogonal: expected rank 2 or more, got shape {shape}.")
    return infer_draw(context, state, *trips, shape=shape, **attrs)
