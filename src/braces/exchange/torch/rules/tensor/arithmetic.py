"""Rules of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from braces.exchange.common.rules import elementwise
from braces.exchange.common.rules.elementwise import (
    as_float,
    cast_to_dtype,
    invert_bits,
    small_power,
)
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.torch.graph.symbolic_ints import SymbolicBool
from braces.extend import functions as ops, pointwise
from braces.extend.building import Var, emit
from braces.extend.layers import truncated_divide, truncated_remainder
from braces.extend.operators import derived
from braces.extend.programs import Literal
from braces.extend.types import BOOL, FLOAT32, INT64, Dim, DType, is_float

# ---- dtypes ----------------------------------------------------------------------------------


def rank_of(dtype: DType) -> int:
    """Return the category of a dtype for promotion: bool, integer, float, complex."""
    if dtype.kind == "c":
        return 3
    return 2 if is_float(dtype) else int(dtype.kind != "b")


def promoted_dtype(*values: Any) -> DType:
    """Return the promoted dtype of operands in torch.

    Priority goes to arrays, then scalars, then Python numbers; a later group only counts if its
    category is higher.
    """
    arrays = [v for v in values if isinstance(v, Var)]
    promoted: DType | None = None
    for group in (
        [v.dtype for v in arrays if v.ndim],
        [v.dtype for v in arrays if not v.ndim],
        [_dtype_of_number(v) for v in values if not isinstance(v, Var)],
    ):
        if group:
            group_dtype = reduce(_wider, group)
            if promoted is None or rank_of(group_dtype) > rank_of(promoted):
                promoted = group_dtype
    return FLOAT32 if promoted is None else promoted


def _wider(left: DType, right: DType) -> DType:
    if rank_of(left) != rank_of(right):
        return left if rank_of(left) > rank_of(right) else right
    return np.promote_types(left, right)


def _dtype_of_number(value: Any) -> DType:
    if isinstance(value, bool | SymbolicBool):
        return BOOL
    return INT64 if isinstance(value, int | Dim) else FLOAT32


def operand(value: Any, dtype: DType) -> Any:
    """Return a variable, number or size in a dtype."""
    if isinstance(value, Dim | SymbolicBool):
        value = value.var() if isinstance(value, SymbolicBool) else number_of(value)
    if isinstance(value, Var):
        return cast_to_dtype(value, dtype)
    return np.asarray(value).astype(dtype)


# ---- rules -----------------------------------------------------------------------------------


def binary(op_type: str, logical: str = "") -> Callable[..., Var]:
    """Return the rule of a binary operator with dtype promotion; bools may use another one."""

    def rule(x: Any, y: Any) -> Var:
        dtype = promoted_dtype(x, y)
        chosen = logical if logical and dtype == BOOL else op_type
        return ops.function_of(chosen)(operand(x, dtype), operand(y, dtype))

    return rule


def on_floats(function: Callable[[Var], Var]) -> Callable[[Var], Var]:
    """Return the rule of a unary function of floats."""
    return lambda x: function(as_float(x))


def unary(op_type: str) -> Callable[[Var], Var]:
    """Return the rule of a unary operator on floats."""
    return on_floats(ops.function_of(op_type))


add_, subtract, multiply = binary("add", "logical_or"), binary("subtract"), binary("multiply")
multiply_ = binary("multiply", "logical_and")


def add(x: Any, y: Any, alpha: Any = 1) -> Var:
    """X + alpha y."""
    return add_(x, y if alpha == 1 else multiply(y, alpha))


def sub(x: Any, y: Any, alpha: Any = 1) -> Var:
    """X - alpha y."""
    return subtract(x, y if alpha == 1 else multiply(y, alpha))


def rsub(x: Any, y: Any, alpha: Any = 1) -> Var:
    """Y - alpha x."""
    return sub(y, x, alpha=alpha)


def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Var:
    """A quotient, with optional rounding down or towards zero."""
    dtype = promoted_dtype(x, y)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode == "trunc" and not is_float(dtype):
        return truncated_divide(as_variable(x, dtype), as_variable(y, dtype))
    float_dtype = dtype if is_float(dtype) else FLOAT32
    quotient = ops.divide(operand(x, float_dtype), operand(y, float_dtype))
    return quotient if rounding_mode is None else ops.trunc(quotient)


floor_divide, remainder = binary("floor_divide"), binary("remainder")


def fmod(x: Any, y: Any) -> Var:
    """A remainder with the sign of the dividend."""
    dtype = promoted_dtype(x, y)
    return truncated_remainder(as_variable(x, dtype), as_variable(y, dtype))


def power(x: Any, y: Any) -> Var:
    """A power; small integer exponents become products."""
    is_constant = isinstance(x, Var) and isinstance(y, int | float)
    special_case = small_power(x, y) if is_constant else None
    return binary("pow")(x, y) if special_case is None else special_case


def where(condition: Var, x: Any, y: Any) -> Var:
    """An elementwise selection."""
    dtype = promoted_dtype(x, y)
    return ops.where(cast_to_dtype(condition, BOOL), operand(x, dtype), operand(y, dtype))


def clamp(x: Var, low: Any = None, high: Any = None) -> Var:
    """Clamp to bounds."""
    dtype = promoted_dtype(*(v for v in (x, low, high) if v is not None))
    low, high = (None if v is None else operand(v, dtype) for v in (low, high))
    return elementwise.clamp(cast_to_dtype(x, dtype), low, high)


def bitwise(op_type: str) -> Callable[..., Var]:
    """Return the rule of a bitwise operator, which is logical on bools."""
    return binary(op_type, op_type.replace("bitwise", "logical"))


def logical(op_type: str) -> Callable[..., Var]:
    """Return the rule of a logical operator; nonzero is true."""
    return lambda *xs: ops.function_of(op_type)(*(cast_to_dtype(x, BOOL) for x in xs))


def round_decimals(x: Var, *, decimals: int = 0) -> Var:
    """Rounding to a number of decimals."""
    if not is_float(x.dtype):
        return x
    if decimals < 0:
        return ops.round(x / 10.0**-decimals) * 10.0**-decimals
    return ops.round(x * 10.0**decimals) / 10.0**decimals if decimals else ops.round(x)


def rounding_rule(op_type: str) -> Callable[[Var], Var]:
    """Return the rule of a rounding, which leaves integers unchanged."""
    return lambda x: ops.function_of(op_type)(x) if is_float(x.dtype) else x


def cast_to(x: Var, dtype: Any = None, *rest: Any) -> Var:
    """A cast, if there is a dtype."""
    return x if dtype is None or isinstance(dtype, bool) else cast_to_dtype(x, dtype)


def to_copy(x: Var, *, dtype: Any = None) -> Var:
    """A cast, if there is a dtype."""
    return cast_to(x, dtype)


def identity_rule(x: Var, *rest: Any, **options: Any) -> Var:
    """The identity: a copy, a view, or another memory format."""
    return x


def lerp(x: Var, y: Var, weight: Var) -> Var:
    """Linear interpolation, computed from the nearer end."""
    near, far = x + weight * (y - x), y - (1.0 - weight) * (y - x)
    return ops.where(ops.abs(weight) < 0.5, near, far)


def lerp_by_number(x: Var, y: Var, weight: complex) -> Var:
    """Linear interpolation with a constant weight."""
    return x + weight * (y - x) if abs(weight) < 0.5 else y - (1.0 - weight) * (y - x)


def addcmul(x: Var, a: Var, b: Var, *, value: Any = 1) -> Var:
    """X + value a b."""
    return add(x, multiply(a, b), alpha=value)


def addcdiv(x: Var, a: Var, b: Var, *, value: Any = 1) -> Var:
    """X + value a / b."""
    return add(x, ops.divide(a, b), alpha=value)


def nan_to_num(x: Var, nan: Any = None, above: Any = None, below: Any = None) -> Var:
    """Replace NaN and infinities."""
    return pointwise.nan_to_num(x, nan or 0.0, above, below)


def clamp_max(x: Var, high: Any) -> Var:
    """Clamp to an upper bound."""
    return clamp(x, None, high)


def polygamma(n: int, x: Var) -> Var:
    """A derivative of the digamma function."""
    return ops.polygamma(as_variable(n, INT64), as_float(x))


def mvlgamma(x: Var, p: int) -> Var:
    """The logarithm of the multivariate gamma function."""
    return ops.multigammaln(as_float(x), d=p)


def to_device(x: Var, device: str, *rest: Any) -> Var:
    """A cast, if there is a dtype; the device is ignored."""
    return cast_to(x, *rest)


def to_other(x: Var, other: Var, *rest: Any) -> Var:
    """A cast to the dtype of another array."""
    return cast_to_dtype(x, other.dtype)


def extreme_ignoring_nan(comparison: str) -> Callable[[Var, Var], Var]:
    """Return the rule of a maximum or minimum that ignores NaN; the first of ties wins."""

    def rule(x: Var, y: Var) -> Var:
        dtype = promoted_dtype(x, y)
        x, y = cast_to_dtype(x, dtype), cast_to_dtype(y, dtype)
        first = ops.function_of(comparison)(x, y)
        return ops.where(first | ops.isnan(y) if is_float(dtype) else first, x, y)

    return rule


def sign(x: Var) -> Var:
    """The sign of a number: its direction, if it is complex; 0 for NaN."""
    if x.dtype.kind == "c":
        size = ops.abs(x)
        zero = ops.equal(size, 0)
        return ops.where(zero, ops.zeros_like(x), x / ops.where(zero, 1.0, size))
    signs = ops.sign(x)
    return ops.where(ops.isnan(x), ops.zeros_like(x), signs) if is_float(x.dtype) else signs


def is_negative(x: Var) -> Var:
    """The sign bit."""
    return pointwise.signbit(x) if is_float(x.dtype) else x < 0


def copy_sign(x: Any, y: Any) -> Var:
    """A number with the sign of another one."""
    dtype = promoted_dtype(x, y, 1.0)
    return pointwise.copysign(*(as_variable(v, dtype) for v in (x, y)))


def as_variable(value: Any, dtype: DType) -> Var:
    """Return a value in a dtype as a variable."""
    converted = operand(value, dtype)
    return (
        converted
        if isinstance(converted, Var)
        else emit("constant", value=Literal.of(converted))
    )


def scale_by_power(x: Any, exponent: Any) -> Var:
    """X times 2 to a power."""
    return multiply(x, binary("pow")(2.0, exponent))


ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    **derived("torch", unary, "float"),
    **derived("torch", ops.function_of, "number", "product", "other"),
    **derived("torch", binary, "binary", "comparison"),
    **derived("torch", bitwise, "bitwise"),
    **derived("torch", logical, "logical"),
    **derived("torch", rounding_rule, "rounding"),
    **dict.fromkeys(
        ("alias", "alias_copy", "clone", "contiguous", "copy_to", "detach_copy", "lift_fresh",
         "lift_fresh_copy", "positive", "resolve_conj", "resolve_neg"), identity_rule,
    ),
    "add": add,
    "addcdiv": addcdiv,
    "addcmul": addcmul,
    "bitwise_not": invert_bits,
    "clamp": clamp,
    "clamp_max": clamp_max,
    "clamp_min": clamp,
    "clip": clamp,
    "copysign": copy_sign,
    "div": div,
    "fmax": extreme_ignoring_nan("greater_equal"),
    "fmin": extreme_ignoring_nan("less_equal"),
    "fmod": fmod,
    "ldexp": scale_by_power,
    "lerp": lerp,
    "lerp.Scalar": lerp_by_number,
    "log10": on_floats(pointwise.log10),
    "mul": multiply_,
    "mvlgamma": mvlgamma,
    "nan_to_num": nan_to_num,
    "polygamma": polygamma,
    "pow": power,
    "round": round_decimals,
    "rsub": rsub,
    "sgn": sign,
    "sign": sign,
    "signbit": is_negative,
    "sinc": pointwise.sinc,
    "sub": sub,
    "to.device": to_device,
    "to.dtype": cast_to,
    "to.other": to_other,
    "_to_copy": to_copy,
    "type_as": to_other,
    "where": where,
}  # fmt: skip
