"""What a check tells of a value that is wrong: one number, which travels with the run.

    0           nothing is wrong
    1           something is, and there is no value to tell
    2 v + 2     the value v is wrong
    1 - 2 v     the value v is wrong, and negative

The greatest of these numbers is what a run tells of an operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.lazy import jnp

_FURTHEST = 2**30 - 2
"""Values further from zero are told as being so, for numbers of 32 bits hold no more."""


def offender_code(wrong: Any, value: Any) -> Any:
    """For checks: what tells the integer `value` where it is `wrong`."""
    info = np.iinfo(value.dtype)
    low, high = max(info.min, -_FURTHEST), min(info.max, _FURTHEST)
    near = jnp.clip(value, low, high).astype(jnp.int32)
    return jnp.where(wrong, jnp.where(near < 0, 1 - 2 * near, 2 * near + 2), 0)


def max_code(found: Any) -> Any:
    """The one number that is told of what a check gives: bools, or codes of offenders."""
    return jnp.max(jnp.asarray(found).astype(jnp.int32), initial=0)


def decode_offender(code: int) -> str | None:
    """The value that was told, as text."""
    if code < 2:
        return None
    value = (1 - code) // 2 if code % 2 else (code - 2) // 2
    if abs(value) == _FURTHEST:
        return f"{_FURTHEST} or more" if value > 0 else f"-{_FURTHEST} or less"
    return str(value)
