"""Checks of the arguments of a checkpoint: its step, its position in the data, and counts."""

from __future__ import annotations

import json
import operator
from typing import Any

from braces.errors import DTypeError, ProgramError
from braces.ir.limits import LARGEST_INT

LARGEST_POSITION = 1 << 20
"""The largest number of bytes of a data position as JSON."""
LARGEST_HISTORY = 1 << 28
"""The same for the position of a training, which has its history."""


def optional_count(number: int | None, name: str) -> int | None:
    """Return a positive number or `None`.

    Raises:
        ProgramError: If the number is neither.
    """
    if number is not None and (type(number) is not int or number < 1):
        raise ProgramError(
            f"invalid {name}={number!r}.", fix="Use an integer of at least 1, or None."
        )
    return number


def checked_step(step: Any) -> int:
    """Return the number of a step.

    Raises:
        ProgramError: If the step is not a 64-bit integer of at least 0.
    """
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if isinstance(step, bool) or not 0 <= number <= LARGEST_INT:
        raise ProgramError(f"invalid step {step!r:.80}.", fix="Use an integer of at least 0.")
    return number


def checked_position(position: Any, largest: int = LARGEST_POSITION) -> Any:
    """Return a deep copy of a data position.

    Raises:
        DTypeError: If the position is not plain JSON.
    """
    try:
        _check_plain(position)
        text = json.dumps(position, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DTypeError(
            "data_position is not JSON-serializable.",
            given=str(error),
            fix="Use None, bool, int, float, str, and lists and dicts of them, such as "
            "rng.bit_generator.state.",
        ) from None
    if len(text) > largest:
        history = "Measure fewer or smaller arrays: the position has the history of the epochs."
        raise DTypeError(
            f"data_position has {len(text)} bytes; expected at most {largest}.",
            fix="Save the position in the data, not the data."
            if largest == LARGEST_POSITION
            else history,
        )
    return json.loads(text)


def _check_plain(content: Any) -> None:
    """Refuse dict keys that are not strings, which JSON would change silently."""
    if isinstance(content, dict):
        for key, value in content.items():
            if not isinstance(key, str):
                raise TypeError(f"expected a string key, got {key!r:.80}")
            _check_plain(value)
    elif isinstance(content, list | tuple):
        for item in content:
            _check_plain(item)
