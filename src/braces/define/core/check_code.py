"""Check failure codes: a failed check and its offending value as one integer.

    0           no failure
    1           failure without a value
    2 v + 2     failure, offending value v
    1 - 2 v     failure, negative offending value v

A run reports the largest code of an operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from braces.errors import BracesError, IndexRangeError
from braces.lazy import jnp

_FURTHEST = 2**30 - 2
"""Clipping bound: values further from zero do not fit into 32-bit codes."""


def encode_offender(wrong: Any, value: Any) -> Any:
    """Return the code of each integer `value` that is `wrong`; for use in checks."""
    info = np.iinfo(value.dtype)
    low, high = max(info.min, -_FURTHEST), min(info.max, _FURTHEST)
    near = jnp.clip(value, low, high).astype(jnp.int32)
    return jnp.where(wrong, jnp.where(near < 0, 1 - 2 * near, 2 * near + 2), 0)


def worst_code(codes: Any) -> Any:
    """Return the largest code of a check's result: bools, or codes."""
    return jnp.max(jnp.asarray(codes).astype(jnp.int32), initial=0)


def decode_offender(code: int) -> str | None:
    """Return the offending value of a code as text."""
    if code < 2:
        return None
    value = (1 - code) // 2 if code % 2 else (code - 2) // 2
    if abs(value) == _FURTHEST:
        return f"{_FURTHEST} or more" if value > 0 else f"-{_FURTHEST} or less"
    return str(value)


def add_operands(error: BracesError, operands: Iterable[tuple[str, Any]]) -> BracesError:
    """Return the error of an index with the types of the operands, which have the axis.

    Args:
        error: The error of a failed check.
        operands: The operands: slots and types.
    """
    if isinstance(error, IndexRangeError):
        shown = [f"{slot}: {type_}" for slot, type_ in operands]
        error.given = "   ".join(filter(None, (error.given, *shown)))
    return error
