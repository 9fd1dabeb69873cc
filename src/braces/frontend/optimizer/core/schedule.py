"""Learning rates as functions of the count of steps: the schedules of optax.

    br.optimizer.sgd(br.optimizer.cosine_decay_schedule(0.1, decay_steps=1000))

They have optax's names and arguments, and a readable `repr`:

    >>> import braces as br
    >>> br.optimizer.cosine_decay_schedule(0.1, decay_steps=1000)
    cosine_decay_schedule(init_value=0.1, decay_steps=1000, alpha=0.0, exponent=1.0)

Called with counts, they are traced and become operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.append import as_var
from braces.builder.builder import program_in_with
from braces.builder.scalar_promotion import as_array
from braces.builder.source_line import with_user_line
from braces.builder.var import Operand, Var
from braces.define.core.attribute_kinds import coerce_argument
from braces.dtypes import DType, dtype_of, is_float, is_integer
from braces.errors import DTypeError, ProgramError
from braces.frontend.optimizer.core.recorded_call import RecordedCall, record_call
from braces.jaxpr.trace import trace
from braces.lazy import jax, jnp, optax


class Schedule(RecordedCall):
    """A number as a function of the count of steps, given by a function of JAX.

    Attributes:
        course: The function from a count to a number, in `jax.numpy`.

    Example:
        >>> import braces as br
        >>> import optax
        >>> restarts = br.optimizer.Schedule(optax.sgdr_schedule([{"init_value": 0.0,
        ...     "peak_value": 0.1, "warmup_steps": 1, "decay_steps": 5}]))
        >>> with br.Program() as prog:
        ...     rates = restarts([0, 1, 5])
        >>> br.Executor().run(prog, br.Scope(), fetch=rates)
        array([0. , 0.1, 0. ], dtype=float32)
    """

    def __init__(self, course: Callable[[Any], Any], text: str = "") -> None:
        self.course = course
        self._text = text or f"Schedule({course!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the recorded call; a schedule of a custom function is rebuilt from it."""
        if self._call is None:
            self._call = Schedule, (self.course, self._text), {}
        return super().__reduce__()

    def __call__(self, count: Operand, dtype: object = "float32") -> Any:
        """Return the number after this many steps: one for each count.

        Outside of any program, numbers and arrays give numbers and arrays: `schedule(100)` is a
        float. In a program, and for variables, the result is a variable.

        Args:
            count: Number of steps: integers, of any shape.
            dtype: The dtype of the result.

        Raises:
            DTypeError: If the counts are not integers, or `dtype` is not a real float.
            ProgramError: If the function cannot be traced.
        """
        if program_in_with() is None and not isinstance(count, Var):
            return evaluate_schedule(self, count, dtype)
        return append_schedule(self, count, dtype)

    def __repr__(self) -> str:
        return self._text


@with_user_line
def append_schedule(schedule: Schedule, count: Operand, dtype: object) -> Var:
    """Append the numbers of a schedule after these counts of steps."""
    steps = as_var(count)
    numbers = _numbers(schedule, steps.type, steps.dtype, steps.ndim, dtype)
    return trace(f"The schedule {schedule}", numbers, steps).build(steps)


@with_user_line
def evaluate_schedule(schedule: Schedule, count: Any, dtype: object) -> Any:
    """Return the numbers of a schedule as values: a float for one count, else an array."""
    steps = as_array(count)
    numbers = _numbers(schedule, steps.dtype, steps.dtype, steps.ndim, dtype)
    numpy: Any = jnp  # its own types are not all known
    with jax.enable_x64(True):
        array = np.asarray(numbers(numpy.asarray(steps)))
    return array if steps.ndim else float(array)


def _numbers(
    curve: Schedule, counts_type: object, counts: DType, ndim: int, dtype: object
) -> Callable[[Any], Any]:
    """Return a JAX function from counts of steps to numbers."""
    number_type = dtype_of(dtype)
    if not is_integer(counts):
        raise DTypeError(f"schedule: expected an integer step count, got {counts_type}.")
    if not is_float(number_type) or number_type.kind == "c":
        raise DTypeError(f"a schedule supports real floating dtypes, got {number_type}.")

    def number(count: Any) -> Any:
        numpy: Any = jnp  # its own types are not all known
        return numpy.asarray(curve.course(count), number_type)

    numbers = number
    for _ in range(ndim):
        numbers = jax.vmap(numbers)
    return numbers


def _schedule(name: str, course: Callable[..., Any], **attrs: Any) -> Schedule:
    arguments = ", ".join(f"{key}={value!r}" for key, value in attrs.items())
    return Schedule(course(**attrs), f"{name}({arguments})")


def _check_steps(name: str, argument: str, steps: int) -> None:
    if steps <= 0:
        raise ProgramError(
            f"{name}: expected {argument} of 1 or more, got {steps}.",
            fix=f"Use {argument}=1000.",
        )


# ---- schedules -------------------------------------------------------------------------------


@record_call
@with_user_line
def constant_schedule(value: float) -> Schedule:
    """A constant; for `join_schedules`."""
    return _schedule("constant_schedule", optax.constant_schedule, value=value)


