"""Keys of random operators, per run, operator and loop iteration.

    key  = threefry key (seed, run counter), which is `random_state`
    key  = fold_in(key, salt)              the number of the operator
    key  = fold_in(key, trip)              for each enclosing loop, outermost first

A vectorized random operator gets the numbers of all iterations of a loop. Each iteration keeps
the random bits that it would have drawn alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Names, Types, shape_of
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size
from braces.dtypes import TensorType, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.lazy import jax
from braces.ops.random.samplers import run_key

STATE = np.dtype(np.uint32)
SALTS = 2**32


def key_of(state: Any, salt: int, trips: Sequence[Any]) -> Any:
    """Return the key of one operator in one iteration of one run; for kernels."""
    key = jax.random.fold_in(run_key(state), np.uint32(salt))
    for trip in trips:
        key = jax.random.fold_in(key, trip.astype(np.uint32))
    return key


def draw_iterations(
    draw: Callable[..., Any], state: Any, salt: int, trips: Sequence[Any], *rows: Any
) -> Any:
    """Draw for each iteration of the enclosing loops; for kernels.

    Args:
        draw: Function from the key of one iteration, and its slice of `rows`, to the draw.
        state: The random state of the run.
        salt: Of the operator.
        trips: The iteration of each enclosing loop; integer[n] for n iterations at once, which
            adds a leading axis.
        rows: Arrays with the same leading axes.
    """
    at = next((i for i, trip in enumerate(trips) if trip.ndim), None)
    if at is None:
        return draw(key_of(state, salt, trips), *rows)

    def draw_iteration(trip: Any, *rows: Any) -> Any:
        return draw_iterations(draw, state, salt, [*trips[:at], trip, *trips[at + 1 :]], *rows)

    return jax.vmap(draw_iteration)(trips[at], *rows)


def drop_iteration_axes(shape: Shape, trips: Sequence[Any]) -> Any:
    """Return the shape of a draw in one iteration, in a kernel: all sizes are numbers there."""
    return shape[sum(trip.ndim for trip in trips) :]


def split_iteration_axes(types: Types, indices: Names) -> tuple[tuple[Names, ...], Names]:
    """Split axis names into those of `trips`, the leading ones, and the remaining ones."""
    trip_axes, at = list[Names](), 0
    for trip in types.get("trips", ()):
        rank = len(shape_of(trip))
        trip_axes.append(indices[at : at + rank])
        at += rank
    return tuple(trip_axes), indices[at:]


def check_key(
    context: InferenceContext,
    state: TensorType,
    salt: int,
    trips: Sequence[TensorType],
    shape: Shape | None = None,
) -> None:
    """Check the inputs of a key.

    Args:
        context: Of the inference.
        state: The random state.
        salt: Of the operator.
        trips: The iteration of each enclosing loop.
        shape: The shape that must have a leading axis for each vectorized loop, if any.

    Raises:
        ShapeError: If `state` does not consist of two numbers, the rank of `trip` exceeds 1, or
            `shape` has no leading axis of that number of iterations.
        DTypeError: If a dtype is wrong.
        ProgramError: If the salt is not an integer of 32 bits.
    """
    if state.dtype != STATE:
        raise DTypeError(f"{context.type}: expected a random state u32[2], got {state}.")
    if state.shape != (2,):
        raise ShapeError(f"{context.type}: expected a random state u32[2], got {state}.")
    if not 0 <= salt < SALTS:
        raise ProgramError(
            f"{context.type}: salt={salt} is out of range.", fix="Use a salt of 32 bits."
        )
    for trip in trips:
        if not is_integer(trip.dtype):
            raise DTypeError(f"trips of {context.type}: expected an integer, got {trip}.")
        if trip.rank > 1:
            raise ShapeError(
                f"trips of {context.type}: expected a scalar or a vector, got {trip}."
            )
    if shape is not None:
        _check_leading_axes(context, [trip.shape[0] for trip in trips if trip.rank], shape)


def _check_leading_axes(
    context: InferenceContext, trip_counts: Sequence[Size], shape: Shape
) -> None:
    for at, size in enumerate(trip_counts):
        problem = f"{context.type}: {size} iterations do not match axis {at} of {shape}."
        if at >= len(shape):
            raise ShapeError(problem)
        context.unify(size, shape[at], problem)


def check_shape(context: InferenceContext, shape: Shape) -> None:
    """Refuse negative sizes.

    Raises:
        ShapeError: If a size is negative.
    """
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError(
            f"{context.type}: negative size in shape {shape}.", fix="Use sizes of 0 or more."
        )
