"""Discrete random operators: bools, integers, classes, permutations, and dropout.

Keys are those of `braces.ops.random.keys`: a draw depends on (run, operator, iteration) alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axes,
    numbered_indices,
    remove_axes,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axis, Indices, Salt, Tensor, Training, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size
from braces.dtypes import BOOL, FLOAT32, INT64, DType, TensorType, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import at_least_float32
from braces.ops.common.rules import Backward, as_floating, axis_index, float_dtype, real_numbers
from braces.ops.random.keys import (
    check_key,
    check_shape,
    draw_iterations,
    drop_iteration_axes,
    split_iteration_axes,
)
from braces.ops.random.stateless import DRAWS, draws, infer_draw


def check_probability(context: InferenceContext, value: float, name: str) -> None:
    """Refuse numbers outside [0, 1].

    Raises:
        ProgramError: If the number is outside [0, 1], or NaN.
    """
    if not 0 <= value <= 1:
        raise ProgramError(
            f"{context.type}: {name}={value} is out of range.",
            fix="Use a value between 0 and 1.",
        )


@draws(
    operations=24,
    examples=(*DRAWS, "state=u32[2] shape=(9,) probability=0.0 salt=1"),
)
def random_bernoulli(
    state: Tensor, *trips: Indices, shape: Shape, probability: float = 0.5, salt: Salt
) -> Tensor:
    """Bernoulli variables: each element is true with the same probability.

    $inputs

    Attributes:
        shape: Of the result.
        probability: Of true; 0 is never, 1 is always.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: bool[*shape].

    Raises:
        ProgramError: If `probability` is not between 0 and 1.
    """
    own = drop_iteration_axes(shape, trips)
    return draw_iterations(
        lambda key: _draw_bernoulli(key, own, probability), state, salt, trips
    )


def _draw_bernoulli(key: Any, shape: Any, probability: float) -> Any:
    return jax.random.uniform(key, shape, FLOAT32) < np.float32(probability)


@random_bernoulli.infer
def infer_random_bernoulli(
    context: InferenceContext,
    state: TensorType,
    *trips: TensorType,
    shape: Shape,
    probability: float,
    salt: int,
) -> TensorType:
    """Infer bools of shape `shape`."""
    check_probability(context, probability, "probability")
    return infer_draw(context, state, *trips, shape=shape, salt=salt, dtype=FLOAT32).with_dtype(
        BOOL
    )


@draws(
    operations=48,
    examples=(
        *(f"{example} low=0 high=10" for example in DRAWS),
        "state=u32[2] shape=(5,) low=-3 high=4 salt=1 dtype=i32",
        "state=u32[2] shape=(5,) low=0 high=255 salt=1 dtype=u8",
    ),
)
def random_randint(
    state: Tensor,
    *trips: Indices,
    shape: Shape,
    low: int = 0,
    high: int,
    dtype: DType = INT64,
    salt: Salt,
) -> Tensor:
    """Uniformly distributed integers in [low, high).

    $inputs

    Attributes:
        shape: Of the result.
        low: The smallest integer.
        high: One more than the largest.
        dtype: Of the result; an integer dtype that holds `low` and `high`.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: dtype[*shape].

    Raises:
        ProgramError: If the range is empty, or `dtype` cannot represent it.
        DTypeError: If `dtype` is not an integer dtype.
    """
    bounds = np.asarray(low, dtype), np.asarray(high, dtype)
    own = drop_iteration_axes(shape, trips)
    return draw_iterations(
        lambda key: jax.random.randint(key, own, *bounds, dtype), state, salt, trips
    )


@random_randint.infer
def infer_random_randint(
    context: InferenceContext,
    state: TensorType,
    *trips: TensorType,
    shape: Shape,
    low: int,
    high: int,
    dtype: DType,
    salt: int,
) -> TensorType:
    """Infer integers of shape `shape` and dtype `dtype`."""
    check_key(context, state, salt, trips, shape)
    check_shape(context, shape)
    if not is_integer(dtype):
        raise DTypeError(f"random_randint: expected an integer dtype, got {dtype}.")
    limits = np.iinfo(dtype)
    if not limits.min <= low < high <= limits.max:
        raise ProgramError(
            f"random_randint: invalid range [{low}, {high}) for {dtype}.",
            fix=f"Use low < high, both from {limits.min} to {limits.max}.",
        )
    return TensorType(dtype, shape)


def categorical_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `random_categorical`: only axes of iterations are batch axes."""
    indices = numbered_indices(first_rank(types, "logits"))
    left = remove_axes(indices, normalize_axes(attrs["axis"], len(indices)))
    trips, drawn = split_iteration_axes(types, indices)
    inputs = {"state": (("state",),), "logits": (indices,), "trips": trips}
    return make_axis_map(types, inputs, {"out": (left,)}, ["state", *drawn])


