"""Numerical derivatives by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

STEP = 1e-5


def central_differences(
    function: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    values: Mapping[str, Any],
    name: str,
    scalars: Sequence[str],
    step: float = STEP,
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the derivatives of scalars by every element of an array.

        df/dx = (f(x + step) - f(x - step)) / (2 step)

    Args:
        function: A function from arrays by name to scalars by name.
        values: The arrays.
        name: The array that the derivatives are by.
        scalars: The scalars; the derivative of one that the function does not return is 0.
        step: The distance to each side.

    Returns:
        For each scalar an array of the shape of `values[name]`.

    Example:
        >>> f = lambda values: {"y": np.sum(values["x"] ** 3)}
        >>> central_differences(f, {"x": np.array([1.0, 2.0])}, "x", ["y"])["y"].round(6)
        array([ 3., 12.])
    """
    value = np.asarray(values[name])
    derivatives = {key: np.zeros(value.shape) for key in scalars}
    for place in np.ndindex(*value.shape):
        move = np.zeros(value.shape)
        move[place] = step
        ahead, behind = (function({**values, name: value + d}) for d in (move, -move))
        for key in derivatives.keys() & ahead.keys():
            derivatives[key][place] = (ahead[key] - behind[key]) / (2 * step)
    return derivatives
