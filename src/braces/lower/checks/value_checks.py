"""Checks of values: operators that produce a NaN, or an infinity from finite inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.dtypes import is_float
from braces.ir.records import Literal, Op
from braces.lazy import jax, jnp

NAN, INF = "NaN", "infinity"
ValueChecks: TypeAlias = tuple[str, ...]
"""The kinds of values that fail a run: some of `NAN` and `INF`."""


def value_checks(check_nan: bool, check_inf: bool) -> ValueChecks:
    """Return the checks of these options.

    Example:
        >>> value_checks(True, False), value_checks(True, True)
        (('NaN',), ('NaN', 'infinity'))
    """
    return (NAN,) * bool(check_nan) + (INF,) * bool(check_inf)


def is_wrong(checks: ValueChecks, op: Op, env: Mapping[str, Any]) -> Any:
    """Return whether an output of an operator fails a check."""
    outputs = [env[name] for name in op.binds()]
    wrong = has_nan(outputs) if NAN in checks else jnp.asarray(False)
    if INF in checks and can_overflow(op):
        wrong |= has_inf(outputs) & ~has_inf([env[name] for name in op.reads()])
    return wrong


def can_overflow(op: Op) -> bool:
    """Return whether an infinity in an output is due to the operator itself.

    It is not for constants, such as the `-inf` of a mask, nor for operators with blocks, whose
    own operators are checked.
    """
    return bool(op.inputs) and not op.bodies() and not any(map(_is_inf, op.attrs.values()))


def _is_inf(value: Any) -> bool:
    value = value.array() if isinstance(value, Literal) else value
    if isinstance(value, float | np.generic | np.ndarray):
        array = np.asarray(value)  # pyright: ignore[reportUnknownArgumentType]
        return is_float(array.dtype) and bool(np.isinf(array).any())
    return isinstance(value, tuple) and any(map(_is_inf, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def has_nan(values: Sequence[Any]) -> Any:
    """Return whether any array among these values has a NaN."""
    return _any(jnp.isnan, values)


def has_inf(values: Sequence[Any]) -> Any:
    """Return whether any array among these values has an infinity."""
    return _any(jnp.isinf, values)


def _any(test: Any, values: Sequence[Any]) -> Any:
    leaves = jax.tree.leaves(values)
    flags = [jnp.any(test(x)) for x in leaves if is_float(np.dtype(x.dtype))]
    return jnp.any(jnp.stack(flags)) if flags else jnp.asarray(False)
