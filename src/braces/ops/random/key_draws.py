"""Random numbers drawn from keys, bit for bit those of `jax.random`.

None has a gradient. A number with a variable mean, scale or bound is arithmetic on one of these
(reparameterization).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from string import Template
from typing import Any

import numpy as np

from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape
from braces.dtypes import BOOL, FLOAT32, INT32, DType, TensorType, is_float, is_integer
from braces.errors import DTypeError, ShapeError
from braces.lazy import jax
from braces.ops.random.key_bits import KEY_SHAPES, axes_of_draws, check_keys, draw_each

WIDE = (*KEY_SHAPES, "key=u32[2] shape=(5,) dtype=f64")
KEY = "key: u32[*keys, 2]. The two words of each key."
SHAPE = "shape: Of the result; it begins with the axes of the keys."
REAL = "dtype: Of the result; a real floating dtype."
ERRORS = """\
Raises:
    ShapeError: If the axes of the keys are not the leading axes of `shape`, or a parameter does
        not broadcast to `shape`.
    DTypeError: If a dtype is unsupported."""


def draws_of_key(**options: Any) -> Any:
    """Return a decorator that defines an operator that draws from keys.

    Its docstring is a template with `$key`, `$shape`, `$real` and `$errors`.
    """

    def define(kernel: Callable[..., Any]) -> Any:
        doc = Template(inspect.getdoc(kernel) or "")
        kernel.__doc__ = doc.substitute(key=KEY, shape=SHAPE, real=REAL, errors=ERRORS)
        return op(function=False, differentiable=False, axes=axes_of_draws, **options)(kernel)

    return define


def infer_key_draw(
    context: InferenceContext,
    key: TensorType,
    *parameters: TensorType,
    shape: Shape,
    dtype: DType,
) -> TensorType:
    """Infer real numbers of a shape."""
    if not is_float(dtype) or dtype.kind == "c":
        raise DTypeError(f"{context.type}: expected a real floating dtype, got {dtype}.")
    check_parameters(context, key, parameters, shape)
    return TensorType(dtype, shape)


def check_parameters(
    context: InferenceContext, key: TensorType, parameters: tuple[TensorType, ...], shape: Shape
) -> None:
    """Check keys, and that parameters are real and broadcast to a shape.

    Raises:
        ShapeError: If a shape does not match.
        DTypeError: If a parameter is complex, or the keys are not uint32.
    """
    check_keys(context, key, shape)
    for parameter in parameters:
        problem = f"{context.type}: {parameter} does not broadcast to shape {list(shape)}."
        if parameter.dtype.kind in "bc":
            raise DTypeError(f"{context.type}: expected real numbers, got {parameter}.")
        if parameter.rank > len(shape):
            raise ShapeError(problem)
        for size, whole in zip(reversed(parameter.shape), reversed(shape), strict=False):
            if size != 1:
                context.unify(size, whole, problem)


# ---- of variable parameters ------------------------------------------------------------------


@draws_of_key(
    operations=24,
    examples=(
        "key=u32[2] p=f32[] shape=(2,3)",
        "key=u32[b,2] p=f32[b,1] shape=(b,4)",
        "key=u32[2] p=f64[3] shape=(3,)",
    ),
)
def bernoulli_of_key(key: Tensor, p: Tensor, *, shape: Shape) -> Tensor:
    """Bernoulli variables, those of `jax.random.bernoulli`.

        out[i] = u[i] < p[i],  u[i] uniform in [0, 1)

    Inputs:
        $key
        p: float[*shape]. The probability of true.

    Attributes:
        $shape

    Outputs:
        out: bool[*shape].

    $errors
    """
    return draw_each(key, shape, lambda key, shape, p: jax.random.bernoulli(key, p, shape), p)


@bernoulli_of_key.infer
def infer_bernoulli_of_key(
    context: InferenceContext, key: TensorType, p: TensorType, *, shape: Shape
) -> TensorType:
    """Infer bools of a shape."""
    if not is_float(p.dtype):
        raise DTypeError(f"{context.type}: expected a floating dtype of `p`, got {p}.")
    return infer_key_draw(context, key, p, shape=shape, dtype=p.dtype).with_dtype(BOOL)


@draws_of_key(
    operations=56,
    examples=(
        "key=u32[2] low=i32[] high=i32[] shape=(2,3)",
        "key=u32[b,2] low=i64[b,1] high=i64[4] shape=(b,4) dtype=i64",
        "key=u32[2] low=i32[3] high=i32[] shape=(3,) dtype=u32",
    ),
)
def randint_of_key(
    key: Tensor, low: Tensor, high: Tensor, *, shape: Shape, dtype: DType = INT32
) -> Tensor:
    """Uniformly distributed integers in [low, high), those of `jax.random.randint`.

    Inputs:
        $key
        low: integer[*shape]. The smallest integer.
        high: integer[*shape]. One more than the largest; `low` is returned if it is not above.

    Attributes:
        $shape
        dtype: Of the result; an integer dtype.

    Outputs:
        out: dtype[*shape].

    $errors
    """

    def draw(key: Any, shape: Any, low: Any, high: Any) -> Any:
        return jax.random.randint(key, shape, low, high, dtype)

    return draw_each(key, shape, draw, low, high)


@randint_of_key.infer
def infer_randint_of_key(
    context: InferenceContext,
    key: TensorType,
    low: TensorType,
    high: TensorType,
    *,
    shape: Shape,
    dtype: DType,
) -> TensorType:
    """Infer integers of a shape."""
    unsupported = [str(each) for each in (dtype, low.dtype, high.dtype) if not is_integer(each)]
    if unsupported:
        raise DTypeError(
            f"{context.type}: expected integer dtypes, got {', '.join(unsupported)}."
        )
    check_parameters(context, key, (low, high), shape)
    return TensorType(dtype, shape)


# ---- of fixed parameters ---------------------------------------------------------------------


@draws_of_key(
    operations=24,
    examples=(*WIDE, "key=u32[2] shape=(3,) low=-2.0 high=2.0"),
)
def uniform_of_key(
    key: Tensor, *, shape: Shape, low: float = 0.0, high: float = 1.0, dtype: DType = FLOAT32
) -> Tensor:
    """Uniformly distributed numbers in [low, high), those of `jax.random.uniform`.

    Inputs:
        $key

    Attributes:
        $shape
        low: The smallest number.
        high: The upper bound, exclusive up to rounding.
        $real

    Outputs:
        out: dtype[*shape].

    $errors
    """
    bounds = np.asarray(low, dtype), np.asarray(high, dtype)
    return draw_each(
        key, shape, lambda key, shape: jax.random.uniform(key, shape, dtype, *bounds)
    )


@draws_of_key(
    operations=80,
    examples=(*WIDE, "key=u32[2] shape=(3,) low=-1.0 high=3.0"),
)
def truncated_normal_of_key(
    key: Tensor, *, shape: Shape, low: float = -2.0, high: float = 2.0, dtype: DType = FLOAT32
) -> Tensor:
    """Standard normal numbers given a range, those of `jax.random.truncated_normal`.

        density(x) = exp(-x^2 / 2) / z  for low < x < high,  z the integral there

    Inputs:
        $key

    Attributes:
        $shape
        low: The lower limit.
        high: The upper limit.
        $real

    Outputs:
        out: dtype[*shape].

    $errors
    """
    bounds = np.asarray(low, dtype), np.asarray(high, dtype)
    return draw_each(
        key, shape, lambda key, shape: jax.random.truncated_normal(key, *bounds, shape, dtype)
    )


@uniform_of_key.infer
@truncated_normal_of_key.infer
def infer_bounded_draw(
    context: InferenceContext, key: TensorType, *, low: float, high: float, **attrs: Any
) -> TensorType:
    """Infer real numbers of a shape."""
    del low, high
    return infer_key_draw(context, key, **attrs)


@draws_of_key(
    infer=infer_key_draw,
    operations=48,
    examples=WIDE,
)
def normal_of_key(key: Tensor, *, shape: Shape, dtype: DType = FLOAT32) -> Tensor:
    """Standard normal numbers, those of `jax.random.normal`.

        density(x) = exp(-x^2 / 2) / sqrt(2 pi)

    Inputs:
        $key

    Attributes:
        $shape
        $real

    Outputs:
        out: dtype[*shape].

    $errors
    """
    return draw_each(key, shape, lambda key, shape: jax.random.normal(key, shape, dtype))


@draws_of_key(
    infer=infer_key_draw,
    operations=48,
    examples=WIDE,
)
def gumbel_of_key(key: Tensor, *, shape: Shape, dtype: DType = FLOAT32) -> Tensor:
    """Gumbel variables, those of `jax.random.gumbel`.

        out[i] = -log(-log(u[i])),  u[i] uniform in (0, 1)

    Inputs:
        $key

    Attributes:
        $shape
        $real

    Outputs:
        out: dtype[*shape].

    $errors
    """

    def draw(key: Any, shape: Any) -> Any:
        return jax.random.gumbel(key, shape, dtype, mode="low")

    return draw_each(key, shape, draw)


@draws_of_key(
    infer=infer_key_draw,
    operations=36,
    examples=WIDE,
)
def exponential_of_key(key: Tensor, *, shape: Shape, dtype: DType = FLOAT32) -> Tensor:
    """Exponential variables, those of `jax.random.exponential`.

        out[i] = -log(1 - u[i]),  u[i] uniform in [0, 1)

    Inputs:
        $key

    Attributes:
        $shape
        $real

    Outputs:
        out: dtype[*shape].

    $errors
    """
    return draw_each(key, shape, lambda key, shape: jax.random.exponential(key, shape, dtype))
