"""Learning rates that follow from the count of steps.

A schedule stands in the place of a number:

    br.optimizer.sgd(br.schedule.cosine_decay(0.1, steps=1000))

It is a function from the count of steps done, a variable, to the number as a variable; any such
function will do. The ones here are operators over the schedules of optax, and remember what
they are:

    >>> import braces as br
    >>> br.schedule.cosine_decay(0.1, steps=1000)
    cosine_decay(init_value=0.1, steps=1000, alpha=0.0, exponent=1.0)

They take arrays of counts too, which shows their whole course.

`br.optimizer` has them in optax's spelling too:

    br.optimizer.cosine_decay_schedule(init_value=0.1, decay_steps=1000)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.dtypes import DType, dtype_of
from braces.errors import ProgramError
from braces.frontend.guard import missing_from
from braces.ops.build import Operand, Var, as_var, one
from braces.ops.define import OPS
from braces.ops.source import says_where


class Schedule:
    """A number that follows from the count of steps.

    Attributes:
        text: How it was made.
    """

    def __init__(self, build: Callable[[Var, DType], Var], text: str) -> None:
        self._build = build
        self.text = text

    def __call__(self, count: Operand, dtype: object = "float32") -> Var:
        """The number after this many steps: one for each count.

        Args:
            count: Steps done: integers, of any shape.
            dtype: Of the result.
        """
        return self._build(as_var(count), dtype_of(dtype))

    def __repr__(self) -> str:
        return self.text


def _text(name: str, attrs: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in attrs.items())})"


def _operator(op_type: str, name: str, **attrs: Any) -> Schedule:
    bound = dict(OPS.get(op_type).bind_attrs(attrs))
    bound.pop("dtype")

    def build(count: Var, dtype: DType) -> Var:
        return one(op_type, count, dtype=dtype, **bound)

    return Schedule(build, _text(name, bound))


# ---- courses ---------------------------------------------------------------------------------


@says_where
def constant(value: float) -> Schedule:
    """Always the same number; for `join`."""

    def build(count: Var, dtype: DType) -> Var:
        return one("full", shape=count.shape, value=value, dtype=dtype)

    return Schedule(build, f"constant({value})")


@says_where
def linear(init_value: float, end_value: float, steps: int, *, begin: int = 0) -> Schedule:
    """Along a line; constant before and after it.

    Args:
        init_value: Where it begins.
        end_value: Where it ends.
        steps: How many steps it takes.
        begin: The step that it begins with.
    """
    return polynomial(init_value, end_value, 1.0, steps, begin=begin)


@says_where
def polynomial(
    init_value: float, end_value: float, power: float, steps: int, *, begin: int = 0
) -> Schedule:
    """Along a power; constant before and after it.

        (init_value - end_value) * (1 - s / steps)^power + end_value,   s = count - begin

    Args:
        init_value: Where it begins.
        end_value: Where it ends.
        power: 1 for a line.
        steps: How many steps it takes.
        begin: The step that it begins with.
    """
    return _operator(
        "polynomial_schedule", "polynomial",
        init_value=init_value, end_value=end_value, power=power, steps=steps, begin=begin,
    )  # fmt: skip


@says_where
def exponential_decay(
    init_value: float,
    steps: int,
    decay_rate: float,
    *,
    begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Times a factor every so many steps.

        init_value * decay_rate^((count - begin) / steps)

    Args:
        init_value: Where it begins.
        steps: How many steps the factor stands for.
        decay_rate: The factor.
        begin: The step that it begins with.
        staircase: Whether the exponent is rounded down.
        end_value: Where it stops.
    """
    return _operator(
        "exponential_decay_schedule", "exponential_decay",
        init_value=init_value, steps=steps, decay_rate=decay_rate, begin=begin,
        staircase=staircase, end_value=end_value,
    )  # fmt: skip


