"""Schedules: numbers that follow from how many steps were done.

The arithmetic is optax's; t is the count, from 0. Each operator is elementwise in it, so that a
whole course can be computed at once. Where 64-bit numbers are there, they are used on the way.
"""

from __future__ import annotations

from typing import Any

from braces.dtypes import FLOAT32, DType, TensorType, is_float, is_integer
from braces.errors import DTypeError, ProgramError
from braces.lazy import jax, jnp, optax
from braces.ops.define import Tensor, op
from braces.ops.inference import Context
from braces.ops.kinds import KINDS


def _factors(given: Any) -> tuple[float, ...]:
    return tuple(map(KINDS["float"], given))


KINDS["Factors"] = _factors
Factors = tuple[float, ...]
"""The kind of an attribute that holds any number of floats."""


def scheduled(context: Context, count: TensorType, *, dtype: DType, **attrs: Any) -> TensorType:
    """Inference: one float for each count.

    Raises:
        DTypeError: The counts are no integers, or the result is to be no float.
        ProgramError: A number of steps is not above 0.
    """
    if not is_integer(count.dtype):
        raise DTypeError(f"{context.type} takes a count of steps, an integer, not {count}.")
    if not is_float(dtype) or dtype.kind == "c":
        raise DTypeError(f"{context.type} gives real numbers, not {dtype}.")
    if attrs.get("steps", 1) <= 0:
        raise ProgramError(
            f"{context.type} has steps={attrs['steps']}.", fix="A course takes a step or more."
        )
    return count.with_dtype(dtype)


def _run(schedule: Any, count: Any, dtype: DType) -> Any:
    with jax.numpy_dtype_promotion("standard"):
        return jnp.broadcast_to(jnp.asarray(schedule(count), dtype), count.shape)


@op(
    infer=scheduled,
    differentiable=False,
    function=False,
    examples=(
        "count=i32[] init_value=0.5 end_value=0.1 power=2.0 steps=10",
        "count=i64[b] init_value=0.5 end_value=0.1 power=1.0 steps=3 begin=2 dtype=f64",
    ),
)
def polynomial_schedule(
    count: Tensor,
    *,
    init_value: float,
    end_value: float,
    power: float,
    steps: int,
    begin: int = 0,
    dtype: DType = FLOAT32,
) -> Tensor:
    """From one number to another along a power.

        s = min(max(t - begin, 0), steps)
        out = (init_value - end_value) * (1 - s / steps)^power + end_value

    Inputs:
        count: i[*shape]. Steps done.

    Attributes:
        init_value: Where it begins.
        end_value: Where it ends.
        power: 1 for a straight line.
        steps: How many steps it takes.
        begin: The step that it begins with.
        dtype: Of the result.

    Outputs:
        out: dtype[*shape].
    """
    course = optax.polynomial_schedule(init_value, end_value, power, steps, begin)
    return _run(course, count, dtype)


@op(
    infer=scheduled,
    differentiable=False,
    function=False,
    examples=(
        "count=i32[] init_value=0.5 decay_rate=0.9 steps=10",
        "count=i64[b] init_value=0.5 decay_rate=0.5 steps=2 begin=1 staircase=True dtype=f64",
        "count=i32[b] init_value=0.5 decay_rate=0.5 steps=2 end_value=0.2",
    ),
)
def exponential_decay_schedule(
    count: Tensor,
    *,
    init_value: float,
    decay_rate: float,
    steps: int,
    begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
    dtype: DType = FLOAT32,
) -> Tensor:
    """Times a factor every so many steps.

        out = init_value * decay_rate^((t - begin) / steps) where t > begin, else init_value

    Inputs:
        count: i[*shape]. Steps done.

    Attributes:
        init_value: Where it begins.
        decay_rate: The factor.
        steps: How many steps the factor stands for.
        begin: The step that it begins with.
        staircase: Whether the exponent is rounded down.
        end_value: Where it stops; a lower bound where the factor is below 1, else an upper one.
        dtype: Of the result.

    Outputs:
        out: dtype[*shape].
    """
    course = optax.exponential_decay(init_value, steps, decay_rate, begin, staircase, end_value)
    return _run(course, count, dtype)


@op(
    infer=scheduled,
    differentiable=False,
    function=False,
    examples=(
        "count=i32[] init_value=0.5 steps=10",
        "count=i64[b] init_value=0.5 steps=3 alpha=0.1 exponent=2.0 dtype=f64",
    ),
)
def cosine_decay_schedule(
    count: Tensor,
    *,
    init_value: float,
    steps: int,
    alpha: float = 0.0,
    exponent: float = 1.0,
    dtype: DType = FLOAT32,
) -> Tensor:
    """Down along half a wave.

        c = (1 + cos(pi * min(t, steps) / steps)) / 2
        out = init_value * ((1 - alpha) * c^exponent + alpha)

    Source: Loshchilov, Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.

    Inputs:
        count: i[*shape]. Steps done.

    Attributes:
        init_value: Where it begins.
        steps: How many steps it takes.
        alpha: Where it ends, as a part of `init_value`.
        exponent: Bends the wave.
        dtype: Of the result.

    Outputs:
        out: dtype[*shape].
    """
    course = optax.cosine_decay_schedule(init_value, steps, alpha, exponent)
    return _run(course, count, dtype)


