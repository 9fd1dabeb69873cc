"""Random bits, and keys derived from keys: those of `jax.random` for threefry keys.

A key is two words, u32[2]; an array of keys has them along its last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Names,
    Types,
    broadcasting_indices,
    make_axis_map,
    require_tuple,
    shape_of,
)
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape
from braces.dtypes import DType, TensorType, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.lazy import jax, jnp
from braces.ops.random.keys import STATE, check_shape
from braces.ops.random.samplers import run_key

WIDTHS = (8, 16, 32, 64)
KEY_SHAPES = (
    "key=u32[2] shape=(2,3)",
    "key=u32[b,2] shape=(b,4)",
    "key=u32[3,2,2] shape=(3,2)",
    "key=u32[2] shape=(0,3)",
    "key=u32[2] shape=()",
)
"""Examples of operators that draw an array from each key."""


# ---- shared ----------------------------------------------------------------------------------


def draw_each(key: Any, shape: Any, draw: Callable[..., Any], *parameters: Any) -> Any:
    """Draw an array from each key; for kernels.

    Args:
        key: The words of keys.
        shape: The shape of the result, which begins with the axes of the keys.
        draw: Function from a key, a shape and parameters to an array.
        *parameters: Arrays that broadcast to `shape`.
    """
    key_axes = key.ndim - 1

    def draw_one(key: Any, *parameters: Any) -> Any:
        return draw(run_key(key), shape[key_axes:], *parameters)

    if key_axes:
        parameters = tuple(jnp.broadcast_to(x, shape) for x in parameters)
    for _ in range(key_axes):
        draw_one = jax.vmap(draw_one)
    return draw_one(key, *parameters)


def axes_of_draws(types: Types, attrs: Attrs, more: Names = ()) -> AxisMap:
    """Axis map of draws from keys: only the axes of the keys are batch axes."""
    shape = require_tuple(attrs["shape"])
    indices = broadcasting_indices(len(shape))
    key_axes = len(shape_of(types["key"][0])) - 1
    inputs = {
        slot: tuple(indices[len(shape) - len(shape_of(type_)) :] for type_ in slot_types)
        for slot, slot_types in types.items()
        if slot not in ("key", "out")
    }
    inputs["key"] = ((*indices[:key_axes], "word"),)
    mixed = ["word", *indices[key_axes:], *more]
    sizes = dict(zip(indices, shape, strict=True))
    wanted = {"key": lambda: f"[{', '.join(map(str, shape[:key_axes]))}, 2]"}
    outputs = {"out": ((*indices, *more),)}
    return make_axis_map(types, inputs, outputs, mixed, sizes=sizes, wanted=wanted)


def axes_of_keys(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of keys derived from keys."""
    return axes_of_draws(types, attrs, ("derived word",))


def check_keys(context: InferenceContext, key: TensorType, shape: Shape) -> None:
    """Check keys, and the shape of an array that begins with their axes.

    Raises:
        ShapeError: If a key does not consist of two words, or the axes of the keys are not the
            leading axes of `shape`.
        DTypeError: If the keys are not uint32.
    """
    check_words(context, key)
    check_shape(context, shape)
    keys = key.shape[:-1]
    problem = f"{context.type}: keys {list(keys)} are not the leading axes of {list(shape)}."
    if len(keys) > len(shape):
        raise ShapeError(problem)
    for left, right in zip(keys, shape, strict=False):
        context.unify(left, right, problem)


def check_words(context: InferenceContext, key: TensorType) -> None:
    """Check that keys consist of two words.

    Raises:
        ShapeError: If a key does not consist of two words.
        DTypeError: If the keys are not uint32.
    """
    problem = f"{context.type}: expected keys u32[..., 2], got {key}."
    if key.dtype != STATE:
        raise DTypeError(problem)
    if not key.rank:
        raise ShapeError(problem)
    context.unify(key.shape[-1], 2, problem)


def check_width(context: InferenceContext, width: int) -> DType:
    """Return the unsigned dtype of a width.

    Raises:
        ProgramError: If there is none.
    """
    if width not in WIDTHS:
        raise ProgramError(
            f"{context.type}: expected a width of 8, 16, 32 or 64 bits, got {width}."
        )
    return np.dtype(f"uint{width}")


