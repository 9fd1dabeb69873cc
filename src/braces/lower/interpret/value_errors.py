"""Errors of operators that produce a NaN, or an infinity from finite inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.dtypes import is_float
from braces.errors import InfinityError, NaNError
from braces.ir.records import Op
from braces.lower.checks.value_checks import (
    INF,
    NAN,
    ValueChecks,
    can_overflow,
    has_inf,
    has_nan,
)
from braces.ops.lists.stack import Stack

_FIX = "Inspect earlier values with a listener, or keep_scopes=True."
Role: TypeAlias = Callable[[str], str]
"""Returns the role of an output, such as ``the gradient of `x` ``; empty for none."""


def find_no_role(path: str, op: Op, name: str) -> str:
    """Return an empty role."""
    return ""


def refuse_values(checks: ValueChecks, op: Op, env: Mapping[str, Any], role: Role) -> None:
    """Raise an error if an operator produced a value that fails a check.

    Raises:
        NaNError: If an output has a NaN; the error names the output, and the inputs with a NaN.
        InfinityError: If an output has an infinity, and no input has one.
    """
    for name in op.binds() if NAN in checks else ():
        if _has(has_nan, env[name]):
            before = [n for n in op.reads() if _has(has_nan, env[n])]
            raise NaNError(
                f"{op.type} produced a NaN in {_described(name, role)}.",
                given="NaN in its inputs: " + (", ".join(before) or "none"),
                fix=_FIX,
            )
    if INF in checks and can_overflow(op):
        _refuse_infinity(op, env, role)


def _refuse_infinity(op: Op, env: Mapping[str, Any], role: Role) -> None:
    infinite = [name for name in op.binds() if _has(has_inf, env[name])]
    if infinite and not any(_has(has_inf, env[name]) for name in op.reads()):
        ranges = (f"`{name}`{_range_text(env[name])}" for name in dict.fromkeys(op.reads()))
        raise InfinityError(
            f"{op.type} produced an infinity in {_described(infinite[0], role)}.",
            given="its inputs are finite: " + ", ".join(ranges),
            fix=_FIX,
        )


def _described(name: str, role: Role) -> str:
    """Return a variable with its role: `` `multiply_1`, the gradient of `h` ``."""
    said = role(name)
    return f"`{name}`, {said}" if said else f"`{name}`"


def _range_text(value: Any) -> str:
    """Return the smallest and largest number of an array; empty for another value."""
    if isinstance(value, Stack) or not is_float(value.dtype) or not value.size:
        return ""
    if value.dtype.kind == "c":
        return ""
    array = np.asarray(value).astype(np.float64)
    return f" from {array.min():.4g} to {array.max():.4g}"


def _has(test: Callable[[Sequence[Any]], Any], value: Any) -> bool:
    return not isinstance(value, Stack) and bool(test([value]))