@record_call
@with_user_line
def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Linear interpolation between two values; constant before and after it.

    Args:
        init_value: Initial value.
        end_value: Final value.
        transition_steps: Number of steps of the transition.
        transition_begin: First step of the transition.
    """
    _check_steps("linear_schedule", "transition_steps", transition_steps)
    return _schedule(
        "linear_schedule", optax.linear_schedule, init_value=init_value, end_value=end_value,
        transition_steps=transition_steps, transition_begin=transition_begin,
    )  # fmt: skip


@record_call
@with_user_line
def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Polynomial interpolation between two values; constant before and after it.

        (init_value - end_value) * (1 - s / transition_steps)^power + end_value

    where s = count - transition_begin.

    Args:
        init_value: Initial value.
        end_value: Final value.
        power: The exponent; 1 is linear.
        transition_steps: Number of steps of the transition.
        transition_begin: First step of the transition.
    """
    _check_steps("polynomial_schedule", "transition_steps", transition_steps)
    return _schedule(
        "polynomial_schedule", optax.polynomial_schedule, init_value=init_value,
        end_value=end_value, power=power, transition_steps=transition_steps,
        transition_begin=transition_begin,
    )  # fmt: skip


@record_call
@with_user_line
def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Exponential decay by a factor per `transition_steps` steps.

        init_value * decay_rate^((count - transition_begin) / transition_steps)

    Args:
        init_value: Initial value.
        transition_steps: Number of steps per factor.
        decay_rate: The factor.
        transition_begin: First step of the decay.
        staircase: Whether the exponent is rounded down.
        end_value: The bound of the values: a lower one if the factor is below 1, else an upper
            one.
    """
    _check_steps("exponential_decay", "transition_steps", transition_steps)
    return _schedule(
        "exponential_decay", optax.exponential_decay, init_value=init_value,
        transition_steps=transition_steps, decay_rate=decay_rate,
        transition_begin=transition_begin, staircase=staircase, end_value=end_value,
    )  # fmt: skip


@record_call
@with_user_line
def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Decay along half a cosine wave.

        init_value * ((1 - alpha) * ((1 + cos(pi * count / decay_steps)) / 2)^exponent + alpha)

    Source: Loshchilov, Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016.

    Args:
        init_value: Initial value.
        decay_steps: Number of steps of the decay.
        alpha: Final value as a fraction of `init_value`.
        exponent: Exponent of the wave.
    """
    _check_steps("cosine_decay_schedule", "decay_steps", decay_steps)
    return _schedule(
        "cosine_decay_schedule", optax.cosine_decay_schedule, init_value=init_value,
        decay_steps=decay_steps, alpha=alpha, exponent=exponent,
    )  # fmt: skip


@record_call
@with_user_line
def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Linear warm-up, then decay along half a cosine wave.

    Args:
        init_value: Initial value.
        peak_value: Value at the start of the decay.
        warmup_steps: Number of warm-up steps.
        decay_steps: Total number of steps, including the warm-up.
        end_value: Final value.
        exponent: Exponent of the wave.

    Raises:
        ProgramError: If `decay_steps` does not exceed the warm-up.
    """
    if not 0 <= warmup_steps < decay_steps:
        raise ProgramError(
            "warmup_cosine_decay_schedule: expected 0 <= warmup_steps < decay_steps.",
            given=f"warmup_steps={warmup_steps}, decay_steps={decay_steps}",
            fix="Pass the total number of steps, including the warm-up, as decay_steps.",
        )
    return _schedule(
        "warmup_cosine_decay_schedule", optax.warmup_cosine_decay_schedule,
        init_value=init_value, peak_value=peak_value, warmup_steps=warmup_steps,
        decay_steps=decay_steps, end_value=end_value, exponent=exponent,
    )  # fmt: skip


@record_call
@with_user_line
def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Piecewise constant values, multiplied by a factor at each boundary.

    Args:
        init_value: Initial value.
        boundaries_and_scales: Boundary and factor: `{1000: 0.1, 2000: 0.1}`.

    Raises:
        ProgramError: If a boundary is not an integer, or a factor is not a number or is
            negative.
    """
    name, scale_by_boundary = "piecewise_constant_schedule", dict(boundaries_and_scales or {})
    scales = {
        coerce_argument(name, "a boundary", "int", b): coerce_argument(
            name, "a scale", "float", scale_by_boundary[b]
        )
        for b in sorted(scale_by_boundary)
    }
    if any(not scale >= 0 for scale in scales.values()):
        raise ProgramError(
            f"{name}: expected scales of 0 or more, got {scales}.", fix="Use 0.1 for a tenth."
        )
    return _schedule(
        name, optax.piecewise_constant_schedule,
        init_value=init_value, boundaries_and_scales=scales,
    )  # fmt: skip


@record_call
@with_user_line
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Concatenate schedules; each counts from its own start.

    Args:
        schedules: The schedules in order.
        boundaries: The first step of each schedule but the first.

    Raises:
        ProgramError: If the boundaries do not increase, or their number does not match the
            schedules.

    Example:
        >>> from braces import optimizer as opt
        >>> rates = [opt.constant_schedule(0.1), opt.constant_schedule(0.01)]
        >>> opt.join_schedules(rates, [1000])
        join_schedules([constant_schedule(value=0.1), constant_schedule(value=0.01)], [1000])
    """
    starts, joined = list(boundaries), list[Any](schedules)
    if len(joined) != len(starts) + 1 or sorted(set(starts)) != starts:
        raise ProgramError(
            f"join_schedules got {len(joined)} schedules and the boundaries {starts}.",
            fix="Pass increasing boundaries, one fewer than schedules.",
        )
    for item in joined:
        if not isinstance(item, Schedule):
            raise ProgramError(
                f"join_schedules: expected schedules of br.optimizer, got {item!r:.80}.",
                fix="Wrap a function of jax.numpy in br.optimizer.Schedule(function).",
            )
    course = optax.join_schedules([item.course for item in joined], starts)
    return Schedule(course, f"join_schedules({joined}, {starts})")
