"""Rules of array creation and random operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import log1p, pi, sqrt
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import range_length
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.torch.rules.tensor.arithmetic import as_variable, operand, promoted_dtype
from braces.extend import data_dependent, functions as ops, layers, random
from braces.extend.building import Var, emit
from braces.extend.programs import Literal
from braces.extend.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    Size,
    is_float,
    is_integer,
)

Sizes = Sequence[Size]


def fill_shape(shape: Sizes, value: Any, *, dtype: DType | None = None) -> Var:
    """Fill a shape with one number."""
    fill_dtype = promoted_dtype(value) if dtype is None else dtype
    return ops.broadcast_to(scalar(value, dtype=fill_dtype), shape)


def full_like(x: Var, value: Any, *, dtype: DType | None = None) -> Var:
    """A filled array in the shape of another one."""
    return fill_shape(x.shape, value, dtype=dtype or x.dtype)


def scalar(value: Any, *, dtype: DType | None = None) -> Var:
    """Return a number as a scalar."""
    return as_variable(value, promoted_dtype(value) if dtype is None else dtype)


def arange(*bounds: Any, dtype: DType | None = None) -> Var:
    """A range: `stop`, or `start, stop`, or with a step."""
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    range_dtype = promoted_dtype(start, stop, step) if dtype is None else dtype
    if any(isinstance(v, Var) for v in (start, stop, step)):
        return _counted((start, stop, step), range_dtype)
    if not sizes.symbolic(start, stop, step):
        numbers: Any = np.arange(start, stop, step)
        return emit("constant", value=Literal.of(np.asarray(numbers).astype(range_dtype)))
    if step != 1:
        return _counted((start, stop, step), range_dtype)
    count = sizes.largest(sizes.minus(stop, start), 0)
    steps = emit("arange", stop=count)
    if start != 0:
        steps = steps + operand(start, INT64)
    return cast_to_dtype(steps, range_dtype)


def _counted(bounds: Sequence[Any], dtype: DType) -> Var:
    """Return a range of data-dependent length."""
    start, stop, step = (ops.reshape(scalar(v, dtype=dtype), ()) for v in bounds)
    count = data_dependent.as_size(range_length(start, stop, step))
    return cast_to_dtype(emit("arange", stop=count), dtype) * step + start


def eye(rows: Size, columns: Size | None = None, *, dtype: DType = FLOAT32) -> Var:
    """Ones on a diagonal."""
    return ops.eye(rows, rows if columns is None else columns, dtype=dtype)


def linspace(start: Any, stop: Any, count: int, *, dtype: DType = FLOAT32) -> Var:
    """Evenly spaced numbers between two numbers or scalar arrays.

    Integers are truncated: both ends first, and then the numbers between them.
    """
    if not (is_integer(dtype) or isinstance(start, Var) or isinstance(stop, Var)):
        return ops.linspace(start, stop, num=count, dtype=dtype)
    steps = emit("arange", stop=count)
    work = FLOAT64 if is_integer(dtype) else dtype
    first, last = (
        cast_to_dtype(cast_to_dtype(ops.reshape(scalar(v), ()), dtype), work)
        for v in (start, stop)
    )
    width = (last - first) / max(count - 1, 1)
    from_start = first + width * cast_to_dtype(steps, work)
    from_stop = last - width * cast_to_dtype(count - 1 - steps, work)
    return cast_to_dtype(ops.where(steps < max(count // 2, 1), from_start, from_stop), dtype)


def dropout(x: Var, rate: float, training: bool = True) -> Var:
    """Dropout in training mode."""
    return layers.dropout(x, rate) if training and rate else x


def native_dropout(x: Var, rate: float, training: bool | None = True) -> tuple[Var, Var]:
    """Dropout, with its mask."""
    if not training or not rate:
        return x, ops.ones_like(x, dtype=BOOL)
    dropped = layers.dropout(x, rate)
    return dropped, ops.not_equal(dropped, 0)


def bernoulli(x: Var, p: float | None = None) -> Var:
    """1 with a probability, else 0."""
    chance = x if p is None else p
    return cast_to_dtype(random.uniform(x.shape, dtype=FLOAT32) < chance, x.dtype)


def copy(x: Var, source: Any, non_blocking: bool = False) -> Var:
    """Another array's values, in the shape and dtype of this one."""
    return fill_shape(x.shape, source, dtype=x.dtype)