@op(
    infer=scheduled,
    differentiable=False,
    function=False,
    examples=(
        "count=i32[] peak_value=0.5 warmup_steps=2 steps=10",
        "count=i64[b] peak_value=0.5 warmup_steps=1 steps=3 init_value=0.1 end_value=0.2",
        "count=i64[b] peak_value=0.5 warmup_steps=0 steps=3 exponent=2.0 dtype=f64",
    ),
)
def warmup_cosine_schedule(
    count: Tensor,
    *,
    peak_value: float,
    warmup_steps: int,
    steps: int,
    init_value: float = 0.0,
    end_value: float = 0.0,
    exponent: float = 1.0,
    dtype: DType = FLOAT32,
) -> Tensor:
    """Up along a line, then down along half a wave.

        out = init_value + (peak_value - init_value) * t / warmup_steps where t < warmup_steps
        out = end_value + (peak_value - end_value) * c^exponent from there on
        c = (1 + cos(pi * min(t - warmup_steps, n) / n)) / 2,   n = steps - warmup_steps

    Inputs:
        count: i[*shape]. Steps done.

    Attributes:
        peak_value: Where the wave begins.
        warmup_steps: How many steps go up.
        steps: How many steps it takes in all.
        init_value: Where it begins.
        end_value: Where it ends.
        exponent: Bends the wave.
        dtype: Of the result.

    Outputs:
        out: dtype[*shape].

    Raises:
        ProgramError: Nothing is left of `steps` after the warm-up.
    """
    course = optax.warmup_cosine_decay_schedule(
        init_value, peak_value, warmup_steps, steps, end_value, exponent
    )
    return _run(course, count, dtype)


@warmup_cosine_schedule.infer
def infer_warmup_cosine_schedule(
    context: Context, count: TensorType, *, warmup_steps: int, steps: int, **attrs: Any
) -> TensorType:
    """One float for each count; the warm-up is shorter than the whole."""
    if not 0 <= warmup_steps < steps:
        raise ProgramError(
            f"{context.type} has warmup_steps={warmup_steps} and steps={steps}.",
            fix="0 <= warmup_steps < steps, which counts the warm-up too.",
        )
    return scheduled(context, count, steps=steps, **attrs)


@op(
    infer=scheduled,
    differentiable=False,
    function=False,
    examples=(
        "count=i32[] init_value=0.5 boundaries=(2,4) factors=(0.5,0.1)",
        "count=i64[b] init_value=0.5 boundaries=(1,) factors=(0.5,) dtype=f64",
        "count=i64[b] init_value=0.5 boundaries=() factors=()",
    ),
)
def piecewise_constant_schedule(
    count: Tensor,
    *,
    init_value: float,
    boundaries: tuple[int, ...],
    factors: Factors,
    dtype: DType = FLOAT32,
) -> Tensor:
    """Down in steps.

        out = init_value * product of factors[i] where t >= boundaries[i]

    Inputs:
        count: i[*shape]. Steps done.

    Attributes:
        init_value: Where it begins.
        boundaries: From which steps on the factors count.
        factors: One for each of `boundaries`.
        dtype: Of the result.

    Outputs:
        out: dtype[*shape].

    Raises:
        ProgramError: There are not as many factors as boundaries, a factor is below 0, or the
            boundaries do not increase.
    """
    scales = dict(zip(boundaries, factors, strict=True))
    return _run(optax.piecewise_constant_schedule(init_value, scales), count, dtype)


@piecewise_constant_schedule.infer
def infer_piecewise_constant_schedule(
    context: Context,
    count: TensorType,
    *,
    boundaries: tuple[int, ...],
    factors: tuple[float, ...],
    **attrs: Any,
) -> TensorType:
    """One float for each count; boundaries and factors go together."""
    if len(boundaries) != len(factors) or sorted(set(boundaries)) != list(boundaries):
        raise ProgramError(
            f"{context.type} has boundaries={boundaries} and factors={factors}.",
            fix="The boundaries increase, and there is one factor for each.",
        )
    if any(not factor >= 0 for factor in factors):
        raise ProgramError(f"{context.type} has factors={factors}.", fix="None is below 0.")
    return scheduled(context, count, **attrs)