@op(
    axes=categorical_axes,
    random=True,
    differentiable=False,
    operations=48,
    examples=(
        "state=u32[2] logits=f32[4,3] salt=1",
        "state=u32[2] logits=f64[b,5] salt=1",
        "state=u32[2] logits=f32[2,3,t] trips=i64[] axis=1 salt=1",
        "state=u32[2] logits=f32[2,3,b] trips=i64[2] trips=i64[] axis=1 salt=1",
        "state=u32[2] logits=f32[3] salt=1",
        "state=u32[2] logits=f32[0,3] salt=1",
    ),
)
def random_categorical(
    state: Tensor, logits: Tensor, *trips: Indices, axis: Axis = -1, salt: Salt
) -> Tensor:
    """Class indices, drawn with the probabilities softmax(logits).

    Inputs:
        state: u32[2]. Seed and run counter.
        logits: number[*shape], with an axis of classes.
        trips: integer[]. The iteration of each enclosing loop, outermost first; integer[n] if
            `logits` has a leading axis of n iterations, each of which draws independently.

    Attributes:
        axis: The axis of classes.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: i64[*shape without `axis`].

    Raises:
        ShapeError: If the axis is out of range, is an axis of iterations, or has size 0.
    """
    at = axis % logits.ndim - logits.ndim  # from the end: the same within an iteration

    def draw(key: Any, logits: Any) -> Any:
        return jax.random.categorical(key, logits, at, mode="high")

    return draw_iterations(draw, state, salt, trips, at_least_float32(logits)).astype(INT64)


@random_categorical.infer
def infer_random_categorical(
    context: InferenceContext,
    state: TensorType,
    logits: TensorType,
    *trips: TensorType,
    axis: int,
    salt: int,
) -> TensorType:
    """Infer one class index for each batch element."""
    check_key(context, state, salt, trips, logits.shape)
    at = axis_index(axis, logits.rank, "random_categorical")
    if at < sum(trip.rank for trip in trips):
        raise ShapeError(
            f"random_categorical: axis {axis} is an iteration axis, not a class axis."
        )
    real_numbers(context.type, logits.dtype)
    if logits.shape[at] == 0:
        raise ShapeError(f"random_categorical: expected at least one class on axis {axis}.")
    return TensorType(INT64, logits.shape[:at] + logits.shape[at + 1 :])


def permutation_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `random_permutation`: each iteration has its own permutation."""
    del attrs
    trip_axes = numbered_indices(
        sum(len(shape_of(trip)) for trip in types.get("trips", ())), "trip"
    )
    trips, _ = split_iteration_axes(types, trip_axes)
    inputs = {"state": (("state",),), "trips": trips}
    return make_axis_map(types, inputs, {"out": ((*trip_axes, "place"),)}, ["state", "place"])


@op(
    axes=permutation_axes,
    random=True,
    differentiable=False,
    operations=24,
    examples=(
        "state=u32[2] size=5 salt=1",
        "state=u32[2] trips=i32[] size=100 salt=2",
        "state=u32[2] trips=i32[] trips=i32[3] size=5 salt=2",
        "state=u32[2] size=0 salt=1",
    ),
)
def random_permutation(state: Tensor, *trips: Indices, size: Size, salt: Salt) -> Tensor:
    """A random permutation of the numbers from 0 to `size - 1`; `br.take` shuffles rows by it.

    Inputs:
        state: u32[2]. Seed and run counter.
        trips: integer[]. The iteration of each enclosing loop, outermost first; integer[n] adds
            a leading axis of n iterations, each of which draws independently.

    Attributes:
        size: The number of elements.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: i64[*trips, size]. Each number once.

    Raises:
        ShapeError: If `size` is below 0.
    """
    numbers = jnp.arange(size, dtype=INT64)
    return draw_iterations(lambda key: jax.random.permutation(key, numbers), state, salt, trips)


@random_permutation.infer
def infer_random_permutation(
    context: InferenceContext, state: TensorType, *trips: TensorType, size: Size, salt: int
) -> TensorType:
    """Infer `size` numbers for each iteration."""
    check_key(context, state, salt, trips)
    check_shape(context, (size,))
    return TensorType(INT64, (*(n for trip in trips for n in trip.shape), size))


# ---- dropout ---------------------------------------------------------------------------------


def dropout_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `dropout`: in training, only axes of iterations are batch axes."""
    indices = numbered_indices(first_rank(types, "x"))
    trips, drawn = split_iteration_axes(types, indices)
    inputs = {"state": (("state",),), "x": (indices,), "trips": trips}
    non_pointwise = ["state", *(drawn if attrs["training"] else ())]
    return make_axis_map(types, inputs, {"out": (indices,)}, non_pointwise)