def uniform(shape: Sizes, *, dtype: DType = FLOAT32) -> Var:
    """Uniform random numbers in [0, 1); of both parts, if they are complex."""
    return _draw_parts(random.uniform, shape, dtype)


def normal(shape: Sizes, *, dtype: DType = FLOAT32) -> Var:
    """Normal random numbers of variance 1; both parts of complex ones have variance 1/2."""
    numbers = _draw_parts(random.normal, shape, dtype)
    return numbers * sqrt(0.5) if dtype.kind == "c" else numbers


def _draw_parts(draw: Callable[..., Var], shape: Sizes, dtype: DType) -> Var:
    """Return random numbers; complex ones have two parts."""
    if dtype.kind != "c":
        return draw(tuple(shape), dtype=dtype)
    part = np.finfo(dtype).dtype
    return ops.complex(*(draw(tuple(shape), dtype=part) for _ in range(2)))


def new_full(x: Var, shape: Sizes, value: Any, *, dtype: DType | None = None) -> Var:
    """A filled array in the dtype of another one."""
    return fill_shape(shape, value, dtype=dtype or x.dtype)


def random_like_rule(draw: Callable[..., Var]) -> Callable[..., Var]:
    """Return the rule of random numbers in the shape of another array."""

    def rule(x: Var, *, dtype: DType | None = None) -> Var:
        return draw(x.shape, dtype=dtype or x.dtype)

    return rule


def random_integers(*bounds: Any, dtype: DType = INT64) -> Var:
    """Random integers: `high, shape`, or `low, high, shape`."""
    low, high, shape = (0, *bounds) if len(bounds) == 2 else bounds
    if isinstance(high, Var):
        width = cast_to_dtype(ops.reshape(high, ()), FLOAT32) - low
        draw = ops.floor(random.uniform(tuple(shape), dtype=FLOAT32) * width) + low
        return cast_to_dtype(draw, dtype)
    if is_float(dtype):
        return cast_to_dtype(random_integers(low, high, shape), dtype)
    return random.randint(tuple(shape), low, high, dtype=dtype)


def random_integers_like(x: Var, *bounds: Any, dtype: DType | None = None) -> Var:
    """Random integers in the shape of an array."""
    return random_integers(*bounds, x.shape, dtype=dtype or x.dtype)


def permutation(count: Size, *, dtype: DType = INT64) -> Var:
    """A random permutation."""
    return cast_to_dtype(random.permutation(emit("arange", stop=count)), dtype)


def normal_around(
    mean: Any, deviation: Any = 1.0, shape: Sizes | None = None, *, dtype: DType | None = None
) -> Var:
    """Normal random numbers with mean and deviation, each an array or a number."""
    arrays = [v for v in (mean, deviation) if isinstance(v, Var)]
    if shape is None:
        shape = reduce(ops.add, arrays).shape
    default_dtype = promoted_dtype(*arrays) if arrays else FLOAT32
    samples = normal(shape, dtype=dtype or default_dtype)
    return samples * deviation + mean


def normal_like(x: Var, mean: float = 0.0, deviation: float = 1.0) -> Var:
    """Normal random numbers in the shape of an array."""
    return normal_around(mean, deviation, x.shape, dtype=x.dtype)


def strided(shape: Sizes, strides: Sizes, *, dtype: DType = FLOAT32) -> Var:
    """Zeros; programs have no strides."""
    return fill_shape(shape, 0, dtype=dtype)


def new_strided(x: Var, shape: Sizes, strides: Sizes, *, dtype: DType | None = None) -> Var:
    """Zeros in the dtype of another array; programs have no strides."""
    return fill_shape(shape, 0, dtype=dtype or x.dtype)


def exponential(x: Var, rate: float = 1.0) -> Var:
    """Exponential random numbers in the shape of an array."""
    return -ops.log1p(-random.uniform(x.shape, dtype=x.dtype)) / rate