# ---- operators -------------------------------------------------------------------------------


@op(
    function=False,
    axes=axes_of_draws,
    differentiable=False,
    operations=20,
    examples=(
        *KEY_SHAPES,
        "key=u32[2] shape=(5,) width=8",
        "key=u32[2] shape=(5,) width=16",
        "key=u32[2,2] shape=(2,5) width=64",
    ),
)
def bits_of_key(key: Tensor, *, shape: Shape, width: int = 32) -> Tensor:
    """Random bits drawn from a key, those of `jax.random.bits`.

        out[i] = threefry(key, i)

    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.

    Inputs:
        key: u32[*keys, 2]. The two words of each key.

    Attributes:
        shape: Of the result; it begins with the axes of the keys.
        width: The number of bits of each number: 8, 16, 32 or 64.

    Outputs:
        out: uint[*shape].

    Raises:
        ShapeError: If the axes of the keys are not the leading axes of `shape`.
        DTypeError: If the keys are not uint32.
        ProgramError: If `width` is not 8, 16, 32 or 64.
    """
    return draw_each(key, shape, lambda key, shape: jax.random.bits(key, shape, f"uint{width}"))


@bits_of_key.infer
def infer_bits_of_key(
    context: InferenceContext, key: TensorType, *, shape: Shape, width: int
) -> TensorType:
    """Infer unsigned integers of a width."""
    check_keys(context, key, shape)
    return TensorType(check_width(context, width), shape)


@op(
    function=False,
    axes=axes_of_keys,
    differentiable=False,
    operations=10,
    examples=KEY_SHAPES,
)
def split_key(key: Tensor, *, shape: Shape = (2,)) -> Tensor:
    """Keys derived from a key, those of `jax.random.split`.

        out[i] = threefry(key, i)

    Inputs:
        key: u32[*keys, 2]. The two words of each key.

    Attributes:
        shape: The shape of the result without the words; it begins with the axes of the keys.

    Outputs:
        out: u32[*shape, 2].

    Raises:
        ShapeError: If the axes of the keys are not the leading axes of `shape`.
        DTypeError: If the keys are not uint32.
    """

    def split(key: Any, shape: Any) -> Any:
        return jax.random.key_data(jax.random.split(key, shape))

    return draw_each(key, shape, split)


@split_key.infer
def infer_split_key(context: InferenceContext, key: TensorType, *, shape: Shape) -> TensorType:
    """Infer keys of two words."""
    check_keys(context, key, shape)
    return TensorType(STATE, (*shape, 2))


def fold_dtypes(what: str, key: DType, data: DType) -> DType:
    """Dtype rule: uint32."""
    if key != STATE or not is_integer(data):
        raise DTypeError(f"{what}: expected uint32 keys and integers, got {key} and {data}.")
    return STATE


@op(
    function=False,
    axes="... word!, ... -> ... word!",
    dtypes=fold_dtypes,
    differentiable=False,
    operations=20,
    examples=("key=u32[2] data=i32[]", "key=u32[b,2] data=u32[b]", "key=u32[2] data=i64[3]"),
)
def fold_in_key(key: Tensor, data: Tensor) -> Tensor:
    """Keys derived from keys and numbers, those of `jax.random.fold_in`.

        out = threefry(key, data)

    Inputs:
        key: u32[*keys, 2]. The two words of each key.
        data: integer[*keys]. Converted to uint32.

    Outputs:
        out: u32[*keys, 2].

    Raises:
        ShapeError: If the keys and the numbers do not broadcast.
        DTypeError: If the keys are not uint32, or the numbers are not integers.
    """
    shape = jnp.broadcast_shapes(key.shape[:-1], data.shape)

    def fold(key: Any, data: Any) -> Any:
        folded = jax.random.fold_in(run_key(key), data.astype(np.uint32))
        return jax.random.key_data(folded)

    for _ in shape:
        fold = jax.vmap(fold)
    return fold(jnp.broadcast_to(key, (*shape, 2)), jnp.broadcast_to(data, shape))
