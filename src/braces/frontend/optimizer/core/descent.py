"""Optimizers with a learning rate, declared by the transformation of optax that they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from braces.builder.source_line import with_user_line
from braces.frontend.core.argument_docs import with_arguments
from braces.frontend.optimizer.core.chain import make_descent
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import Make, check_mask

P = ParamSpec("P")

ARGUMENTS = {
    "learning_rate": "A number, a schedule, or a scalar variable.",
    "momentum": "Decay rate of the sum of updates.",
    "b1": "Decay rate of the mean.",
    "b2": "Decay rate of the mean square.",
    "epsilon": "Small constant against division by zero.",
    "epsilon_root": "The same inside the square root.",
    "weight_decay": "Coefficient of the weight decay.",
    "mask": "Selects the parameters with weight decay.",
    "nesterov": "Whether to use Nesterov momentum.",
    "name": "Prefix of the names of its states.",
}
"""Descriptions of arguments that optimizers share."""


def descent(**texts: str) -> Callable[[Callable[P, Make]], Callable[P, Optimizer]]:
    """Declare an optimizer by a function that returns the constructor of its transformation.

    The function has the signature of the optimizer, with `learning_rate` and `name`. Its
    docstring gets the section `Args:`.

    Args:
        texts: Descriptions of arguments other than those of `ARGUMENTS`.
    """

    def declare(function: Callable[P, Make]) -> Callable[P, Optimizer]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def create(*args: P.args, **kwargs: P.kwargs) -> Optimizer:
            make = function(*args, **kwargs)
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            options = call.arguments
            check_mask(options.get("mask"))
            return make_descent(
                function.__name__, options["name"], options["learning_rate"], make
            )

        create.__doc__ = with_arguments(function, {**ARGUMENTS, **texts})
        function.__annotations__["return"] = "Optimizer"
        return record_call(with_user_line(create))

    return declare