def dropout_cost(types: Types, attrs: Attrs) -> int:
    """Cost per element: a draw, a comparison and a scaling; none for rates 0 and 1."""
    del types
    return 26 if attrs["training"] and attrs["rate"] not in (0.0, 1.0) else 0


@op(
    axes=dropout_axes,
    random=True,
    operations=count_per_element("out", dropout_cost),
    examples=(
        "state=u32[2] x=f32[2,3] rate=0.5 salt=1",
        "state=u32[2] x=f64[b,4] trips=i32[] rate=0.25 salt=2",
        "state=u32[2] x=f32[3,4] trips=i64[] trips=i64[3] rate=0.5 salt=2",
        "state=u32[2] x=f32[] rate=0.0 salt=1",
        "state=u32[2] x=f64[5] rate=1.0 salt=1",
        "state=u32[2] x=f64[5] rate=0.5 training=False salt=1",
        "state=u32[2] x=f32[0,2] rate=0.5 salt=1",
    ),
)
def dropout(
    state: Tensor,
    x: Tensor,
    *trips: Indices,
    rate: float,
    training: Training = True,
    salt: Salt,
) -> Tensor:
    """Drop elements with a probability and scale the others up, so that the mean is preserved.

        out = x / (1 - rate) with probability 1 - rate, else 0

    A dropped element, even NaN, reaches neither the result nor a gradient. The gradient is the
    same operator applied to the cotangent: it draws the same mask from the same state.
    Source: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting, 2014.

    Inputs:
        state: u32[2]. Seed and run counter.
        x: number[*shape].
        trips: integer[]. The iteration of each enclosing loop, outermost first; integer[n] if
            `x` has a leading axis of n iterations, each of which draws independently.

    Attributes:
        rate: The probability of dropping; 0 drops nothing, 1 everything.
        training: Whether to drop elements. Test programs set it to false: `out` is `x`.
        salt: The number of this operator, folded into its key; 32 bits.

    Outputs:
        out: The dtype of `x` (float32 for integers), its shape.

    Raises:
        ProgramError: If `rate` is not between 0 and 1.
        ShapeError: If `x` has no leading axis of that number of iterations.
    """
    x = as_floating(x)
    if not training or rate == 0:
        return x
    if rate == 1:
        return jnp.zeros(x.shape, x.dtype)

    def draw(key: Any, x: Any) -> Any:
        mask = _draw_bernoulli(key, x.shape, 1 - rate)
        return lax.select(mask, x / np.asarray(1 - rate, x.dtype), jnp.zeros(x.shape, x.dtype))

    return draw_iterations(draw, state, salt, trips, x)


@dropout.infer
def infer_dropout(
    context: InferenceContext,
    state: TensorType,
    x: TensorType,
    *trips: TensorType,
    rate: float,
    salt: int,
    **attrs: Any,
) -> TensorType:
    """Infer the shape of `x`, with float32 for integers."""
    del attrs
    check_key(context, state, salt, trips, x.shape)
    check_probability(context, rate, "rate")
    return x.with_dtype(float_dtype(x.dtype))


@dropout.gradient
def dropout_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = dropout(out_grad), with the same mask."""
    trips = g.inputs.get("trips", ())
    return {"x": emit("dropout", g["state"], g.out_grad, *trips, **g.attrs)}
