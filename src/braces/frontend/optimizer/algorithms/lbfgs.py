"""Quasi-Newton optimizers with a line search."""

from __future__ import annotations

from typing import Any

from braces.builder.source_line import with_user_line
from braces.errors import ProgramError
from braces.frontend.optimizer.core.chain import make_descent
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import LearningRate, UpdateArgs, part
from braces.lazy import optax


@record_call
@with_user_line
def lbfgs(
    learning_rate: LearningRate | None = None,
    memory_size: int = 10,
    *,
    scale_init_precond: bool = True,
    linesearch: bool = True,
    max_linesearch_steps: int = 20,
    name: str | None = None,
) -> Optimizer:
    """L-BFGS: quasi-Newton directions from the last steps, with a line search.

        p' = p - s * H g

    where H approximates the inverse Hessian from the last differences of parameters and
    gradients, and s comes from a line search for the Wolfe conditions. The search is a loop
    with a condition, in the program, that recomputes the loss and its gradient in each
    iteration. Losses may have loops. Use it for full-batch losses: random
    operators that depend on the parameters are refused.

    States: `count`, `params`, `updates`, `diff_params_memory`, `diff_updates_memory`,
    `weights_memory`; of the search `learning_rate`, its step, `value`, `grad` and `info`.
    Source: Liu, Nocedal, On the Limited Memory BFGS Method for Large Scale Optimization, 1989;
    Nocedal, Wright, Numerical Optimization, algorithms 3.5, 3.6 and 7.4.

    Args:
        learning_rate: Factor of the direction before the search: a number, a schedule, or a
            scalar variable; 1 by default.
        memory_size: Number of past steps in the approximation.
        scale_init_precond: Whether to scale the initial approximation by the last step.
        linesearch: Whether to search along the direction.
        max_linesearch_steps: Maximum number of iterations of a search.
        name: Prefix of the names of its states.

    Raises:
        ProgramError: If both the learning rate and the line search are missing, or a number is
            below 1.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=[-1.0, 2.0], dtype="float64")
        ...     x, y = w[0], w[1]
        ...     loss = br.square(1.0 - x) + 100.0 * br.square(y - br.square(x))
        ...     pairs = br.optimizer.lbfgs().minimize(loss)
        >>> scope, exe = br.Scope(), br.Executor()
        >>> _ = exe.init(prog, scope)
        >>> for _ in range(50):
        ...     _ = exe.run(prog, scope)
        >>> scope.var("w").value.round(6)
        array([1., 1.])
    """
    if learning_rate is None and not linesearch:
        raise ProgramError(
            "lbfgs requires a learning rate or a line search.",
            fix="Use lbfgs() for a line search, or lbfgs(0.1) for a fixed rate.",
        )
    if memory_size < 1 or max_linesearch_steps < 1:
        raise ProgramError(
            "lbfgs: expected memory_size and max_linesearch_steps of 1 or more.",
            given=f"memory_size={memory_size}, max_linesearch_steps={max_linesearch_steps}",
            fix="Use the defaults, lbfgs().",
        )

    def make(args: UpdateArgs) -> Any:
        search = optax.scale_by_zoom_linesearch(
            max_linesearch_steps, initial_guess_strategy="one"
        )
        return optax.lbfgs(
            args.rate, memory_size, scale_init_precond, search if linesearch else None
        )

    if learning_rate is None:
        return Optimizer((part("lbfgs", name, make, whole=True),))
    return make_descent("lbfgs", name, learning_rate, make)
