"""Tests of programs and operators: `br.testing`.

- `assert_modes_agree` runs a program compiled and interpreted and compares the results.
- `check_gradients` compares the derivatives of a function with central differences, to second
  order.
- `assert_allclose` compares arrays with tolerances that follow from their dtypes.
- `raises` expects an error of Braces that names a line of the user's file.
- `run` initializes a program in a new scope and runs it once.

They raise `AssertionError`, so they work with any test runner.

Example:
    >>> import numpy as np
    >>> import braces as br
    >>> def softplus(x: br.Var) -> br.Var:
    ...     return br.log1p(br.exp(-br.abs(x))) + br.maximum(x, 0.0)
    >>> br.testing.check_gradients(softplus, np.linspace(-2.0, 2.0, 6))
"""

from __future__ import annotations

from braces.testing.errors import Caught as Caught, raises as raises
from braces.testing.gradients import check_gradients as check_gradients
from braces.testing.modes import assert_modes_agree as assert_modes_agree, run as run
from braces.testing.tolerances import assert_allclose as assert_allclose

__all__ = [
    "Caught",
    "assert_allclose",
    "assert_modes_agree",
    "check_gradients",
    "raises",
    "run",
]


def __dir__() -> list[str]:
    return sorted(__all__)
