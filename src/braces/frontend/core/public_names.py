"""Further public names: array creation, constants, dtypes, and hints for unknown names.

Names of other libraries are not aliases. Accessing one is an error that suggests the Braces
name: `br.elementwise_add` suggests `br.add`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from math import e as e, inf as inf, nan as nan, pi as pi
from types import ModuleType
from typing import Any, NoReturn, cast

import numpy as np

from braces import errors
from braces.builder.append import as_var, call, emit
from braces.builder.scalar_promotion import as_array, cast_literal, numbers
from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.dims import Dim
from braces.dtypes import SHORT_NAMES, dtype_of
from braces.errors import DTypeError, ProgramError, did_you_mean
from braces.frontend.core.functions import UNLISTED
from braces.frontend.core.random_state import as_shape
from braces.frontend.core.variables import constant
from braces.homes import MODULES
from braces.keywords import hint_keywords

__all__ = [
    "arange", "asarray", "bfloat16", "bool", "complex64", "complex128", "e", "einsum",
    "float16", "float32", "float64", "full", "inf", "int8", "int16", "int32", "int64", "nan",
    "newaxis", "ones", "pi", "uint8", "uint16", "uint32", "uint64", "zeros",
]  # fmt: skip

# ---- array creation --------------------------------------------------------------------------


@with_user_line
def full(shape: Sequence[Any] | int | Dim, value: Any, dtype: object = None) -> Var:
    """Create an array filled with one number.

    Args:
        shape: Numbers or symbolic dimensions, as `[x.shape[0], 4]`.
        value: A number, or a scalar variable.
        dtype: The dtype; by default that of the number: float32, int64 or bool.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.full([2, 3], 7).type, br.full((2,), 0.5, "f64").type)
        i64[2,3] f64[2]
    """
    sizes = as_shape(shape)
    if isinstance(value, Var | Dim):
        value = as_var(value)
        filled = value if dtype is None else emit("cast", value, dtype=dtype)
        return emit("broadcast_to", filled, shape=sizes)
    number: Any = numbers(value)
    if number.ndim:
        raise DTypeError(
            f"full: expected a scalar, got {value!r:.60}.", fix="Use br.constant for an array."
        )
    array = as_array(value) if dtype is None else cast_literal(value, dtype_of(dtype))
    if number.dtype.kind == "c" or float(number) != number.item() == number.item():
        # The attribute is a float and cannot represent this number exactly.
        return emit("broadcast_to", as_var(array), shape=sizes)
    return emit("full", shape=sizes, value=float(number), dtype=array.dtype)


@hint_keywords
def zeros(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """Create an array of zeros; see `full`."""
    return full(shape, 0, dtype)


@hint_keywords
def ones(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """Create an array of ones; see `full`."""
    return full(shape, 1, dtype)


@with_user_line
def arange(start: Any, stop: Any = None, step: int = 1, dtype: object = "int64") -> Var:
    """Create evenly spaced integers: `arange(stop)`, or `arange(start, stop, step)`.

    Args:
        start: The first integer. A single argument is `stop`, and the first integer is 0.
        stop: The end, exclusive.
        step: The distance between neighbors; negative to count down.
        dtype: The dtype of the result.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 4])
        ...     print(br.arange(x.shape[0]).type, br.arange(1, 10, 3).type)
        i64[batch] i64[3]
    """
    first, end = (0, start) if stop is None else (start, stop)
    for bound in (first, end, step):
        if isinstance(bound, Var):
            raise ProgramError(
                f"arange: expected integers or sizes as bounds, got `{bound.name}`.",
                given=f"{bound.name}: {bound.type}",
                fix=f"Use x.shape[0], or br.as_size({bound.name}) outside of loops.",
            )
        if isinstance(bound, float | np.floating):
            raise DTypeError(
                f"arange: expected integer bounds, got {bound}.",
                fix="Use br.linspace(start, stop, num), or br.arange(n, dtype='f32') * step.",
            )
    return emit("arange", start=first, stop=end, step=step, dtype=dtype)


@hint_keywords
def asarray(value: Any, dtype: object = None) -> Var:
    """Convert a number, nested list or array to a constant; return a variable unchanged."""
    if not isinstance(value, Var):
        return constant(value, dtype)
    return value if dtype is None else emit("cast", value, dtype=dtype)


def einsum(equation: str, *xs: Any, name: str = "") -> Var:
    """Tensor contraction in Einstein notation.

    Args:
        equation: As `"bij,bjk->bik"`; see the operator in the reference.
        xs: The operands.
        name: The name of the operator.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["b", 3, 4])
        ...     print(br.einsum("bij,bkj->bik", x, x).type)
        f32[b,3,3]
    """
    is_sequence = len(xs) == 1 and isinstance(xs[0], list | tuple)
    operands = cast("Sequence[Any]", xs[0]) if is_sequence else xs
    return call("einsum", *operands, equation=equation, name=name)


# ---- constants and dtypes --------------------------------------------------------------------

newaxis = None
bool = SHORT_NAMES["bool"]
int8, int16, int32, int64 = (SHORT_NAMES[name] for name in ("i8", "i16", "i32", "i64"))
uint8, uint16, uint32, uint64 = (SHORT_NAMES[name] for name in ("u8", "u16", "u32", "u64"))
bfloat16, float16 = SHORT_NAMES["bf16"], SHORT_NAMES["f16"]
float32, float64 = SHORT_NAMES["f32"], SHORT_NAMES["f64"]
complex64, complex128 = SHORT_NAMES["c64"], SHORT_NAMES["c128"]

# ---- listed and missing names ----------------------------------------------------------------

UNLISTED_NAMES = (*UNLISTED, "Variable")
"""Aliases that are not listed. `Variable` makes a parameter; a listing would show it next to
`Var`, the type of all results, and `var`, the variance."""


def listed(names: Mapping[str, Any]) -> list[str]:
    """Return the names that `dir(br)` shows: each public name without aliases.

    Errors are available as `br.ShapeError` and listed in `br.errors`; only their base class is
    listed here.
    """
    hidden = {*UNLISTED_NAMES, *dir(errors)} - {"BracesError"}
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_")
        and name not in hidden
        and (name in MODULES or not isinstance(value, ModuleType))
    )


def missing(name: str) -> NoReturn:
    """Raise an error for an unknown `br.NAME` that suggests a replacement.

    Raises:
        AttributeError: If the name does not exist.
        ImportError: If the name has an answer, and `from braces import NAME` looks for it.
            Python would replace the message of an `AttributeError`.
    """
    if name.startswith("_"):  # looked up by tools, not by users
        raise AttributeError(f"module br has no attribute `{name}`.", name=name)
    from braces.hints.answers import answer_name  # on an error only
    from braces.hints.trail import is_import

    frame = inspect.currentframe()
    fix = answer_name("br", name, frame)
    if fix and is_import(frame):
        raise ImportError(f"cannot import name '{name}' from 'braces'. {fix}", name=name)
    known = [*dir(sys.modules["braces"]), *UNLISTED_NAMES, *dir(errors)]
    fix = fix or did_you_mean(name, known) or "See dir(braces)."
    message = f"module br has no attribute `{name}`. {fix}"
    raise AttributeError(message, name=name)
