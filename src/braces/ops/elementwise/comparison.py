"""Elementwise comparison and logic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from braces.define.completed_doc import described
from braces.define.decorator import Tensor, op
from braces.dtypes import BOOL, DType
from braces.errors import DTypeError
from braces.lazy import jnp
from braces.ops.common.rules import (
    BOOLS,
    as_floating,
    promote_arrays,
    promotion_rule,
    to_bool,
    truth,
)
from braces.ops.elementwise.arithmetic import BINARY

COMPARED = (*BINARY, "x=i64[3] y=i64[3]", "x=i32[b] y=f32[]")
LOGICAL = (
    "x=bool[2,3] y=bool[2,3]",
    "x=bool[b,4] y=bool[4]",
    "x=bool[0,2] y=bool[]",
)
TESTED = ("x=f32[2,3]", "x=f64[b,4]", "x=i32[3]", "x=f32[]")


comparison = replace(
    promotion_rule("c", to_bool, BOOLS), refuses="If the dtype is complex, which has no order."
)


@described("bool", BOOLS, "If an input is not bool.")
def logical(what: str, *dtypes: DType, **attrs: Any) -> DType:
    """Dtype rule: all inputs and the result are bool."""
    del attrs
    for dtype in dtypes:
        if dtype != BOOL:
            raise DTypeError(
                f"{what}: expected a bool dtype, got {dtype}.", fix="Compare first: `x != 0`."
            )
    return BOOL


def binary_comparison(dtypes: Any, examples: tuple[str, ...], commutative: bool = True) -> Any:
    """Return a decorator for elementwise binary operators with bool results."""
    return op(
        axes="..., ... -> ...",
        dtypes=dtypes,
        differentiable=False,
        commutative=commutative,
        examples=examples,
    )


equates, orders = (
    binary_comparison(truth, COMPARED),
    binary_comparison(comparison, COMPARED, commutative=False),
)
combines = binary_comparison(logical, LOGICAL)

# ---- comparison ------------------------------------------------------------------------------


@equates
def equal(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise equality; NaN is equal to nothing.

    out[i] = x[i] == y[i]
    """
    return jnp.equal(*promote_arrays(x, y))


@equates
def not_equal(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise inequality; NaN differs from everything.

    out[i] = x[i] != y[i]
    """
    return jnp.not_equal(*promote_arrays(x, y))


@orders
def less(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise comparison `x < y`.

    out[i] = x[i] < y[i]
    """
    return jnp.less(*promote_arrays(x, y))


@orders
def less_equal(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise comparison `x <= y`.

    out[i] = x[i] <= y[i]
    """
    return jnp.less_equal(*promote_arrays(x, y))


@orders
def greater(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise comparison `x > y`.

    out[i] = x[i] > y[i]
    """
    return jnp.greater(*promote_arrays(x, y))


@orders
def greater_equal(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise comparison `x >= y`.

    out[i] = x[i] >= y[i]
    """
    return jnp.greater_equal(*promote_arrays(x, y))


# ---- logic -----------------------------------------------------------------------------------


@combines
def logical_and(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise logical AND.

    out[i] = x[i] and y[i]
    """
    return jnp.logical_and(x, y)


@combines
def logical_or(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise logical OR.

    out[i] = x[i] or y[i]
    """
    return jnp.logical_or(x, y)


@combines
def logical_xor(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise logical XOR: true if exactly one input is true.

    out[i] = x[i] != y[i]
    """
    return jnp.logical_xor(x, y)


@op(
    axes="... -> ...",
    dtypes=logical,
    differentiable=False,
    examples=("x=bool[2,3]", "x=bool[b]", "x=bool[]"),
)
def logical_not(x: Tensor) -> Tensor:
    """Elementwise logical NOT.

        out[i] = not x[i]

    Raises:
        DTypeError: If `x` is not bool.
    """
    return jnp.logical_not(x)


@op(axes="... -> ...", dtypes=truth, differentiable=False, examples=TESTED)
def isnan(x: Tensor) -> Tensor:
    """Elementwise test for NaN.

        out[i] = isnan(x[i])

    Inputs:
        x: number[*shape]. Integers and bools are finite.
    """
    return jnp.isnan(as_floating(x))


@op(axes="... -> ...", dtypes=truth, differentiable=False, operations=2, examples=TESTED)
def isinf(x: Tensor) -> Tensor:
    """Elementwise test for infinities, positive or negative.

        out[i] = isinf(x[i])

    Inputs:
        x: number[*shape]. Integers and bools are finite.
    """
    return jnp.isinf(as_floating(x))


@op(axes="... -> ...", dtypes=truth, differentiable=False, examples=TESTED)
def isfinite(x: Tensor) -> Tensor:
    """Elementwise test for finite numbers: neither infinite nor NaN.

        out[i] = isfinite(x[i])

    Inputs:
        x: number[*shape]. Integers and bools are finite.
    """
    return jnp.isfinite(as_floating(x))
