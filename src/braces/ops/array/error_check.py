"""A value with a condition under which the run fails."""

from __future__ import annotations

from typing import Any

from braces.define.decorator import Tensor, op
from braces.dtypes import BOOL, DType
from braces.errors import DTypeError, RunError
from braces.lazy import jnp
from braces.ops.array.identity import axes_beside, pass_gradient, pass_tangent


def error_if_dtypes(what: str, x: DType, failed: DType, **_: Any) -> DType:
    """The dtype of the value; the condition is a bool."""
    if failed != BOOL:
        raise DTypeError(
            f"{what}: expected dtype bool for `failed`, got {failed}.",
            fix="Pass a comparison.",
        )
    return x


@op(
    axes=axes_beside("failed", failed=False),
    dtypes=error_if_dtypes,
    operations=0,
    examples=(
        "x=f32[2,3] failed=bool[3] message='large'",
        "x=f64[b,4] failed=bool[] message='unsorted'",
        "x=i32[] failed=bool[0,2] message='empty'",
    ),
)
def error_if(x: Tensor, failed: Tensor, *, message: str) -> Tensor:
    """The input, with a condition under which the run fails.

        out = x

    The condition is checked where the result is used. The run fails with `message` if any entry
    of `failed` is true; its updates are then not committed.

    Inputs:
        x: any[*shape].
        failed: bool[*any].

    Attributes:
        message: The message of the error.

    Outputs:
        out: any[*shape].

    Raises:
        DTypeError: If the condition is not a bool.
        RunError: If an entry of the condition is true in a run.

    Example:
        >>> import braces as br, numpy as np
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["n"])
        ...     out = br.sqrt(br.error_if(x, x < 0, message="negative input"))
        >>> br.Executor().run(prog, br.Scope(), feed={"x": np.float32([4, -1])}, fetch=out)
        Traceback (most recent call last):
        ...
        braces.errors.RunError: negative input
          at: op `error_if_0` (error_if), built at ...
    """
    return x


@error_if.checked(RunError, "{message}")
def failed_anywhere(x: Tensor, failed: Tensor, *, message: str) -> Any:
    """Run-time check: an entry of the condition is true."""
    del x, message
    return jnp.any(failed)


error_if.gradient(pass_gradient)
error_if.jvp(pass_tangent)
