"""The key of each draw, and for which trips an operator draws.

    key  = threefry key (seed, run counter), which is `random_state`
    key  = fold_in(key, salt)              the operator's own number
    key  = fold_in(key, trip)              for each loop around the operator, outermost first

What draws for all trips of a loop at once is told of all of them, and draws for each of them
what it would draw in it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Names, Types, shape_of
from braces.define.type_inference import Context
from braces.dims import Shape, Size
from braces.dtypes import TensorType, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.lazy import jax
from braces.ops.random.samplers import run_key

STATE = np.dtype(np.uint32)
SALTS = 2**32


def key_of(state: Any, salt: int, trips: Sequence[Any]) -> Any:
    """The key of one operator in one trip of one run; for kernels."""
    key = jax.random.fold_in(run_key(state), np.uint32(salt))
    for trip in trips:
        key = jax.random.fold_in(key, trip.astype(np.uint32))
    return key


def each_trip(
    draw: Callable[..., Any], state: Any, salt: int, trips: Sequence[Any], *rows: Any
) -> Any:
    """What an operator draws in each of the trips that it is told of; for kernels.

    Args:
        draw: From the key of one trip, and what it has of the rows, to what is drawn.
        state: The random state of the run.
        salt: Of the operator.
        trips: The trip of each loop around it; integer[n] where all are told, which gives a
            first axis.
        rows: What has such axes too.
    """
    at = next((i for i, trip in enumerate(trips) if trip.ndim), None)
    if at is None:
        return draw(key_of(state, salt, trips), *rows)

    def of_one(trip: Any, *rows: Any) -> Any:
        return each_trip(draw, state, salt, [*trips[:at], trip, *trips[at + 1 :]], *rows)

    return jax.vmap(of_one)(trips[at], *rows)


def of_one_trip(shape: Shape, trips: Sequence[Any]) -> Any:
    """The shape that is drawn in one trip, in a kernel: there, all sizes are numbers."""
    return shape[sum(trip.ndim for trip in trips) :]


def trips_of(types: Types, indices: Names) -> tuple[tuple[Names, ...], Names]:
    """For axes: those of trips, which have the first of these where all are told; the rest."""
    found, at = list[Names](), 0
    for trip in types.get("trips", ()):
        rank = len(shape_of(trip))
        found.append(indices[at : at + rank])
        at += rank
    return tuple(found), indices[at:]


def check_key(
    context: Context,
    state: TensorType,
    salt: int,
    trips: Sequence[TensorType],
    shape: Shape | None = None,
) -> None:
    """Refuse what a key cannot be made of.

    Args:
        context: Of the inference.
        state: The random state.
        salt: Of the operator.
        trips: The trip of each loop around it.
        shape: Of what has an axis for each loop of which all trips are told, if anything must.

    Raises:
        ShapeError: `state` is not two numbers, a trip is neither one number nor one for each
            trip, or there is no axis of so many trips.
        DTypeError: Their dtypes are others.
        ProgramError: The salt does not fit into 32 bits.
    """
    if state.dtype != STATE:
        raise DTypeError(f"{context.type} needs a random state u32[2], not {state}.")
    if state.shape != (2,):
        raise ShapeError(f"{context.type} needs a random state u32[2], not {state}.")
    if not 0 <= salt < SALTS:
        raise ProgramError(f"{context.type} has salt={salt}.", fix="A salt has 32 bits.")
    for trip in trips:
        if not is_integer(trip.dtype):
            raise DTypeError(f"A trip of {context.type} must be an integer, not {trip}.")
        if trip.rank > 1:
            raise ShapeError(
                f"A trip of {context.type} must be one number, or one for each, not {trip}."
            )
    if shape is not None:
        _check_told(context, [trip.shape[0] for trip in trips if trip.rank], shape)


def _check_told(context: Context, told: Sequence[Size], shape: Shape) -> None:
    for at, size in enumerate(told):
        problem = f"{context.type} is told {size} trips for axis {at} of {shape}."
        if at >= len(shape):
            raise ShapeError(problem)
        context.unify(size, shape[at], problem)


def check_shape(context: Context, shape: Shape) -> None:
    """Refuse sizes below zero.

    Raises:
        ShapeError: There is one.
    """
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ShapeError(
            f"{context.type} cannot draw the shape {shape}.", fix="Sizes count from 0."
        )