@says_where
def cosine_decay(
    init_value: float, steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Down along half a wave, as in SGDR: Stochastic Gradient Descent with Warm Restarts.

        init_value * ((1 - alpha) * ((1 + cos(pi * count / steps)) / 2)^exponent + alpha)

    Args:
        init_value: Where it begins.
        steps: How many steps it takes.
        alpha: Where it ends, as a part of `init_value`.
        exponent: Bends the wave.
    """
    return _operator(
        "cosine_decay_schedule", "cosine_decay",
        init_value=init_value, steps=steps, alpha=alpha, exponent=exponent,
    )  # fmt: skip


@says_where
def warmup_cosine(
    peak_value: float,
    warmup_steps: int,
    steps: int,
    *,
    init_value: float = 0.0,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Up along a line, then down along half a wave.

    Args:
        peak_value: Where the wave begins.
        warmup_steps: How many steps go up.
        steps: How many steps it takes in all.
        init_value: Where it begins.
        end_value: Where it ends.
        exponent: Bends the wave.
    """
    return _operator(
        "warmup_cosine_schedule", "warmup_cosine",
        peak_value=peak_value, warmup_steps=warmup_steps, steps=steps,
        init_value=init_value, end_value=end_value, exponent=exponent,
    )  # fmt: skip


@says_where
def piecewise_constant(init_value: float, factors: Mapping[int, float]) -> Schedule:
    """Down in steps: from each boundary on times its factor.

    Args:
        init_value: Where it begins.
        factors: Boundary to factor: `{1000: 0.1, 2000: 0.1}`.
    """
    pairs = sorted(factors.items())
    return _operator(
        "piecewise_constant_schedule", "piecewise_constant", init_value=init_value,
        boundaries=tuple(b for b, _ in pairs), factors=tuple(f for _, f in pairs),
    )  # fmt: skip


@says_where
def noam(size: int, warmup_steps: int, *, factor: float = 1.0) -> Schedule:
    """Up along a line, then down as the inverse root of the steps.

        factor * size^-0.5 * min(n^-0.5, n * warmup_steps^-1.5),   n = count + 1

    Source: Vaswani et al., Attention Is All You Need, 2017.

    Args:
        size: The width of the model.
        warmup_steps: How many steps go up.
        factor: Scales it all.
    """
    if size <= 0 or warmup_steps <= 0:
        raise ProgramError(f"noam has size={size} and warmup_steps={warmup_steps}.")
    slope, scale = warmup_steps**-1.5, factor * size**-0.5

    def build(count: Var, dtype: DType) -> Var:
        steps = one("cast", count, dtype=dtype) + 1.0
        return one("minimum", steps**-0.5, steps * slope) * scale

    return Schedule(build, f"noam({size}, {warmup_steps}, factor={factor})")


@says_where
def join(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after another, each of which counts from its own beginning.

    Args:
        schedules: In order.
        boundaries: The step that each but the first one begins with.

    Example:
        >>> import braces as br
        >>> br.schedule.join([br.schedule.constant(0.1), br.schedule.constant(0.01)], [1000])
        join([constant(0.1), constant(0.01)], [1000])
    """
    starts = list(boundaries)
    if len(schedules) != len(starts) + 1 or sorted(set(starts)) != starts:
        raise ProgramError(
            f"join is given {len(schedules)} schedules and the boundaries {starts}.",
            fix="The boundaries increase, and there is one less of them than of schedules.",
        )

    def build(count: Var, dtype: DType) -> Var:
        value = schedules[0](count, dtype)
        for start, schedule in zip(starts, schedules[1:], strict=True):
            value = one("where", count < start, value, schedule(count - start, dtype))
        return value

    return Schedule(build, f"join({list(schedules)}, {starts})")


# ---- in optax's spelling ---------------------------------------------------------------------


def constant_schedule(value: float) -> Schedule:
    """`constant`."""
    return constant(value)


def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """`linear`."""
    return linear(init_value, end_value, transition_steps, begin=transition_begin)


def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """`polynomial`."""
    return polynomial(init_value, end_value, power, transition_steps, begin=transition_begin)


def exponential_decay_schedule(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """`exponential_decay`."""
    return exponential_decay(
        init_value, transition_steps, decay_rate,
        begin=transition_begin, staircase=staircase, end_value=end_value,
    )  # fmt: skip


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """`cosine_decay`."""
    return cosine_decay(init_value, decay_steps, alpha, exponent)


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """`piecewise_constant`."""
    return piecewise_constant(init_value, boundaries_and_scales or {})


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """`warmup_cosine`."""
    return warmup_cosine(
        peak_value, warmup_steps, decay_steps,
        init_value=init_value, end_value=end_value, exponent=exponent,
    )  # fmt: skip


join_schedules = join


__all__ = [
    "Schedule",
    "constant",
    "cosine_decay",
    "exponential_decay",
    "join",
    "linear",
    "noam",
    "piecewise_constant",
    "polynomial",
    "warmup_cosine",
]

__getattr__ = missing_from("br.schedule", __all__)