def uniform_between(x: Var, low: float = 0.0, high: float = 1.0) -> Var:
    """Uniform random numbers between two bounds in the shape of an array."""
    if x.dtype.kind != "c":
        return uniform(x.shape, dtype=x.dtype) * (high - low) + low
    return uniform(x.shape, dtype=x.dtype) * (high - low) + complex(low, low)


def cauchy(x: Var, median: float = 0.0, width: float = 1.0) -> Var:
    """Random numbers of a Cauchy distribution in the shape of an array."""
    angle = (random.uniform(x.shape, dtype=x.dtype) - 0.5) * pi
    return ops.tan(angle) * width + median


def log_normal(x: Var, mean: float = 1.0, deviation: float = 2.0) -> Var:
    """Exponentials of normal random numbers in the shape of an array."""
    return ops.exp(normal_like(x, mean, deviation))


def geometric(x: Var, p: float) -> Var:
    """Numbers of trials up to the first success in the shape of an array."""
    if p == 1:
        return ops.ones_like(x)
    logs = ops.log1p(-random.uniform(x.shape, dtype=FLOAT32))
    return cast_to_dtype(ops.maximum(ops.ceil(logs / log1p(-p)), 1.0), x.dtype)


def triangle_indices(numbers: Callable[..., Any]) -> Callable[..., Var]:
    """Return the rule of the row and column indices of a triangle."""

    def rule(rows: int, columns: int, offset: int = 0, *, dtype: DType = INT64) -> Var:
        pairs = np.stack(numbers(rows, offset, columns))
        return emit("constant", value=Literal.of(pairs.astype(dtype)))

    return rule


def multinomial(weights: Var, count: int, again: bool = False) -> Var:
    """Random indices by weights, with replacement or without."""
    logs = ops.log(weights)
    if not again:
        noise = -ops.log(-ops.log(random.uniform(weights.shape, dtype=weights.dtype)))
        return cast_to_dtype(ops.topk(logs + noise, k=count, axis=-1)[1], INT64)
    repeated_logs = ops.expand_dims(logs, axis=-2)
    shape = (*weights.shape[:-1], count, weights.shape[-1])
    return cast_to_dtype(random.categorical(ops.broadcast_to(repeated_logs, shape)), INT64)


def rrelu(x: Var, low: float = 1 / 8, high: float = 1 / 3, training: bool = False) -> Var:
    """Leaky ReLU with random slopes, or their mean outside training."""
    slope: Any = (low + high) / 2
    if training:
        slope = random.uniform(x.shape, dtype=x.dtype) * (high - low) + low
    return ops.where(x > 0, x, x * slope)


MAKING: Mapping[str, Callable[..., Any]] = {
    "arange": arange,
    "bernoulli": bernoulli,
    "cauchy": cauchy,
    "copy": copy,
    "dropout": dropout,
    "empty": partial(fill_shape, value=0, dtype=FLOAT32),
    "empty_like": partial(full_like, value=0),
    "empty_permuted": strided,
    "empty_strided": strided,
    "exponential": exponential,
    "eye": eye,
    "fill": full_like,
    "full": fill_shape,
    "full_like": full_like,
    "geometric": geometric,
    "linspace": linspace,
    "log_normal": log_normal,
    "native_dropout": native_dropout,
    "new_empty": partial(new_full, value=0),
    "new_empty_strided": new_strided,
    "new_full": new_full,
    "new_ones": partial(new_full, value=1),
    "new_zeros": partial(new_full, value=0),
    "ones": partial(fill_shape, value=1, dtype=FLOAT32),
    "ones_like": partial(full_like, value=1),
    "multinomial": multinomial,
    "normal": normal_around,
    "normal_functional": normal_like,
    "rand": uniform,
    "rand_like": random_like_rule(uniform),
    "randint": random_integers,
    "randint_like": random_integers_like,
    "randn": normal,
    "randn_like": random_like_rule(normal),
    "randperm": permutation,
    "rrelu": rrelu,
    "scalar_tensor": scalar,
    "tril_indices": triangle_indices(np.tril_indices),
    "triu_indices": triangle_indices(np.triu_indices),
    "uniform": uniform_between,
    "zeros": partial(fill_shape, value=0, dtype=FLOAT32),
    "zeros_like": partial(full_like, value=0),
}
