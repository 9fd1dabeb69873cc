"""Averages of parameters over the steps, as states of the program.

pairs = br.optimizer.adam(1e-3).minimize(loss)
averages = br.optimizer.ema(pairs, decay=0.999)      ema/count  ema/fc1.w
test = prog.for_test(values=averages)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braces.builder.builder import Builder
from braces.builder.source_line import with_user_line
from braces.builder.var import Var, named_var
from braces.dtypes import INT32, TensorType
from braces.errors import ProgramError
from braces.frontend.control.block import block
from braces.frontend.optimizer.core.state import first_value, free_name, new_state
from braces.frontend.optimizer.core.transforms import part
from braces.jaxpr.trace import trace
from braces.lazy import jax, optax


@with_user_line
def ema(
    parameters: Iterable[Var],
    decay: float | None = 0.999,
    *,
    debias: bool = True,
    name: str | None = None,
) -> dict[Var, Var]:
    """Exponential moving averages of updated parameters, as states: `ema/fc.w` for `fc.w`.

        average' = average + step * (p' - average)

    where step is (1 - decay) / (1 - decay^t) in the t-th run, which removes the bias towards
    the initial value. Without `debias` it is 1 - decay, and the initial value counts as the
    average so far. Without a decay it is 1 / t: the mean of all (Polyak, Juditsky, Acceleration
    of Stochastic Approximation by Averaging, 1992).

    `prog.for_test(values=averages)` is the program with averages in place of parameters; they
    are saved with it. Averages are updated in every run, also if the optimizer skips its step.

    Args:
        parameters: The result of `minimize`, or a subset of it.
        decay: Decay rate of the averages; `None` for the mean.
        debias: Whether to remove the bias towards the initial values.
        name: Prefix of the names of its states; `ema` by default.

    Returns:
        Each parameter and its average at the beginning of the run.

    Raises:
        ProgramError: If a variable has no optimizer, or the decay is outside [0, 1).

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [], init=1.0)
        ...     averages = br.optimizer.ema(br.optimizer.sgd(0.25).minimize(w * w), decay=0.5)
        >>> scope, exe = br.Scope(), br.Executor()
        >>> _ = exe.init(prog, scope)
        >>> for _ in range(2):
        ...     _ = exe.run(prog, scope)
        ...     print(scope.var("w").value, scope.var("ema/w").value)
        0.5 0.5
        0.25 0.33333334
        >>> exe.run(prog.for_test(values=averages), scope, fetch=prog.fetches)
        [array(0.11111112, dtype=float32)]
    """
    if decay is not None and not 0 <= decay < 1:
        raise ProgramError(
            f"ema: expected 0 <= decay < 1, got {decay}.",
            fix="Use 0.999, or None for the mean.",
        )
    params = list(dict.fromkeys(parameters))
    called, program = part("ema", name, lambda arguments: arguments), _program_of(params)
    next_values = [_next_value(program, param) for param in params]
    with program.transaction():
        first = free_name(program, called.name, chosen=called.chosen)
        count = new_state(f"{first}/count", TensorType(INT32, ()), 0.0)
        states = [
            new_state(f"{first}/{param.name}", *_initial_average(program, param))
            for param in params
        ]
        with block(first.removeprefix(program.current.names.prefix)):
            arguments = count, states, next_values
            steps, averages = trace(
                "The average", _average_function(decay, debias), *arguments
            ).build(*arguments)
            for state, value in zip((count, *states), (steps, *averages), strict=True):
                program.update(state.name, value.name)
    return dict(zip(params, states, strict=True))


def _average_function(decay: float | None, debias: bool) -> Any:
    """Return a JAX function of the next count and averages."""

    def averaged(count: Any, current_averages: list[Any], values: list[Any]) -> Any:
        steps: Any = optax.safe_increment(count)
        step: Any = 1.0 - (decay or 0.0)
        if decay is None:
            step = 1.0 / steps.astype("float64")
        elif debias:
            step = step / (1.0 - decay ** steps.astype("float64"))
        new_averages: Any = optax.incremental_update(values, current_averages, step)
        return steps, jax.tree.map(_cast_like, new_averages, current_averages)

    return averaged


def _cast_like(value: Any, template: Any) -> Any:
    return value.astype(template.dtype)


def _program_of(params: list[Any]) -> Builder:
    if not params or not all(isinstance(param, Var) for param in params):
        raise ProgramError(
            f"ema: expected parameters, got {params!r:.80}.",
            fix="Pass the result of minimize: ema(pairs).",
        )
    return params[0].program


def _next_value(program: Builder, param: Var) -> Var:
    """Return the next value of a parameter in a run."""
    name = program.updates.get(param.name) if param.program is program else None
    if name is None:
        raise ProgramError(
            f"`{param.name}` has no update to average.",
            fix="Minimize a loss first: ema(adam(1e-3).minimize(loss)).",
        )
    return named_var(program, name)


def _initial_average(program: Builder, param: Var) -> tuple[TensorType, Var]:
    """Return the type of an average and its initial value: that of the parameter."""
    first = first_value(program, param.name)
    if first is None:
        raise ProgramError(
            f"the average of `{param.name}` requires an initial value, which the startup "
            "program does not set.",
            fix="Create the parameter with an initializer.",
        )
    return TensorType(param.dtype, param.shape), first
